"""Intervals of shares and means, and the paired comparison of two systems by resampling questions."""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rag_utils.statistics._checks import share
from rag_utils.statistics._resampling import resampled_means


def wilson_interval(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a share, never outside 0-1 and never of width 0; (nan, nan) when n is 0.

    Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22 (1927).
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: must lie between 0 and n")
    if n == 0:
        return math.nan, math.nan
    successes = float(successes)  # so that numpy's integers give plain floats
    z2 = NormalDist().inv_cdf((1 + share("confidence", confidence)) / 2) ** 2
    middle = (successes + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    return (middle - half if successes > 0 else 0.0), (middle + half if successes < n else 1.0)


def bootstrap_interval(
    values: ArrayLike, *, n_resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of one value a question; (nan, nan) without values.

    Does not depend on the order of the values.

    Raises:
        ValueError: Values are NaN or infinite; the message counts them.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
    """
    sample = _finite(values)
    if not sample.size:
        return math.nan, math.nan
    return _percentiles(resampled_means(sample, n_resamples, seed), confidence)


class PairedDifference(NamedTuple):
    """Mean of a - b over the same questions, its interval, and the two-sided p of no difference."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, *, n_resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> PairedDifference:
    """Compare two systems question by question: bootstrap of the mean of a - b over questions.

    Args:
        a: The system's value for each question.
        b: The baseline's values for the same questions in the same order.
        n_resamples: Samples of questions, drawn with replacement.
        confidence: Of the percentile interval.
        seed: Of the draws; the result does not depend on the order of the questions.

    Returns:
        The difference with interval and p; all NaN without questions. p is twice the share of resampled means on the
        far side of 0, zero included, the sample itself counted as one more resample: never below 2 / (n_resamples + 1).

    Raises:
        ValueError: The lengths differ, or values are NaN or infinite.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 15.
    """
    first, second = _finite(a), _finite(b)
    if first.size != second.size:
        raise ValueError(f"{first.size} values against {second.size}: pair them, one of each system for every question")
    if not first.size:
        return PairedDifference(math.nan, math.nan, math.nan, math.nan)
    differences = first - second
    means = resampled_means(differences, n_resamples, seed)
    rounding = 1e-12 * np.abs(differences).max()
    far_side = min(np.count_nonzero(means <= rounding), np.count_nonzero(means >= -rounding))
    p = min(1.0, 2 * (int(far_side) + 1) / (n_resamples + 1))
    return PairedDifference(float(differences.mean()), *_percentiles(means, confidence), p)


def _percentiles(means: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - share("confidence", confidence)) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _finite(values: ArrayLike) -> np.ndarray:
    sample = np.asarray(values, dtype=np.float64).ravel()
    unusable = np.count_nonzero(~np.isfinite(sample))
    if unusable:
        raise ValueError(f"{unusable} of {sample.size} values are NaN or infinite: leave them out and report how many")
    return sample
