"""Queries to hits: retrievers with one verb, their fusions, filters from a table, and a reranker on top."""

from rag_utils.retrieval.boosted import BoostedFields, coordinate_search, expected_hits
from rag_utils.retrieval.families import (
    KeywordFusionRetriever,
    MetadataRetriever,
    QueryFusionRetriever,
    duplicated_by_index,
)
from rag_utils.retrieval.filtered import Filtered
from rag_utils.retrieval.fusion import FUSIONS, fuse, fuse_hits
from rag_utils.retrieval.retrievers import DenseRetriever, HybridRetriever, LexicalRetriever, Remembered, Reranked
from rag_utils.retrieval.windows import SentenceWindowRetriever

__all__ = [
    "FUSIONS",
    "BoostedFields",
    "DenseRetriever",
    "Filtered",
    "HybridRetriever",
    "KeywordFusionRetriever",
    "LexicalRetriever",
    "MetadataRetriever",
    "QueryFusionRetriever",
    "Remembered",
    "Reranked",
    "SentenceWindowRetriever",
    "coordinate_search",
    "duplicated_by_index",
    "expected_hits",
    "fuse",
    "fuse_hits",
]
