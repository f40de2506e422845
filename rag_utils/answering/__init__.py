"""Hits to answers: sentences of the hits, spans of them, or what a language model writes from them.

QA-RAG's plug-ins stand between question, hits and model, its controls behind the model.
"""

from rag_utils.answering.controls import (
    VALIDATOR_SCHEMA,
    Control,
    ValidatedAnswerer,
    captured_json,
    false_reject_rate,
    validated,
)
from rag_utils.answering.decisions import DECISIONS, DecisionClassifier, cleaned_decision, read_decision
from rag_utils.answering.extractive import ExtractiveAnswerer
from rag_utils.answering.generation import LLMAnswerer, answer, decision, long_answer, short_answer
from rag_utils.answering.pairs import (
    PAIRS_SCHEMA,
    SUPPORT_SCHEMA,
    ClozePairs,
    ContextPlugin,
    LLMSupport,
    QAPair,
    is_supported,
    refined,
    support,
    word_support,
)
from rag_utils.answering.plugged import REFUSAL, RESPONSE_SCHEMA, Material, PluginAnswerer, from_context, from_pairs
from rag_utils.answering.plugins import QUERY_SCHEMA, REWRITE_SCHEMA, ClauseSplitter, QueryPlugin, QueryRewriter
from rag_utils.answering.spans import SpanAnswerer, asked_labels, best_span
from rag_utils.answering.steps import (
    Step,
    StepError,
    apply_steps,
    drop_duplicates,
    first,
    named_steps,
    within_words,
)
from rag_utils.answering.typed import TypedAnswerer, frequent_names, question_type

__all__ = [
    "DECISIONS",
    "PAIRS_SCHEMA",
    "QUERY_SCHEMA",
    "REFUSAL",
    "RESPONSE_SCHEMA",
    "REWRITE_SCHEMA",
    "SUPPORT_SCHEMA",
    "VALIDATOR_SCHEMA",
    "ClauseSplitter",
    "ClozePairs",
    "ContextPlugin",
    "Control",
    "DecisionClassifier",
    "ExtractiveAnswerer",
    "LLMAnswerer",
    "LLMSupport",
    "Material",
    "PluginAnswerer",
    "QAPair",
    "QueryPlugin",
    "QueryRewriter",
    "SpanAnswerer",
    "Step",
    "StepError",
    "TypedAnswerer",
    "ValidatedAnswerer",
    "answer",
    "apply_steps",
    "asked_labels",
    "best_span",
    "captured_json",
    "cleaned_decision",
    "decision",
    "drop_duplicates",
    "false_reject_rate",
    "first",
    "frequent_names",
    "from_context",
    "from_pairs",
    "is_supported",
    "long_answer",
    "named_steps",
    "question_type",
    "read_decision",
    "refined",
    "short_answer",
    "support",
    "validated",
    "within_words",
    "word_support",
]
