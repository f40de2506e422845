"""Queries to hits: one verb, `retrieve(queries, k)`, over BM25, vectors, their fusions and a reranker on top.

Every retriever obeys one contract (tests/test_retrieval.py runs it over all of them): at most k hits a query, best first,
no chunk twice, ties by chunk id, none that violates the query's `where`; an empty corpus gives empty lists.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rag_utils.indexing import DenseIndex, LexicalIndex
from rag_utils.schema import Chunk, Hit, Query, Reranker, Retriever

Ranking = Mapping[str, float] | Sequence[str]
"""One list to fuse: chunk id -> score (higher is better), or ids best first."""

Scaled = tuple[np.ndarray, float]
"""A list's scores brought to a common scale, best first, and what a document missing from the list gets."""


class LexicalRetriever:
    """BM25 over one or more fields; `boosts` weigh the fields (best fields, tie-breaker 0.3; MetaGen, section 3.1)."""

    def __init__(self, index: LexicalIndex, boosts: Mapping[str, float] | None = None):
        self.index, self.boosts = index, boosts

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.index.chunks

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k chunks that share a word with each query; scores are BM25 sums, unbounded."""
        found = self.index.search(_texts(queries), k, boosts=self.boosts, where=_filters(queries))
        return _hits(found, self.chunks)


class DenseRetriever:
    """Cosine similarity of embeddings."""

    def __init__(self, index: DenseIndex):
        self.index = index

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.index.chunks

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """The k nearest chunks of each query; scores are cosines, -1 to 1."""
        return _hits(self.index.search(_texts(queries), k, where=_filters(queries)), self.chunks)


class HybridRetriever:
    """Lexical and dense hits fused into one list (MetaGen, section 3.1; PAPERS 2.4).

    Args:
        lexical: The first retriever; its share of the fused score is `weight` (for "es_sum": 1).
        dense: The second retriever; its share is 1 - `weight` (for "es_sum": `boost`).
        fusion: One of `FUSIONS`: "minmax" (default), "zscore", "rrf", "es_sum", "combmnz", "borda".
        weight: Share of the lexical list, 0 to 1.
        boost: "es_sum" only: what the dense score, (1 + cosine) / 2, is multiplied by before it is added to BM25.
        depth: Candidates taken from each retriever; the dense depth is the `k` of the engine's vector part.
    """

    def __init__(
        self,
        lexical: Retriever,
        dense: Retriever,
        *,
        fusion: str = "minmax",
        weight: float = 0.5,
        boost: float = 1.0,
        depth: int = 100,
    ):
        if not 0 <= weight <= 1:
            raise ValueError(f"weight = {weight}: the share of the lexical list lies between 0 and 1")
        if depth < 1:
            raise ValueError(f"depth = {depth}: take at least 1 candidate from each list")
        _scaler(fusion)
        self.lexical, self.dense = lexical, dense
        self.fusion, self.weight, self.boost, self.depth = fusion, weight, boost, depth

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.lexical.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k hits each; scores are on the fusion's scale, comparable within a query only."""
        _check(k)
        depth = max(k, self.depth)
        lexical, dense = self.lexical.retrieve(queries, depth), self.dense.retrieve(queries, depth)
        return [self._fused(*pair)[:k] for pair in zip(lexical, dense, strict=True)]

    def _fused(self, lexical: list[Hit], dense: list[Hit]) -> list[Hit]:
        weights = (self.weight, 1 - self.weight)
        if self.fusion == "es_sum":
            dense = [Hit(hit.chunk, (1 + hit.score) / 2) for hit in dense]
            weights = (1.0, self.boost)
        return fuse_hits([lexical, dense], self.fusion, weights=weights)


class Reranked:
    """A retriever whose first hits are put in a reranker's order (Multi-Meta-RAG, section 3.2: 20 reranked, 10 kept).

    Pairs of all queries are scored in one call, so a batching reranker can pool them. Ties keep the first stage's order.

    Args:
        retriever: The first stage.
        reranker: Scores (query, text) pairs; only the order of its scores is used.
        depth: Hits of the first stage that are reranked.
        keep: Hits kept afterwards; None = as many as asked for.
    """

    def __init__(self, retriever: Retriever, reranker: Reranker, depth: int = 20, keep: int | None = None):
        if depth < 1:
            raise ValueError(f"depth = {depth}: rerank at least 1 hit")
        self.retriever, self.reranker, self.depth, self.keep = retriever, reranker, depth, keep

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most min(k, keep, depth) hits each; scores are the reranker's raw logits."""
        _check(k)
        first = self.retriever.retrieve(queries, self.depth)
        scores = iter(self._scores([(q.text, h.chunk.fields["text"]) for q, hits in zip(queries, first, strict=True) for h in hits]))
        kept = k if self.keep is None else min(k, self.keep)
        return [
            sorted((Hit(hit.chunk, next(scores)) for hit in hits), key=lambda hit: -hit.score)[:kept] for hits in first
        ]

    def _scores(self, pairs: list[tuple[str, str]]) -> list[float]:
        if hasattr(self.reranker, "score_pairs"):
            return self.reranker.score_pairs(pairs)
        return [score for query, text in pairs for score in self.reranker(query, [text])]


