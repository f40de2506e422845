"""Scores of one query's ranked ids against the relevant ones."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

Relevant = Collection[Hashable] | Mapping[Hashable, int]
"""The relevant ids, or id -> grade, where a grade above 0 is relevant."""


def hits_at_k(ranked: Sequence[Hashable], relevant: Relevant, k: int) -> float:
    """Whether any of the first k ids is relevant: 1 or 0; NaN when nothing is relevant.

    All functions on ranked ids raise TypeError when numbers meet texts among the ids, since 3 never equals "3", and
    ValueError when k is below 1. An id that is ranked twice counts once, at its first rank.
    """
    grades, ranks = _found(ranked, relevant, k)
    return float(bool(ranks)) if grades else math.nan


def recall_at_k(ranked: Sequence[Hashable], relevant: Relevant, k: int) -> float:
    """Share of the distinct relevant ids among the first k; NaN when nothing is relevant."""
    grades, ranks = _found(ranked, relevant, k)
    return len(ranks) / len(grades) if grades else math.nan


def reciprocal_rank_at_k(ranked: Sequence[Hashable], relevant: Relevant, k: int) -> float:
    """1 / rank of the first relevant id, 0 when there is none among the first k; NaN when nothing is relevant."""
    grades, ranks = _found(ranked, relevant, k)
    return 1 / min(ranks.values(), default=math.inf) if grades else math.nan


def average_precision_at_k(ranked: Sequence[Hashable], relevant: Relevant, k: int) -> float:
    """Mean precision at the ranks of the relevant ids; NaN when nothing is relevant.

    The sum of precisions within k is divided by min(distinct relevant ids, k), so that a perfect ranking scores 1;
    trec_eval divides by all relevant ids and differs when there are more than k.
    """
    grades, ranks = _found(ranked, relevant, k)
    return average_precision(ranks.values(), len(grades), k)


def ndcg_at_k(ranked: Sequence[Hashable], grades: Relevant, k: int) -> float:
    """Normalised discounted cumulative gain by trec_eval's formula; NaN when nothing is relevant.

    The gain of an id is its grade (1 each, when `grades` is a collection), discounted by log2(rank + 1) and divided by
    the gain of the best possible order.
    """
    relevant, ranks = _found(ranked, grades, k)
    if not relevant:
        return math.nan
    gain = math.fsum(relevant[item] / math.log2(rank + 1) for item, rank in ranks.items())
    best = sorted(relevant.values(), reverse=True)[:k]
    return gain / math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, start=1))


def _found(ranked: Sequence[Hashable], relevant: Relevant, k: int) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """Grade of every relevant id, and the first rank of those among the first k."""
    refuse_bare_text(ranked=ranked, relevant=relevant)
    if k < 1:
        raise ValueError(f"k is {k}: a cut-off is at least 1")
    graded = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1)
    grades = {item: grade for item, grade in graded.items() if grade > 0}
    top = ranked[:k]
    by_kind = {isinstance(item, str): item for item in (*top, *grades)}
    if len(by_kind) == 2:
        raise TypeError(f"ids mix text ({by_kind[True]!r}) and numbers ({by_kind[False]!r}): convert all with str()")
    ranks: dict[Hashable, int] = {}
    for rank, item in enumerate(top, start=1):
        if item in grades:
            ranks.setdefault(item, rank)
    return grades, ranks


def average_precision(first_ranks: Iterable[int], n_relevant: int, k: int) -> float:
    """Average precision from the ranks (1 to k) at which relevant items were first found; ranks may repeat."""
    if not n_relevant:
        return math.nan
    # One entry a rank: of several items found there, the last and largest count stays.
    found_by = {rank: found for found, rank in enumerate(sorted(first_ranks), start=1)}
    precisions = math.fsum(found / rank for rank, found in found_by.items())
    return min(1.0, precisions / min(n_relevant, k))


def refuse_bare_text(**arguments: object) -> None:
    """Raise TypeError for a text given where a list is meant: its letters would be taken for the items."""
    for name, value in arguments.items():
        if isinstance(value, str):
            raise TypeError(f"{name} is the single text {value[:40]!r}: pass a list")
