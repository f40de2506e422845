"""Chunks gain fields: phrases from embeddings, statistics, entities, acronyms and language models, and their pool."""

from rag_utils.enrichment.acronyms import AcronymEnricher
from rag_utils.enrichment.enriching import add_fields, enrich, extract_phrases
from rag_utils.enrichment.pool import Pool, leaks, metagen_pool
from rag_utils.enrichment.streams import (
    KEYBERT_PRESETS,
    EntityEnricher,
    KeyBERTEnricher,
    NounPhraseEnricher,
    YakeEnricher,
)
from rag_utils.enrichment.tags import TAG_SCHEMA, LLMTagEnricher, LLMTitleEnricher, read_values

__all__ = [
    "KEYBERT_PRESETS",
    "TAG_SCHEMA",
    "AcronymEnricher",
    "EntityEnricher",
    "KeyBERTEnricher",
    "LLMTagEnricher",
    "LLMTitleEnricher",
    "NounPhraseEnricher",
    "Pool",
    "YakeEnricher",
    "add_fields",
    "enrich",
    "extract_phrases",
    "leaks",
    "metagen_pool",
    "read_values",
]
