"""Data sets by name: the only place that touches `datasets` and others' field names.

`catalogue.yaml` says what each data set consists of, `_sources` finds its rows (folder, hub, package), `_draft` turns
them into documents and queries, with a few `_adapters` between, `_corpus` splits, samples and notes what was used.
"""

from rag_utils.corpora._catalogue import list_corpora
from rag_utils.corpora._corpus import Corpus, is_dev, load_corpus

__all__ = ["Corpus", "is_dev", "list_corpora", "load_corpus"]