def fuse(
    lists: Sequence[Ranking], method: str = "minmax", *, weights: Sequence[float] | None = None, k: int = 60
) -> dict[str, float]:
    """Several rankings of one query fused into one, best first, ties by id.

    The fused score of a document is the weighted sum, over the lists, of its scaled score:

    - "minmax": (s - min) / (max - min) over the list's own members; all equal (or a single hit) = 1; missing = 0
    - "zscore": (s - mean) / standard deviation; all equal = 0; missing = the list's lowest value
    - "rrf": 1 / (k + rank), ranks from 1 (Cormack et al. 2009); missing = 0
    - "borda": (n - rank + 1) / n of the list's n members; missing = 0
    - "combmnz": the min-max sum times the number of lists that hold the document
    - "es_sum": the raw score; missing = 0 (what Elasticsearch adds up; MetaGen's code)

    Scores are never rounded. A list that repeats a document counts its best place, later ones move up. Distances are
    fused by passing them negated.

    Args:
        lists: Rankings; for methods on scores each is a mapping id -> score, for "rrf" and "borda" ids will do.
        method: One of `FUSIONS`.
        weights: One weight a list; None = equal shares that sum to 1 (for "rrf" and "es_sum": 1 each).
        k: Constant of "rrf".

    Raises:
        ValueError: Unknown method, a score that is not finite (the id is named), or as many weights as lists missing.
        TypeError: Ids of two types, or plain ids where the method needs scores.
    """
    scale = _scaler(method)
    if weights is None:
        weights = [1.0 if method in ("rrf", "es_sum") else 1 / max(len(lists), 1)] * len(lists)
    if len(weights) != len(lists):
        raise ValueError(f"{len(weights)} weights for {len(lists)} lists: give one each")
    ranked = [_ranked(ranking, method) for ranking in lists]
    if len({type(id_) for ids, _ in ranked for id_ in ids}) > 1:
        raise TypeError("the lists name chunks by ids of two types, so none would match: make them all strings")
    scaled = [scale(scores, k) for _, scores in ranked]
    total = dict.fromkeys((id_ for ids, _ in ranked for id_ in ids), 0.0)
    for (ids, _), (values, missing), weight in zip(ranked, scaled, weights, strict=True):
        found = dict(zip(ids, values.tolist(), strict=True))
        for id_ in total:
            total[id_] += weight * found.get(id_, missing)
    if method == "combmnz":
        members = [set(ids) for ids, _ in ranked]
        total = {id_: score * sum(id_ in ids for ids in members) for id_, score in total.items()}
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def fuse_hits(lists: Sequence[Sequence[Hit]], method: str = "minmax", *, weights: Sequence[float] | None = None, k: int = 60) -> list[Hit]:
    """`fuse` on hits: chunks are the same when their ids are; the record at the better rank is kept."""
    records: dict[str, tuple[int, Chunk]] = {}
    for hits in lists:
        for rank, hit in enumerate(hits):
            if hit.chunk.id not in records or rank < records[hit.chunk.id][0]:
                records[hit.chunk.id] = (rank, hit.chunk)
    rankings = [{hit.chunk.id: hit.score for hit in reversed(hits)} for hits in lists]
    return [Hit(records[id_][1], score) for id_, score in fuse(rankings, method, weights=weights, k=k).items()]


def _minmax(scores: np.ndarray, k: int) -> Scaled:
    spread = np.ptp(scores) if len(scores) else 0.0
    return (scores - scores.min()) / spread if spread else np.ones_like(scores), 0.0


def _zscore(scores: np.ndarray, k: int) -> Scaled:
    deviation = scores.std() if len(scores) else 0.0
    values = (scores - scores.mean()) / deviation if deviation else np.zeros_like(scores)
    return values, float(values.min(initial=0.0))


def _reciprocal_rank(scores: np.ndarray, k: int) -> Scaled:
    return 1 / (k + np.arange(1, len(scores) + 1)), 0.0


def _borda(scores: np.ndarray, k: int) -> Scaled:
    return 1 - np.arange(len(scores)) / max(len(scores), 1), 0.0


def _raw(scores: np.ndarray, k: int) -> Scaled:
    return scores, 0.0


FUSIONS: dict[str, Callable[[np.ndarray, int], Scaled]] = {
    "minmax": _minmax,
    "zscore": _zscore,
    "rrf": _reciprocal_rank,
    "es_sum": _raw,
    "combmnz": _minmax,
    "borda": _borda,
}


def _scaler(method: str) -> Callable[[np.ndarray, int], Scaled]:
    if method not in FUSIONS:
        raise ValueError(f"fusion {method!r} is not known; the known ones are {', '.join(FUSIONS)}")
    return FUSIONS[method]


def _ranked(ranking: Ranking, method: str) -> tuple[list[str], np.ndarray]:
    """The ids best first (ties by id), each once, and their scores."""
    if isinstance(ranking, Mapping):
        bad = [id_ for id_, score in ranking.items() if not np.isfinite(score)]
        if bad:
            raise ValueError(f"the score of {bad[0]!r} is {ranking[bad[0]]}: scores to be fused must be finite")
        items = sorted(ranking.items(), key=lambda item: (-item[1], str(item[0])))
        return [id_ for id_, _ in items], np.array([score for _, score in items], dtype=float)
    if method not in ("rrf", "borda"):
        raise TypeError(f"{method!r} needs scores: pass a mapping id -> score in place of a list of ids")
    ids = list(dict.fromkeys(ranking))
    return ids, np.arange(len(ids), 0, -1, dtype=float)


def _check(k: int) -> None:
    if k < 0:
        raise ValueError(f"k = {k}: ask for 0 or more hits")


def _texts(queries: Sequence[Query]) -> list[str]:
    return [query.text for query in queries]


def _filters(queries: Sequence[Query]) -> list[Mapping[str, Any] | None] | None:
    return [query.where for query in queries] if any(query.where for query in queries) else None


def _hits(found: list[list[tuple[str, float]]], chunks: Sequence[Chunk]) -> list[list[Hit]]:
    by_id = {chunk.id: chunk for chunk in chunks}
    return [[Hit(by_id[id_], score) for id_, score in row] for row in found]
