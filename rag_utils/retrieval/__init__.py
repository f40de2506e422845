"""Queries to hits: retrievers with one verb, their fusions, filters from a table, and a reranker on top."""

from rag_utils.retrieval.filtered import Filtered
from rag_utils.retrieval.fusion import FUSIONS, fuse, fuse_hits
from rag_utils.retrieval.retrievers import DenseRetriever, HybridRetriever, LexicalRetriever, Remembered, Reranked

__all__ = [
    "FUSIONS",
    "DenseRetriever",
    "Filtered",
    "HybridRetriever",
    "LexicalRetriever",
    "Remembered",
    "Reranked",
    "fuse",
    "fuse_hits",
]
