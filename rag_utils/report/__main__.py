"""`python -m rag_utils.report README.md [--check]`: write, or check, the README's table of notebooks."""

import argparse
import sys
from pathlib import Path

from rag_utils.report.readme import with_table


def main() -> int:
    """Rewrite the table; with `--check` only tell, by exit status 1, that it is out of date."""
    parser = argparse.ArgumentParser(prog="python -m rag_utils.report", description="The README's table of notebooks.")
    parser.add_argument("readme", type=Path, help="the file between whose markers the table stands")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the table is out of date")
    options = parser.parse_args()
    old = options.readme.read_text(encoding="utf-8")
    new = with_table(old, options.readme.resolve().parent)
    if options.check and new != old:
        print(f"{options.readme}: the table of notebooks is out of date; run `make readme`", file=sys.stderr)
        return 1
    if new != old:
        options.readme.write_text(new, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
