"""MetaGen's boosted query with the scores of all parts in hand (MetaGen Blended RAG, arXiv 2505.18247, section 3.1)."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rag_utils.indexing import TIE_BREAKER, DenseIndex, LexicalIndex
from rag_utils.retrieval.matrices import gold_columns, gold_ranks, spread
from rag_utils.schema import Query

_BLOCK = 2**20
"""Scores of a part held at a time."""


class BoostedFields:
    """Every chunk's score for given queries, by part: the BM25 of each field, and the vectors.

    The parts are computed once, so that another set of boosts is a few array operations. They take 4 bytes x queries x
    chunks each.

    Args:
        lexical: One BM25 a field.
        dense: Vectors of the same chunks.
        queries: Their texts are searched; filters are not applied.
        fields: Of the lexical index, those wanted.
    """

    def __init__(self, lexical: LexicalIndex, dense: DenseIndex, queries: Sequence[Query], fields: Sequence[str]):
        texts = [query.text for query in queries]
        place = {chunk.id: i for i, chunk in enumerate(dense.chunks)}
        columns = [place[chunk.id] for chunk in lexical.chunks]
        self.chunks = lexical.chunks
        self._bm25 = {field: lexical.scores(texts, field).astype(np.float32) for field in fields}
        self._vectors = ((1 + dense.scores(texts)[:, columns]) / 2).astype(np.float32)

    def parts(
        self,
        boosts: Mapping[str, float],
        *,
        knn_boost: float = 1.0,
        knn_k: int | None = None,
        weight: float | None = None,
        rows: slice = slice(None),
    ) -> dict[str, np.ndarray]:
        """What each field, and "vectors", adds to each score; the score is their sum.

        Of the boosted fields the best counts whole and the others 0.3 ("best fields"). 0 in all parts = not found.

        Args:
            boosts: The fields that are searched, with their weights.
            knn_boost: What (1 + cosine) / 2 is multiplied by.
            knn_k: Nearest chunks that get a vector part, those of an equal cosine too; None = all.
            weight: None = raw sum, as in the paper's code. Else the lexical share, 0 to 1, of a sum of both parts
                scaled to a range of 1 over all chunks of the query; `knn_boost` and `knn_k` are not used then.
            rows: Queries; each array has the shape (queries, chunks).
        """
        near = self._vectors[rows]
        fields = np.stack([boost * self._bm25[field][rows] for field, boost in boosts.items()])
        best = fields.argmax(axis=0) == np.arange(len(fields))[:, None, None]
        fields *= np.where(best, np.float32(1), np.float32(TIE_BREAKER))
        if weight is not None:
            fields *= weight / spread(fields.sum(axis=0))
            near = (1 - weight) * (near - near.min(axis=1, keepdims=True)) / spread(near)
        else:
            if knn_k is not None and knn_k < near.shape[1]:
                near = np.where(near >= np.partition(near, -knn_k, axis=1)[:, [-knn_k]], near, 0)
            near = knn_boost * near
        return {**dict(zip(boosts, fields, strict=True)), "vectors": near}

    def ranks(self, gold: Sequence[Collection[str]], boosts: Mapping[str, float], **options: Any) -> np.ndarray:
        """The rank, from 1, of each query's best gold document; infinite where it is not found, ties by chunk id.

        Args:
            gold: Document ids of each query.
            boosts: As in `parts`.
            **options: The other arguments of `parts`.
        """
        order = sorted(range(len(self.chunks)), key=lambda i: self.chunks[i].id)
        columns = defaultdict(list)
        for column, i in enumerate(order):
            columns[self.chunks[i].document_id].append(column)
        own = gold_columns([[column for id_ in ids for column in columns[id_]] for ids in gold])
        found = np.full(len(gold), np.inf)
        for rows in self._blocks():
            scores = np.sum(list(self.parts(boosts, rows=rows, **options).values()), axis=0)[:, order]
            ranks = gold_ranks(np.where(scores > 0, scores, -np.inf), own[rows])
            found[rows] = np.where(np.isnan(ranks), np.inf, ranks).min(axis=1)
        return found

    def _blocks(self) -> Iterator[slice]:
        size = max(1, _BLOCK // len(self.chunks))
        return (slice(start, start + size) for start in range(0, len(self._vectors), size))


def coordinate_search(
    evaluate: Callable[[Mapping[str, float]], float], start: Mapping[str, float], values: Sequence[float]
) -> dict[str, float]:
    """One boost after the other is set to the value that evaluates best, until none improves; ties keep what is."""
    best, score, improved = dict(start), evaluate(start), True
    while improved:
        improved = False
        for field in start:
            for trial in [best | {field: value} for value in values if value != best[field]]:
                if (new := evaluate(trial)) > score:
                    best, score, improved = trial, new, True
    return best


def expected_hits(ranks: np.ndarray, n_others: int, n_distractors: int, k: int) -> np.ndarray:
    """The chance that gold is among the first k when only `n_distractors` of the others, drawn at random, are kept.

    Exact (hypergeometric), with scores as they are in the whole corpus.

    Args:
        ranks: Of the gold documents among all, infinite where not found.
        n_others: Documents of the corpus without the gold one.
        n_distractors: Of these that are kept, 0 to `n_others`.
        k: Cut-off.
    """
    from scipy.stats import hypergeom

    ahead = np.minimum(ranks - 1, n_others)
    return np.where(np.isfinite(ranks), hypergeom.cdf(k - 1, n_others, ahead, n_distractors), 0.0)
