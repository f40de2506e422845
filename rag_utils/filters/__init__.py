"""Filters on metadata: what they mean, for Python and the store, and how they are read from questions and replies."""

from rag_utils.filters.conditions import chroma_metadata, matcher, matches, to_chroma
from rag_utils.filters.extractors import LinearProbe, NamedSourceExtractor
from rag_utils.filters.quality import filter_quality, gold_filters, micro_averaged, named_values, paper_outlets
from rag_utils.filters.replies import LLMFilterExtractor, parse_filter
from rag_utils.filters.validation import allowed_fields, relax, validate_filter

__all__ = [
    "LLMFilterExtractor",
    "LinearProbe",
    "NamedSourceExtractor",
    "allowed_fields",
    "chroma_metadata",
    "filter_quality",
    "gold_filters",
    "matcher",
    "matches",
    "micro_averaged",
    "named_values",
    "paper_outlets",
    "parse_filter",
    "relax",
    "to_chroma",
    "validate_filter",
]
