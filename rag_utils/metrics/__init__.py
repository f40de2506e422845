"""Scores of one query or one answer: pure functions of ids and strings, as plain floats between 0 and 1.

A query without anything to find has no score: its functions return NaN, never 0, and `mean_defined` counts it. A query
that found nothing scores 0.
"""

from rag_utils.metrics._answers import (
    ABSTENTIONS,
    exact_match,
    is_abstention,
    macro_f1,
    substring_accuracy,
    token_f1,
    word_overlap_accuracy,
)
from rag_utils.metrics._facts import fact_scores, multihop_rag_scores
from rag_utils.metrics._means import Mean, mean_defined
from rag_utils.metrics._ranking import (
    average_precision_at_k,
    hits_at_k,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
)
from rag_utils.metrics._trec import trec_qrels, trec_run

__all__ = [
    "ABSTENTIONS",
    "Mean",
    "average_precision_at_k",
    "exact_match",
    "fact_scores",
    "hits_at_k",
    "is_abstention",
    "macro_f1",
    "mean_defined",
    "multihop_rag_scores",
    "ndcg_at_k",
    "recall_at_k",
    "reciprocal_rank_at_k",
    "substring_accuracy",
    "token_f1",
    "trec_qrels",
    "trec_run",
    "word_overlap_accuracy",
]
