"""`python -m rag_utils.runs`."""

import sys

from rag_utils.runs import main

if __name__ == "__main__":  # Dask's workers import this module again
    sys.exit(main())
