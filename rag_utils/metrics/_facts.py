"""Scores of one question's retrieved texts against its gold facts (MultiHop-RAG)."""

import math
from collections import Counter
from collections.abc import Sequence

from rag_utils.metrics._ranking import average_precision, refuse_bare_text


def multihop_rag_scores(retrieved: Sequence[str], gold_facts: Sequence[str]) -> dict[str, float]:
    """Scores of one question exactly as the MultiHop-RAG benchmark's public script computes them.

    A chunk matches when it contains a gold fact once spaces and line ends are deleted from both. `map@10` is *not*
    average precision: each rank adds (facts found there first / rank), and the sum is divided by min(facts, 10), a
    repeated fact counting twice. For the standard definitions see `fact_scores`.

    Args:
        retrieved: Chunk texts, best first; those after the tenth are ignored.
        gold_facts: Verbatim evidence sentences; with none (null questions) every score is NaN.

    Returns:
        "hits@10", "hits@4", "map@10" and "mrr@10".

    Source: Tang & Yang, MultiHop-RAG, arXiv 2401.15391, `retrieval_evaluate.py`.
    """
    _, ranks = _first_fact_ranks(retrieved, gold_facts)
    if not gold_facts:
        return dict.fromkeys(("hits@10", "hits@4", "map@10", "mrr@10"), math.nan)
    first = min(ranks, default=math.inf)
    newly_found = 0.0
    for rank, new in Counter(ranks).items():  # added one by one in order of rank, as the script does: bit-exact
        newly_found += new / rank
    return {
        "hits@10": float(first <= 10),
        "hits@4": float(first <= 4),
        "map@10": newly_found / min(len(gold_facts), 10),
        "mrr@10": 1 / first,
    }


def fact_scores(retrieved: Sequence[str], gold_facts: Sequence[str]) -> dict[str, float]:
    """Standard scores of one question on the texts, and by the matching rule, of `multihop_rag_scores`.

    Repeated facts count once, and with no fact every score is NaN.

    Returns:
        "map@10_standard": average precision: the sum of (facts found so far / rank) over the ranks that bring a new
        fact, divided by min(facts, 10), and 1 where several facts in one chunk push it above. "facts@10": share of the
        facts found. "all_facts@10": 1 when all were found, else 0.
    """
    n_facts, ranks = _first_fact_ranks(retrieved, gold_facts)
    return {
        "map@10_standard": average_precision(ranks, n_facts, 10),
        "facts@10": len(ranks) / n_facts if n_facts else math.nan,
        "all_facts@10": float(len(ranks) == n_facts) if n_facts else math.nan,
    }


def _first_fact_ranks(retrieved: Sequence[str], gold_facts: Sequence[str]) -> tuple[int, list[int]]:
    """Number of distinct facts, and the rank (1-10, ascending) at which each found one appears first."""
    refuse_bare_text(retrieved=retrieved, gold_facts=gold_facts)
    facts = {_without_blanks(fact) for fact in gold_facts}
    missing, ranks = facts, []
    for rank, text in enumerate(retrieved[:10], start=1):
        chunk = _without_blanks(text)
        found = {fact for fact in missing if fact in chunk}
        missing = missing - found
        ranks += [rank] * len(found)
    return len(facts), ranks


def _without_blanks(text: str) -> str:
    return text.replace(" ", "").replace("\n", "")
