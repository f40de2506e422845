"""Scores of one query or one answer: pure functions of ids and strings, as plain floats between 0 and 1.

A query without anything to find has no score: its functions return NaN, never 0, and `mean_defined` counts it. A query
that found nothing scores 0. Only what a paper's script computes may leave the range, and says so.
"""

from rag_utils.metrics.answers import (
    ABSTENTIONS,
    answer_at_k,
    aurc,
    exact_match,
    is_abstention,
    macro_f1,
    risk_coverage,
    substring_accuracy,
    token_f1,
    token_precision,
    token_recall,
    word_overlap_accuracy,
)
from rag_utils.metrics.generation import Overlap, bleu, meteor, meteor_label, rouge_l, rouge_n
from rag_utils.metrics.retrieval import (
    Mean,
    Relevant,
    average_precision_at_k,
    fact_scores,
    hits_at_k,
    mean_defined,
    multihop_rag_scores,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
    trec_qrels,
    trec_run,
)

__all__ = [
    "ABSTENTIONS",
    "Mean",
    "Overlap",
    "Relevant",
    "answer_at_k",
    "aurc",
    "average_precision_at_k",
    "bleu",
    "exact_match",
    "fact_scores",
    "hits_at_k",
    "is_abstention",
    "macro_f1",
    "mean_defined",
    "meteor",
    "meteor_label",
    "multihop_rag_scores",
    "ndcg_at_k",
    "recall_at_k",
    "reciprocal_rank_at_k",
    "risk_coverage",
    "rouge_l",
    "rouge_n",
    "substring_accuracy",
    "token_f1",
    "token_precision",
    "token_recall",
    "trec_qrels",
    "trec_run",
    "word_overlap_accuracy",
]
