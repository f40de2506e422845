"""Answers compared in pairs: judging them, trusting the judge, rating the models."""

from rag_utils.arena.agreement import (
    agreement,
    as_verdicts,
    as_votes,
    ceiling,
    confusion,
    corrected_win_rates,
    length_bias,
    majority,
    position_bias,
)
from rag_utils.arena.judges import (
    LLMJudge,
    ScoreJudge,
    coverage,
    length,
    parse_rating,
    parse_rating_paper,
    similarity,
    variety,
)
from rag_utils.arena.judging import both_orders, judge_pairs, no_answer_ratio, paper_order, shown_both_ways, win_rates
from rag_utils.arena.ratings import Controlled, bradley_terry, budget_curve, elo, length_controlled
from rag_utils.arena.texts import NO_ANSWER, damaged, process_response
from rag_utils.corpora import strip_citations

__all__ = [
    "NO_ANSWER",
    "Controlled",
    "LLMJudge",
    "ScoreJudge",
    "agreement",
    "as_verdicts",
    "as_votes",
    "both_orders",
    "bradley_terry",
    "budget_curve",
    "ceiling",
    "confusion",
    "corrected_win_rates",
    "coverage",
    "damaged",
    "elo",
    "judge_pairs",
    "length",
    "length_bias",
    "length_controlled",
    "majority",
    "no_answer_ratio",
    "paper_order",
    "parse_rating",
    "parse_rating_paper",
    "position_bias",
    "process_response",
    "shown_both_ways",
    "similarity",
    "strip_citations",
    "variety",
    "win_rates",
]
