"""Hits to answers: sentences of the hits, spans of them, or what a language model writes from them."""

from rag_utils.answering.decisions import DECISIONS, DecisionClassifier, cleaned_decision, read_decision
from rag_utils.answering.extractive import ExtractiveAnswerer
from rag_utils.answering.generation import LLMAnswerer, answer, decision, long_answer, short_answer
from rag_utils.answering.spans import SpanAnswerer, asked_labels, best_span
from rag_utils.answering.typed import TypedAnswerer, frequent_names, question_type

__all__ = [
    "DECISIONS",
    "DecisionClassifier",
    "ExtractiveAnswerer",
    "LLMAnswerer",
    "SpanAnswerer",
    "TypedAnswerer",
    "answer",
    "asked_labels",
    "best_span",
    "cleaned_decision",
    "decision",
    "frequent_names",
    "long_answer",
    "question_type",
    "read_decision",
    "short_answer",
]
