"""Scores of ranked ids and of retrieved texts, means that say over how many, and the text forms of trec_eval."""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

Relevant = Collection[Hashable] | Mapping[Hashable, int]  # ids, or id -> grade, where a grade above 0 is relevant


class Mean(NamedTuple):
    """A mean with its denominator: `n` defined values, `dropped` undefined ones."""

    value: float
    n: int
    dropped: int

    def __str__(self) -> str:
        shown = f"{self.value:.4f}" if self.n else "-"
        return f"{shown} over {self.n} of {self.n + self.dropped} queries"


def mean_defined(values: Iterable[float]) -> Mean:
    """Mean of the values that are not NaN, with the counts of both kinds; NaN when none is defined."""
    values = list(values)
    defined = [value for value in values if not math.isnan(value)]
    return Mean(math.fsum(defined) / len(defined) if defined else math.nan, len(defined), len(values) - len(defined))


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
    return _average_precision(ranks.values(), len(grades), k) if grades else math.nan


def ndcg_at_k(ranked: Sequence[Hashable], grades: Relevant, k: int) -> float:
    """Normalised discounted cumulative gain by trec_eval's formula; NaN when nothing is relevant.

    The gain of an id is its grade (1 each, when `grades` is a collection), discounted by log2(rank + 1) and divided by
    the gain of the best possible order.
    """
    relevant, ranks = _found(ranked, grades, k)
    gain = math.fsum(relevant[item] / math.log2(rank + 1) for item, rank in ranks.items())
    best = sorted(relevant.values(), reverse=True)[:k]
    return gain / math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1)) if best else math.nan


def multihop_rag_scores(retrieved: Sequence[str], gold_facts: Sequence[str]) -> dict[str, float]:
    """Hits@10, hits@4, map@10 and mrr@10 of one question, exactly as the MultiHop-RAG benchmark's script has them.

    Of the retrieved texts, best first, ten are read. One matches when it contains a gold fact (a verbatim sentence),
    spaces and line ends deleted from both. `map@10` is *not* average precision: each rank adds (facts found there
    first / rank), and the sum is divided by min(facts, 10), a repeated fact counting twice. NaN without facts.

    Source: Tang & Yang, MultiHop-RAG, arXiv 2401.15391, `retrieval_evaluate.py`.
    """
    ranks = _first_ranks(retrieved, gold_facts)
    if not ranks:
        return dict.fromkeys(("hits@10", "hits@4", "map@10", "mrr@10"), math.nan)
    newly_found = 0.0
    for rank, new in Counter(ranks).items():  # added one by one in order of rank, as the script does: bit-exact
        newly_found += new / rank
    first, by_script = ranks[0], newly_found / min(len(gold_facts), 10)
    return {"hits@10": float(first <= 10), "hits@4": float(first <= 4), "map@10": by_script, "mrr@10": 1 / first}


def fact_scores(retrieved: Sequence[str], gold_facts: Sequence[str]) -> dict[str, float]:
    """Standard scores of one question; matching, cut-off and NaN as in `multihop_rag_scores`, repeats count once.

    `map@10_standard` is average precision: the sum of (facts found so far / rank) over the ranks that bring a new fact,
    divided by min(facts, 10), at most 1; `facts@10` is the share of facts found, `all_facts@10` whether all were.
    """
    ranks = _first_ranks(retrieved, gold_facts)
    if not ranks:
        return dict.fromkeys(("map@10_standard", "facts@10", "all_facts@10"), math.nan)
    found = [rank for rank in ranks if rank <= 10]
    average = _average_precision(found, len(ranks), 10)
    return {"map@10_standard": average, "facts@10": len(found) / len(ranks), "all_facts@10": float(found == ranks)}


def trec_run(run: Mapping[str, Mapping[str, float]], tag: str) -> str:
    """A run as trec_eval's text: `query Q0 id rank score tag`, best first, ties by id.

    trec_eval reads the scores only, breaks ties its own way, and skips queries without a line unless told `-c`.
    ValueError when an id or the tag is empty or holds white space, or a score is NaN.
    """
    lines = []
    for query, scores in run.items():
        if any(math.isnan(score) for score in scores.values()):
            raise ValueError(f"a score of query {query!r} is NaN: leave that hit out of the run")
        best_first = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
        lines += [_trec_line(query, "Q0", item, rank, float(s), tag) for rank, (item, s) in enumerate(best_first, 1)]
    return "".join(lines)


def trec_qrels(qrels: Mapping[str, Mapping[str, int]]) -> str:
    """Relevance grades as trec_eval's text: `query 0 id grade`; ids as in `trec_run`."""
    return "".join(_trec_line(query, 0, item, grade) for query, items in qrels.items() for item, grade in items.items())


def _found(ranked: Sequence[Hashable], relevant: Relevant, k: int) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """Grade of every relevant id, and the first rank of those among the first k."""
    refuse_bare_text(ranked=ranked, relevant=relevant)
    check_cut_off(k)
    graded = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1)
    grades = {item: grade for item, grade in graded.items() if grade > 0}
    top = ranked[:k]
    by_kind = {isinstance(item, str): item for item in (*top, *grades)}
    if len(by_kind) == 2:
        raise TypeError(f"ids mix text ({by_kind[True]!r}) and numbers ({by_kind[False]!r}): convert all with str()")
    return grades, {item: top.index(item) + 1 for item in dict.fromkeys(top) if item in grades}


def _first_ranks(retrieved: Sequence[str], gold_facts: Sequence[str]) -> list[float]:
    """The rank, 1 to 10 or infinite, at which each distinct fact appears first; ascending."""
    refuse_bare_text(retrieved=retrieved, gold_facts=gold_facts)
    chunks = [text.replace(" ", "").replace("\n", "") for text in retrieved[:10]]
    facts = {fact.replace(" ", "").replace("\n", "") for fact in gold_facts}
    return sorted(next((rank for rank, chunk in enumerate(chunks, 1) if fact in chunk), math.inf) for fact in facts)


def _average_precision(first_ranks: Iterable[float], n_relevant: int, k: int) -> float:
    """From the ascending ranks at which relevant items were first found; of several at one rank the last counts."""
    found_by = {rank: found for found, rank in enumerate(first_ranks, start=1)}
    return min(1.0, math.fsum(found / rank for rank, found in found_by.items()) / min(n_relevant, k))


def check_cut_off(k: int) -> None:
    """ValueError below 1."""
    if k < 1:
        raise ValueError(f"k is {k}: a cut-off is at least 1")


def refuse_bare_text(**arguments: object) -> None:
    """TypeError for a text where a list belongs: its letters would be taken for the items."""
    for name, value in arguments.items():
        if isinstance(value, str):
            raise TypeError(f"{name} is the single text {value[:40]!r}: pass a list")


def _trec_line(*columns: str | float) -> str:
    texts = [str(column) for column in columns]
    for text in texts:
        if text.split() != [text]:
            raise ValueError(f"{text!r} is empty or holds white space, which separates TREC's columns: rename it")
    return " ".join(texts) + "\n"
