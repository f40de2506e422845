"""Scores of one query or one answer: pure functions of ids and strings, as plain floats between 0 and 1.

A query without anything to find has no score: its functions return NaN, never 0, and `mean_defined` counts it. A query
that found nothing scores 0.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

Relevant = Collection[Hashable] | Mapping[Hashable, int]  # ids, or id -> grade, where a grade above 0 is relevant
ABSTENTIONS = ("insufficient information", "not enough information", "i do not know", "i could not find an answer")
"""The wordings that `is_abstention` accepts anywhere in an answer, in any case; "n't" is read as " not"."""
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


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


def word_overlap_accuracy(prediction: str, gold: str | Sequence[str]) -> float:
    """Whether prediction and gold share a word: MultiHop-RAG's current rule, 1 or 0, NaN without a gold word.

    Words are split at white space, lower-cased and otherwise left alone, so "Yes." misses "Yes" while "the Verge"
    hits "The Guardian". `gold` may be several references, of which the best counts, here and in the rules below.

    Source: `qa_evaluate.py` of MultiHop-RAG, as used for Table 3 of Multi-Meta-RAG (arXiv 2406.13213).
    """
    words, *golds = (set(text.lower().split()) for text in _texts(prediction, gold))
    return max((float(bool(words & wanted)) for wanted in golds if wanted), default=math.nan)


def substring_accuracy(prediction: str, gold: str | Sequence[str]) -> float:
    """Whether one text contains the other, lower-cased and without punctuation: 1 or 0, NaN without a gold text.

    The rule of the first version of Multi-Meta-RAG (arXiv 2406.13213v1); an empty prediction is always right.
    """
    answer, *golds = (text.lower().strip().translate(_NO_PUNCTUATION) for text in _texts(prediction, gold))
    return max((float(answer in wanted or wanted in answer) for wanted in golds if wanted), default=math.nan)


def exact_match(prediction: str, gold: str | Sequence[str]) -> float:
    """Whether the normalised texts are equal: 1 or 0; NaN without any reference.

    SQuAD's normalisation (Rajpurkar et al., arXiv 1606.05250): lower case, no punctuation, no articles, single blanks;
    but a step that would empty a text is left out, so that "A" is still an answer. Punctuation joins numbers: "3.5%"
    equals "35", a known false match of this rule.
    """
    answer, *golds = (_answer_words(text) for text in _texts(prediction, gold))
    return max((float(answer == wanted) for wanted in golds), default=math.nan)


def token_f1(prediction: str, gold: str | Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, normalised as in `exact_match`; NaN without any reference.

    A repeated word counts as often as both texts have it. Two empty texts score 1, one empty text 0.
    """
    words, *golds = (Counter(_answer_words(text)) for text in _texts(prediction, gold))
    scores = []
    for wanted in golds:
        both, length = (words & wanted).total(), words.total() + wanted.total()
        scores.append(2 * both / length if length else 1.0)
    return max(scores, default=math.nan)


def is_abstention(text: str) -> bool:
    """Whether an answer says that it cannot answer, in one of the wordings of `ABSTENTIONS`; an empty text does not."""
    plain = " ".join(text.lower().replace("’", "'").replace("n't", " not").split())
    return any(wording in plain for wording in ABSTENTIONS)


def macro_f1(gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Iterable[Hashable] = ()) -> float:
    """Unweighted mean of the F1 of `labels`, by default of all that occur; NaN when there is none.

    A prediction of None (unreadable) is wrong for its gold label and no label itself. A label that occurs in neither
    list has no F1 and is left out of the mean.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels against {len(predicted)} predictions: give one for each")
    right = Counter(true for true, guess in zip(gold, predicted, strict=True) if true == guess)
    occurrences = Counter([*gold, *predicted])
    del occurrences[None]
    chosen = dict.fromkeys(labels) or occurrences
    return mean_defined(2 * right[label] / occurrences[label] for label in chosen if occurrences[label]).value


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
    _refuse_bare_text(ranked=ranked, relevant=relevant)
    if k < 1:
        raise ValueError(f"k is {k}: a cut-off is at least 1")
    graded = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1)
    grades = {item: grade for item, grade in graded.items() if grade > 0}
    top = ranked[:k]
    by_kind = {isinstance(item, str): item for item in (*top, *grades)}
    if len(by_kind) == 2:
        raise TypeError(f"ids mix text ({by_kind[True]!r}) and numbers ({by_kind[False]!r}): convert all with str()")
    return grades, {item: top.index(item) + 1 for item in dict.fromkeys(top) if item in grades}


def _first_ranks(retrieved: Sequence[str], gold_facts: Sequence[str]) -> list[float]:
    """The rank, 1 to 10 or infinite, at which each distinct fact appears first; ascending."""
    _refuse_bare_text(retrieved=retrieved, gold_facts=gold_facts)
    chunks = [text.replace(" ", "").replace("\n", "") for text in retrieved[:10]]
    facts = {fact.replace(" ", "").replace("\n", "") for fact in gold_facts}
    return sorted(next((rank for rank, chunk in enumerate(chunks, 1) if fact in chunk), math.inf) for fact in facts)


def _average_precision(first_ranks: Iterable[float], n_relevant: int, k: int) -> float:
    """From the ascending ranks at which relevant items were first found; of several at one rank the last counts."""
    found_by = {rank: found for found, rank in enumerate(first_ranks, start=1)}
    return min(1.0, math.fsum(found / rank for rank, found in found_by.items()) / min(n_relevant, k))


def _refuse_bare_text(**arguments: object) -> None:
    for name, value in arguments.items():
        if isinstance(value, str):  # its letters would be taken for the items
            raise TypeError(f"{name} is the single text {value[:40]!r}: pass a list")


def _texts(prediction: str, gold: str | Sequence[str]) -> list[str]:
    return [prediction, gold] if isinstance(gold, str) else [prediction, *gold]


def _answer_words(text: str) -> list[str]:
    plain = text.lower().translate(_NO_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split() or plain.split() or text.lower().split()


def _trec_line(*columns: str | float) -> str:
    texts = [str(column) for column in columns]
    for text in texts:
        if text.split() != [text]:
            raise ValueError(f"{text!r} is empty or holds white space, which separates TREC's columns: rename it")
    return " ".join(texts) + "\n"
