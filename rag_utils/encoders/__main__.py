"""`python -m rag_utils.encoders [FOLDER]`: write the model folders that come with the installed packages."""

import sys

from rag_utils.encoders.bundled import ModelError, prepare
from rag_utils.provenance import cache_folder


def main(arguments: list[str]) -> int:
    """Prepare the bundled models; 0 when they are there, 1 with the reason when they cannot be had."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    try:
        folders = prepare(arguments[0] if arguments else cache_folder() / "models")
    except ModelError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(f"ready: {folder}" for folder in folders))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
