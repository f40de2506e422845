"""Documents into chunks, every chunk with its character offsets, and the gold evidence found again in them."""

from rag_utils.chunking._chunkers import (
    by_pieces,
    by_sentences,
    by_tokens,
    by_words,
    count_words_and_marks,
    passage,
    whole,
)
from rag_utils.chunking._gold import chunking_ceiling, gold_chunks, reachable_facts
from rag_utils.chunking._sentences import load_pipeline, no_use_for_entities, sentences

__all__ = [
    "by_pieces",
    "by_sentences",
    "by_tokens",
    "by_words",
    "chunking_ceiling",
    "count_words_and_marks",
    "gold_chunks",
    "load_pipeline",
    "no_use_for_entities",
    "passage",
    "reachable_facts",
    "sentences",
    "whole",
]
