"""Data sets by name: the only place that touches `datasets` and others' field names.

`_sources` finds the rows (folder, hub, package), `_rows` reads them and keeps the ledger of malformed ones, a small
reader per data set (`_encyclopedia`, `_abstracts`, `_news`, `_long_texts`, `_beir`) turns them into documents and
queries in a `_draft`, `_load` splits, samples and notes what was used.
"""

from rag_utils.corpora._catalogue import list_corpora
from rag_utils.corpora._corpus import Corpus, is_dev
from rag_utils.corpora._load import load_corpus

__all__ = ["Corpus", "is_dev", "list_corpora", "load_corpus"]
