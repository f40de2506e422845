"""Several rankings of one query become one (MetaGen Blended RAG, section 3.1)."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rag_utils.schema import Chunk, Hit

Ranking = Mapping[str, float] | Sequence[str]
"""One list to fuse: chunk id -> score (higher is better), or ids best first."""

Scaled = tuple[np.ndarray, float]
"""A list's scores brought to a common scale, best first, and what a document missing from the list gets."""


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
        ValueError: Unknown method, a score that is not finite (the id is named), weights that are not one finite number
            a list, or a negative k.
        TypeError: Ids of two types, or plain ids where the method needs scores.
    """
    scale = _scaler(method)
    if weights is None:
        weights = [1.0 if method in ("rrf", "es_sum") else 1 / max(len(lists), 1)] * len(lists)
    if len(weights) != len(lists) or not all(map(math.isfinite, weights)):
        raise ValueError(f"weights = {list(weights)} for {len(lists)} lists: give one finite number each")
    if k < 0:
        raise ValueError(f"k = {k}: the constant of reciprocal ranks is 0 or more")
    ranked = [_ranked(ranking, method) for ranking in lists]
    if len({type(id_) for ids, _ in ranked for id_ in ids}) > 1:
        raise TypeError("the lists name chunks by ids of two types, so none would match: make them all strings")
    scaled = [scale(scores, k) for _, scores in ranked]
    floor = sum(weight * missing for (_, missing), weight in zip(scaled, weights, strict=True))
    total = dict.fromkeys((id_ for ids, _ in ranked for id_ in ids), floor)
    for (ids, _), (values, missing), weight in zip(ranked, scaled, weights, strict=True):
        for id_, share in zip(ids, (weight * (values - missing)).tolist(), strict=True):
            total[id_] += share
    if method == "combmnz":
        members = [set(ids) for ids, _ in ranked]
        total = {id_: score * sum(id_ in ids for ids in members) for id_, score in total.items()}
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def fuse_hits(
    lists: Sequence[Sequence[Hit]], method: str = "minmax", *, weights: Sequence[float] | None = None, k: int = 60
) -> list[Hit]:
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
    if not len(scores) or not np.ptp(scores):  # the deviation of equal floats need not be 0
        return np.zeros_like(scores), 0.0
    values = (scores - scores.mean()) / scores.std()
    return values, float(values.min())


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
        bad = [id_ for id_, score in ranking.items() if not math.isfinite(score)]
        if bad:
            raise ValueError(f"the score of {bad[0]!r} is {ranking[bad[0]]}: scores to be fused must be finite")
        items = sorted(ranking.items(), key=lambda item: (-item[1], str(item[0])))
        return [id_ for id_, _ in items], np.array([score for _, score in items], dtype=float)
    if method not in ("rrf", "borda"):
        raise TypeError(f"{method!r} needs scores: pass a mapping id -> score in place of a list of ids")
    ids = list(dict.fromkeys(ranking))
    return ids, np.arange(len(ids), 0, -1, dtype=float)
