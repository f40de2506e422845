"""Queries to hits: one verb, `retrieve(queries, k)`, over BM25, vectors, their fusions and a reranker on top.

Every retriever obeys one contract (tests/test_retrieval.py runs it over all of them): at most k hits a query, best
first, no chunk twice, ties by chunk id, none that violates the query's `where`; an empty corpus gives empty lists.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rag_utils.indexing import DenseIndex, LexicalIndex
from rag_utils.retrieval.fusion import FUSIONS, fuse_hits
from rag_utils.schema import Chunk, Hit, Query, Reranker, Retriever


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
    """Lexical and dense hits fused into one list (MetaGen Blended RAG, section 3.1).

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
        if not math.isfinite(boost):
            raise ValueError(f"boost = {boost}: give a finite number")
        if not 0 <= weight <= 1:
            raise ValueError(f"weight = {weight}: the share of the lexical list lies between 0 and 1")
        if depth < 1:
            raise ValueError(f"depth = {depth}: take at least 1 candidate from each list")
        if fusion not in FUSIONS:
            raise ValueError(f"fusion {fusion!r} is not known; the known ones are {', '.join(FUSIONS)}")
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


class Remembered:
    """A retriever that looks a question up once: for comparing fusions, weights or rerankers of the same hits.

    A smaller k gets the first of the hits known, so the retriever's first hits must not depend on k.
    """

    def __init__(self, retriever: Retriever):
        self.retriever = retriever
        self._found: dict[tuple[str, str], tuple[int, list[Hit]]] = {}

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """What the retriever returns; it is asked again only for new questions and for a larger k."""
        _check(k)
        keys = [(query.text, repr(query.where)) for query in queries]
        new = {key: query for key, query in zip(keys, queries, strict=True) if self._found.get(key, (-1,))[0] < k}
        hits = self.retriever.retrieve(list(new.values()), k)
        self._found |= {key: (k, found) for key, found in zip(new, hits, strict=True)}
        return [self._found[key][1][:k] for key in keys]


class Reranked:
    """A retriever whose first hits a reranker puts in order (Multi-Meta-RAG, section 3.2: 20 reranked, 10 kept).

    The pairs of all queries are scored in one call, so a reranker can pool them. Ties keep the first stage's order.

    Args:
        retriever: The first stage.
        reranker: Scores (query, text) pairs; only the order of its scores is used.
        depth: Hits of the first stage that are reranked.
        keep: Hits kept afterwards; None = as many as asked for.
    """

    def __init__(self, retriever: Retriever, reranker: Reranker, depth: int = 20, keep: int | None = None):
        if depth < 1 or (keep is not None and keep < 0):
            raise ValueError(f"depth = {depth}, keep = {keep}: rerank at least 1 hit and keep 0 or more")
        self.retriever, self.reranker, self.depth, self.keep = retriever, reranker, depth, keep

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most min(k, keep, depth) hits each; scores are the reranker's raw logits."""
        _check(k)
        first = self.retriever.retrieve(queries, self.depth)
        scores = iter(
            self._scores(
                [(q.text, h.chunk.fields["text"]) for q, hits in zip(queries, first, strict=True) for h in hits]
            )
        )
        kept = k if self.keep is None else min(k, self.keep)
        return [
            sorted((Hit(hit.chunk, next(scores)) for hit in hits), key=lambda hit: -hit.score)[:kept] for hits in first
        ]

    def _scores(self, pairs: list[tuple[str, str]]) -> list[float]:
        if hasattr(self.reranker, "score_pairs"):
            scores = self.reranker.score_pairs(pairs)
        else:
            scores = [score for query, text in pairs for score in self.reranker(query, [text])]
        if not all(map(math.isfinite, scores)):
            raise ValueError("the reranker gave a score that is not finite, so there is no order: check its input")
        return scores


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
