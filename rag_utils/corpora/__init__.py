"""Data sets by name: the only place that touches `datasets` and others' field names.

`catalogue.yaml` says what each data set consists of, `_sources` finds its rows (folder, hub, package), `_draft` turns
them into documents and queries, with a few `_adapters` between, `_corpus` splits, samples and notes what was used.
A folder of PDF, HTML, Markdown, text and Word files is read by `files`; pairs of answers with human votes, by
`_preferences`.
"""

from rag_utils.corpora._adapters import strip_citations
from rag_utils.corpora._catalogue import list_corpora
from rag_utils.corpora._corpus import Corpus, is_dev, load_corpus, require_side
from rag_utils.corpora._preferences import Preferences, load_preferences
from rag_utils.corpora._recorded import load_recorded

__all__ = [
    "Corpus",
    "Preferences",
    "is_dev",
    "list_corpora",
    "load_corpus",
    "load_preferences",
    "load_recorded",
    "require_side",
    "strip_citations",
]
