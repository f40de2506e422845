"""Named systems on the same queries: one tidy table with intervals and paired tests.

Two steps, so that nothing is hidden: `score_queries` gives every query's value, `summarise` turns them into rows of
`results.csv`; `compare` is both. No function here returns a bare mean.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rag_utils import metrics as m
from rag_utils.chunking import gold_chunks
from rag_utils.corpora import Corpus
from rag_utils.provenance import stage
from rag_utils.schema import Answer, Hit, Qrels
from rag_utils.statistics import bootstrap_interval, holm, mcnemar_exact, paired_bootstrap, wilson_interval

COLUMNS = ["system", "metric", "value", "low", "high", "n", "dropped", "p"]

RANKED: dict[str, Callable[[list[str], Any, int], float]] = {
    "hits": m.hits_at_k,
    "recall": m.recall_at_k,
    "mrr": m.reciprocal_rank_at_k,
    "map_standard": m.average_precision_at_k,
    "ndcg": m.ndcg_at_k,
}
"""Metrics of ranked ids against the judged ones, by name before the @."""

ANSWERED: dict[str, Callable[[str, Sequence[str]], float]] = {
    "exact_match": m.exact_match,
    "token_f1": m.token_f1,
    "token_precision": m.token_precision,
    "token_recall": m.token_recall,
    "accuracy": m.word_overlap_accuracy,
    "accuracy_substring": m.substring_accuracy,
    **{f"bleu_{order}": partial(m.bleu, order=order) for order in (1, 2, 4)},
    **{f"bleu_{order}_paper": partial(m.bleu, order=order, mode="paper") for order in (1, 2, 4)},
    "rouge_l": m.rouge_l,
    "meteor": m.meteor,
    "meteor (no synonyms)": partial(m.meteor, synonyms=False),
}
"""Metrics of an answer against the gold answers."""


def compare(
    systems: Mapping[str, Any],
    corpus: Corpus,
    metrics: Sequence[str],
    baseline: str | None = None,
    seed: int = 0,
    *,
    level: str = "chunk",
    by: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Every system on every query of the corpus: one row per system and metric.

    Args:
        systems: Name -> object with `retrieve(queries, k)` or `answer(queries)`.
        corpus: Its queries are run; queries without gold are dropped and counted.
        metrics: `hits@k recall@k mrr@k ndcg@k map@k_standard` on ids; `map@10` (MultiHop-RAG's script), `facts@10`,
            `all_facts@10` on the text of evidence facts; `answer@k`, whether an accepted answer stands in the text of
            one of the first k hits, which needs no chunk ids (windows, summaries); on answers `exact_match token_f1
            token_precision token_recall`, `accuracy` (a word in common), `accuracy_substring`, `bleu_1 bleu_2 bleu_4`
            and, as QA-RAG's script has them (above 1 at times), `bleu_1_paper bleu_2_paper bleu_4_paper`, `rouge_l`,
            `meteor`. Without WordNet the last is named `meteor (no synonyms)` in the result, and that name may be asked
            for anywhere.
        baseline: The system that p values are against; None = no tests.
        seed: Of the bootstrap.
        level: "chunk" judges hits on `gold_chunks` of the system's own chunks; "document" on gold document ids, each
            document at the rank of its best chunk, so that k counts documents.
        by: Query id -> group; adds a row per group, named `<metric>_<group>`.

    Returns:
        Columns `system, metric, value, low, high, n, dropped, p`: 95 % intervals (Wilson for shares, else bootstrap),
        p two-sided against the baseline (exact McNemar for shares, else paired bootstrap), Holm over the systems.
    """
    return summarise(score_queries(systems, corpus, metrics, level=level), baseline=baseline, seed=seed, by=by)


def score_queries(
    systems: Mapping[str, Any], corpus: Corpus, metrics: Sequence[str], *, level: str = "chunk"
) -> pd.DataFrame:
    """The value of each metric for each system and query.

    Returns:
        Columns `query_id, system, metric, value`; NaN where a query has no gold to be judged by, or its answer no
        reply. A metric that a corpus or system cannot have (facts without facts, answers of a retriever) has no rows.

    Raises:
        ValueError: An unknown metric or level, a metric that none of the systems can have, no queries, or answers that
            are not in the order of the queries.
    """
    if not corpus.queries:
        raise ValueError(
            f"{corpus.name}: no queries in split {corpus.split!r}; load another split, or give more queries"
        )
    if level not in ("chunk", "document"):
        raise ValueError(f"level = {level!r}: judge hits by 'chunk' or by 'document'")
    metrics = [m.meteor_label() if metric == "meteor" else metric for metric in metrics]
    frames = [_scored(name, system, corpus, metrics, level) for name, system in systems.items()]
    table = _joined(frames)
    missing = sorted(set(metrics) - set(table["metric"]))
    if missing:
        raise ValueError(f"{', '.join(missing)}: not defined for these systems on {corpus.name}; leave them out")
    return table


