"""Agreement of two raters."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np


def cohen_kappa(
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    weights: Literal["linear", "quadratic"] | None = None,
    labels: Sequence[Any] | None = None,
) -> float:
    """Cohen's kappa: agreement of two raters beyond what their label frequencies alone would give, at most 1.

    Args:
        a: One label an item from the first rater.
        b: The second rater's labels of the same items.
        weights: How far a disagreement counts: all alike, by distance in the order of labels, or by its square.
        labels: All labels in their order; by default those that occur, sorted where the order matters.

    Returns:
        Kappa, or NaN where it is undefined: no items, or both raters using one and the same label throughout (report
        the raw agreement then).

    Raises:
        ValueError: Unequal lengths, an unknown kind of weights, or a label that is not in `labels`.

    Source: Cohen, Educational and Psychological Measurement 20 (1960); weighted: Psychological Bulletin 70 (1968).
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} labels against {len(b)}: both raters must label every item")
    if labels is None:
        occurring = dict.fromkeys([*a, *b])
        labels = sorted(occurring) if weights else list(occurring)
    counts = _confusion(a, b, labels)
    distance = np.abs(np.subtract.outer(np.arange(len(labels)), np.arange(len(labels))))
    cost = {None: distance > 0, "linear": distance, "quadratic": distance**2}.get(weights)
    if cost is None:
        raise ValueError(f"weights is {weights!r}: choose None, 'linear' or 'quadratic'")
    by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0))
    expected = (cost * by_chance).sum()
    return 1 - float((cost * counts).sum() * counts.sum() / expected) if expected else math.nan


def _confusion(a: Sequence[Any], b: Sequence[Any], labels: Sequence[Any]) -> np.ndarray:
    """How many items have label i from the first rater and label j from the second."""
    place = {label: i for i, label in enumerate(labels)}
    unknown = {label for label in (*a, *b) if label not in place}
    if unknown:
        raise ValueError(f"labels {sorted(map(repr, unknown))} are not among {list(labels)}: add them to `labels`")
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for first, second in zip(a, b, strict=True):
        counts[place[first], place[second]] += 1
    return counts
