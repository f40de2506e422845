"""Complete scores, of every chunk for every question: how far they spread, and where gold stands in them."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import numpy as np


def spread(scores: np.ndarray) -> np.ndarray:
    """The range of each row, (questions, 1); 1 where all are equal, so that one can divide by it."""
    found = np.ptp(scores, axis=1, keepdims=True)
    return np.where(found > 0, found, 1)


def gold_columns(gold: Sequence[Iterable[int]]) -> np.ndarray:
    """The columns of each question's gold chunks, (questions, most of one question), filled up with -1."""
    return np.array([*zip_longest(*gold, fillvalue=-1)] or [(-1,) * len(gold)]).T


def gold_ranks(scores: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Ranks, from 1, of the gold chunks, without sorting: one more than those that score higher, or as high before it.

    Args:
        scores: (questions, chunks), the chunks in the order in which ties go; -inf = not found.
        columns: As of `gold_columns`.

    Returns:
        Float, of the columns' shape: infinite if not found, NaN where a question has no such chunk.
    """
    ranks = np.empty(columns.shape)
    for place, own_columns in enumerate(columns.T):
        own = scores[np.arange(len(scores)), own_columns, None]
        ahead = np.count_nonzero(scores > own, axis=1)
        for row in np.flatnonzero(np.count_nonzero(scores == own, axis=1) > 1):
            ahead[row] += np.count_nonzero(scores[row, : own_columns[row]] == own[row])
        ranks[:, place] = np.where(np.isfinite(own[:, 0]), ahead + 1, np.inf)
    return np.where(columns < 0, np.nan, ranks)
