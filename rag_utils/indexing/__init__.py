"""Where chunks are kept for searching: BM25 per field, and vectors in Chroma."""

from rag_utils.indexing.dense import DenseIndex
from rag_utils.indexing.lexical import TIE_BREAKER, LexicalIndex, stems, words

__all__ = ["TIE_BREAKER", "DenseIndex", "LexicalIndex", "stems", "words"]
