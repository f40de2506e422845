"""Hits to answers: sentences of the hits, or what a language model writes from them."""

from rag_utils.answering.extractive import ExtractiveAnswerer
from rag_utils.answering.generation import LLMAnswerer, answer, decision, long_answer, short_answer

__all__ = ["ExtractiveAnswerer", "LLMAnswerer", "answer", "decision", "long_answer", "short_answer"]
