"""`python -m rag_utils.report README.md`: make the README's table of notebooks anew."""

import sys
from pathlib import Path

from rag_utils.report.readme import with_table

readme = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")
text = with_table(readme.read_text(encoding="utf-8"), readme.resolve().parent)
readme.write_text(text, encoding="utf-8", newline="\n")
