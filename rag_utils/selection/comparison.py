"""Two sets of streams on the same questions: their values, asked for once, and the test between them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rag_utils.statistics import mcnemar_exact, paired_bootstrap

Evaluate = Callable[[tuple[str, ...]], np.ndarray]
"""A set of streams, in the order given to the selection, to one hit or score a question."""

Values = Callable[[Collection[str]], np.ndarray]
"""A set of streams in any order to the same."""

_TINY = 1e-12  # what floats may add up to where nothing differs


def asked_once(evaluate: Evaluate, streams: Sequence[str]) -> Values:
    """`evaluate`, checked, and asked once for a set."""
    known: dict[tuple[str, ...], np.ndarray] = {}

    def values(chosen: Collection[str]) -> np.ndarray:
        key = tuple(stream for stream in streams if stream in chosen)
        if key not in known:
            found = np.array(evaluate(key), dtype=np.float64)  # a copy: the caller may fill the same buffer again
            if found.ndim != 1 or not found.size or found.shape != next(iter(known.values()), found).shape:
                raise ValueError(f"evaluate({key}) gave an array {found.shape}: give one value for each question")
            known[key] = found
        return known[key]

    return values


def compared(after: np.ndarray, before: np.ndarray, n_resamples: int) -> dict[str, Any]:
    """Gain, interval and one-sided p of two systems on the same questions, or why there are none."""
    b, c = int((after > before).sum()), int((after < before).sum())
    row = {"b": b, "c": c, "n": len(after), "failed": "", "gain": np.nan, "p": np.nan}
    unusable = np.count_nonzero(~np.isfinite(after + before))
    if unusable:
        return row | {"failed": f"{unusable} of {len(after)} values are NaN or infinite"}
    gain, low, high, p = paired_bootstrap(after, before, n_resamples=n_resamples)
    if np.isin([after, before], (0, 1)).all():
        p = mcnemar_exact(b, c, alternative="greater")
    else:
        p = p / 2 if gain > 0 else 1 - p / 2
    return row | {"gain": gain, "low": low, "high": high, "p": p}


def passes(row: Mapping[str, Any], level: float | None, min_gain: float) -> bool:
    """Whether a stream helps, enough and significantly; what failed does not."""
    enough = row["gain"] > _TINY and row["gain"] >= min_gain - _TINY
    return enough and (level is None or row["p_holm"] <= level)