def summarise(
    scores: pd.DataFrame, *, baseline: str | None = None, seed: int = 0, by: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Per-query values to one row per system and metric; see `compare` for the columns. No values, no rows."""
    if baseline is not None and len(scores) and baseline not in set(scores["system"]):
        raise ValueError(f"baseline {baseline!r} is not among the systems: {', '.join(scores['system'].unique())}")
    if by is not None:
        group = scores["query_id"].map(by)
        parts = [
            scores[group == name].assign(metric=lambda t, name=name: t["metric"] + f"_{name}")
            for name in sorted(set(by.values()), key=str)
        ]
        scores = pd.concat([scores, *parts], ignore_index=True)
    rows = []
    for metric, values in scores.groupby("metric", sort=False):
        wide = values.pivot(index="query_id", columns="system", values="value")
        order = list(dict.fromkeys(values["system"]))
        p = _p_values(wide, baseline, order, seed)
        rows += [{"system": s, "metric": metric, **_row(wide[s].to_numpy(), seed), "p": p[s]} for s in order]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table[table["n"] > 0].reset_index(drop=True)


def _scored(name: str, system: Any, corpus: Corpus, metrics: Sequence[str], level: str) -> pd.DataFrame:
    answers = hasattr(system, "answer")
    wanted = [metric for metric in metrics if (metric in ANSWERED) == answers]
    for metric in metrics:
        if metric not in ANSWERED:
            _parse(metric)
    with stage(f"run {name}"):
        if answers:
            values = _answer_values(system.answer(corpus.queries), corpus, wanted)
        else:
            values = {}
            for depth, group in _depths(wanted, system, level).items():
                values |= _hit_values(system.retrieve(corpus.queries, depth), corpus, group, system, level)
    ids = [query.id for query in corpus.queries]
    frames = [
        pd.DataFrame({"query_id": ids, "system": name, "metric": metric, "value": values[metric]})
        for metric in dict.fromkeys(wanted)
        if metric in values
    ]
    return _joined(frames)


def _depths(metrics: Sequence[str], system: Any, level: str) -> dict[int, list[str]]:
    """Metrics by the number of hits to ask for: one for all that judge ids, and its own k for each that reads texts.

    Texts of the first k hits may depend on k, as windows around sentences do.
    """
    parsed = {metric: _parse(metric) for metric in metrics}
    deepest = max((k for base, k in parsed.values() if base in RANKED), default=0) * _chunks_a_document(system, level)
    depths: dict[int, list[str]] = defaultdict(list)
    for metric, (base, k) in parsed.items():
        depths[deepest if base in RANKED else k].append(metric)
    return {depth: group for depth, group in depths.items() if depth}


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames or [pd.DataFrame(columns=["query_id", "system", "metric", "value"])], ignore_index=True)


def _chunks_a_document(system: Any, level: str) -> int:
    """The most chunks of one document: k times as many hits hold at least k documents."""
    if level == "chunk" or not hasattr(system, "chunks"):
        return 1
    return max(Counter(chunk.document_id for chunk in system.chunks).values(), default=1)


def _answer_values(answers: Sequence[Answer], corpus: Corpus, metrics: Sequence[str]) -> dict[str, list[float]]:
    if [answer.query_id for answer in answers] != [query.id for query in corpus.queries]:
        raise ValueError("the answers are not one for each query in the order of the queries: check the answerer")
    gold = [corpus.answers.get(query.id, ()) for query in corpus.queries]
    judged = [bool(g) and not (a.reply and a.reply.missing) for a, g in zip(answers, gold, strict=True)]
    return {
        metric: [
            float(ANSWERED[metric](a.text, g)) if ok else np.nan for a, g, ok in zip(answers, gold, judged, strict=True)
        ]
        for metric in metrics
    }


def _hit_values(
    hits: list[list[Hit]], corpus: Corpus, metrics: Sequence[str], system: Any, level: str
) -> dict[str, list[float]]:
    judged = _qrels(corpus, system, level, hits) if any(_parse(metric)[0] in RANKED for metric in metrics) else {}
    pairs = list(zip(hits, corpus.queries, strict=True))
    values: dict[str, list[float]] = {}
    for metric in metrics:
        base, k = _parse(metric)
        if base in RANKED:
            values[metric] = [_judged(RANKED[base], _ids(row, level), judged.get(q.id), k) for row, q in pairs]
        elif base == "answer" and corpus.answers:
            values[metric] = [m.answer_at_k(_texts(row), corpus.answers.get(q.id, ()), k) for row, q in pairs]
        elif base != "answer" and corpus.facts:
            values[metric] = [_fact_value(metric, row, corpus.facts.get(q.id)) for row, q in pairs]
    return values


def _judged(
    metric: Callable[[list[str], Any, int], float], ids: list[str], grades: dict[str, int] | None, k: int
) -> float:
    """NaN without gold; 0 where gold exists but no chunk holds it whole, since no system can find it (the ceiling)."""
    if grades is None:
        return np.nan
    return float(metric(ids, grades, k)) if grades else 0.0


def _fact_value(metric: str, hits: list[Hit], facts: Sequence[str] | None) -> float:
    if not facts:
        return np.nan
    scores = m.multihop_rag_scores if metric == "map@10" else m.fact_scores
    return scores(_texts(hits), list(facts))[metric]


def _texts(hits: list[Hit]) -> list[str]:
    return [hit.chunk.fields["text"] for hit in hits]


def _qrels(corpus: Corpus, system: Any, level: str, hits: list[list[Hit]]) -> Qrels:
    if level == "document":
        return {id_: dict.fromkeys(gold, 1) for id_, gold in corpus.gold_documents.items() if gold}
    if not hasattr(system, "chunks"):
        raise ValueError(f"{type(system).__name__} has no `chunks` to be judged on: add them, or use level='document'")
    strange = {hit.chunk.id for row in hits for hit in row} - {chunk.id for chunk in system.chunks}
    if strange:
        raise ValueError(
            f"{type(system).__name__} gave {len(strange)} hits that are not among its `chunks`, as {min(strange)!r}; "
            "they cannot be judged by id: ask for answer@k or facts@10, or use level='document'"
        )
    return gold_chunks(corpus, system.chunks)


def _ids(hits: list[Hit], level: str) -> list[str]:
    """Chunk ids, or document ids each at its best rank."""
    return [h.chunk.id for h in hits] if level == "chunk" else list(dict.fromkeys(h.chunk.document_id for h in hits))


def _parse(metric: str) -> tuple[str, int]:
    """`map@10_standard` -> ("map_standard", 10)."""
    match = re.fullmatch(
        r"(hits|recall|mrr|ndcg|answer)@(\d+)|(map)@(10)|(map)@(\d+)(_standard)|(facts|all_facts)@(10)", metric
    )
    if not match:
        known = f"{', '.join(RANKED)}@k, answer@k, map@10, facts@10, {', '.join(ANSWERED)}"
        raise ValueError(f"metric {metric!r} is not known; known: {known}")
    parts = [part for part in match.groups() if part]
    return parts[0] + "".join(parts[2:]), int(parts[1])


def _row(values: np.ndarray, seed: int) -> dict[str, float]:
    kept = values[~np.isnan(values)]
    row = {"value": np.nan, "low": np.nan, "high": np.nan, "n": len(kept), "dropped": len(values) - len(kept)}
    if len(kept):
        low, high = (
            wilson_interval(int(kept.sum()), len(kept)) if _is_share(kept) else bootstrap_interval(kept, seed=seed)
        )
        row |= {"value": kept.mean(), "low": low, "high": high}
    return row


def _p_values(wide: pd.DataFrame, baseline: str | None, systems: list[str], seed: int) -> dict[str, float]:
    raw = dict.fromkeys(systems, np.nan)
    for system in systems if baseline in wide else []:
        pairs = wide[[baseline, system]].dropna().to_numpy() if system != baseline else np.empty((0, 2))
        if len(pairs):
            raw[system] = _paired_p(pairs[:, 1], pairs[:, 0], seed)
    return dict(zip(raw, holm(list(raw.values())), strict=True))


def _paired_p(ours: np.ndarray, base: np.ndarray, seed: int) -> float:
    if _is_share(ours) and _is_share(base):
        return mcnemar_exact(int((ours > base).sum()), int((ours < base).sum()))
    return paired_bootstrap(ours, base, seed=seed).p


def _is_share(values: np.ndarray) -> bool:
    return bool(np.isin(values, (0, 1)).all())
