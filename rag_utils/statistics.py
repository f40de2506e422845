"""Intervals, paired tests and agreement; what is drawn at random takes a seed, and equal seeds give equal numbers."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike


def wilson_interval(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a share, never outside 0-1 and never of width 0; (nan, nan) when n is 0.

    Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22 (1927).
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: must lie between 0 and n")
    if n == 0:
        return math.nan, math.nan
    z2 = NormalDist().inv_cdf((1 + _share("confidence", confidence)) / 2) ** 2
    middle = (successes + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    return (middle - half if successes > 0 else 0.0), (middle + half if successes < n else 1.0)


def bootstrap_interval(
    values: ArrayLike, *, n_resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of one value a question; (nan, nan) without values.

    Questions are drawn with replacement, `n_resamples` times as many as there are; their order does not matter.

    Raises:
        ValueError: Values are NaN or infinite; the message counts them.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
    """
    sample = _finite(values)
    if not sample.size:
        return math.nan, math.nan
    return _percentiles(_resampled_means(sample, n_resamples, seed), confidence)


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

    `a` and `b`, the baseline, have one value for each of the same questions in the same order; what is drawn is as in
    `bootstrap_interval`.

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
    means = _resampled_means(differences, n_resamples, seed)
    rounding = 1e-12 * np.abs(differences).max()
    far_side = min(np.count_nonzero(means <= rounding), np.count_nonzero(means >= -rounding))
    p = min(1.0, 2 * (int(far_side) + 1) / (n_resamples + 1))
    return PairedDifference(float(differences.mean()), *_percentiles(means, confidence), p)


def mcnemar_exact(gains: int, losses: int, *, alternative: Literal["two-sided", "greater"] = "two-sided") -> float:
    """Exact p of McNemar's paired test: of the questions on which two systems differ, are gains as likely as losses?

    Args:
        gains: Questions that only the new system gets right.
        losses: Questions that only the baseline gets right.
        alternative: "greater" asks only whether the new system is better.

    Returns:
        p, which is 1 when the systems never differ.

    Raises:
        ValueError: A count is negative, or the alternative is unknown.

    Source: McNemar, Psychometrika 12 (1947), with the binomial law instead of chi-square.
    """
    from scipy.special import bdtr

    if gains < 0 or losses < 0:
        raise ValueError(f"{gains} gains and {losses} losses: counts cannot be negative")
    if alternative not in ("two-sided", "greater"):
        raise ValueError(f"alternative is {alternative!r}: choose 'two-sided' or 'greater'")
    sides, fewer = (1, losses) if alternative == "greater" else (2, min(gains, losses))
    return min(1.0, sides * float(bdtr(fewer, gains + losses, 0.5)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for making all these tests at once, in the given order; NaN stays and does not count as a test.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scand. J. Statistics 6 (1979).
    """
    defined = [(p, place) for place, p in enumerate(p_values) if not math.isnan(p)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for done, (p, place) in enumerate(sorted(defined)):
        largest = max(largest, min(1.0, (len(defined) - done) * _share("p", p)))
        adjusted[place] = largest
    return adjusted


def minimum_detectable_gain(
    n: int,
    *,
    alpha: float = 0.05,
    n_tests: int = 1,
    losses: int = 0,
    alternative: Literal["two-sided", "greater"] = "greater",
) -> float:
    """Smallest net gain, as a share of n questions, that exact McNemar can call significant.

    Args:
        n: Questions in the comparison.
        alpha: Significance level.
        n_tests: Tests made at once, of which Holm lets the best pass at alpha / n_tests.
        losses: Questions assumed to be lost; each must be made good by another gain. 0 gives the lower bound.
        alternative: As in `mcnemar_exact`.

    Returns:
        (gains - losses) / n, or NaN when even winning all other questions would not be significant.
    """
    if not 0 <= losses <= n or n_tests < 1:
        raise ValueError(f"{losses} losses of {n} questions in {n_tests} tests: need 0 <= losses <= n and n_tests >= 1")
    level = _share("alpha", alpha) / n_tests
    for gains in range(losses, n - losses + 1):
        if mcnemar_exact(gains, losses, alternative=alternative) <= level:
            return (gains - losses) / n
    return math.nan


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
        labels = sorted({*a, *b}) if weights else [*{*a, *b}]
    place = {label: i for i, label in enumerate(labels)}
    unknown = {repr(label) for label in (*a, *b) if label not in place}
    if unknown:
        raise ValueError(f"labels {sorted(unknown)} are not among {list(labels)}: add them to `labels`")
    counts = np.zeros((len(labels), len(labels)))
    np.add.at(counts, ([place[label] for label in a], [place[label] for label in b]), 1)
    distance = np.abs(np.subtract.outer(np.arange(len(labels)), np.arange(len(labels))))
    cost = {None: distance > 0, "linear": distance, "quadratic": distance**2}.get(weights)
    if cost is None:
        raise ValueError(f"weights is {weights!r}: choose None, 'linear' or 'quadratic'")
    by_chance = (cost * np.outer(counts.sum(axis=1), counts.sum(axis=0))).sum()
    return 1 - float((cost * counts).sum() * counts.sum() / by_chance) if by_chance else math.nan


def _resampled_means(sample: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """Means of samples drawn with replacement, in no particular order.

    A mean depends only on how often each distinct value was drawn, so where values repeat it is those counts that are
    drawn (multinomial), and of small whole numbers the sum itself: always the bootstrap's law, with less work.
    """
    rng, n = np.random.default_rng(seed), sample.size
    distinct, counts = np.unique(sample, return_counts=True)
    above = distinct - distinct[0]  # so that equal values have exactly their own mean
    reach = 1 + math.ceil(30 * math.sqrt(counts @ (above - counts @ above / n) ** 2))
    if reach < 2**13 and np.array_equal(above, above.round()):
        return distinct[0] + _sums_of_whole_numbers(above.astype(int), counts, reach, n_resamples, rng) / n
    if distinct.size <= min(1000, n / 16):  # to count one value costs about as much as to draw 16 questions
        return distinct[0] + rng.multinomial(n, counts / n, size=n_resamples) @ above / n
    each, sums = np.repeat(above, counts), np.empty(n_resamples)
    rows = max(1, 2**16 // n)  # resamples at a time, few enough for the processor's cache
    for start in range(0, n_resamples, rows):
        draws = each[rng.integers(n, size=(min(rows, n_resamples - start), n))]
        sums[start : start + rows] = draws.sum(axis=1)
    return distinct[0] + sums / n


def _sums_of_whole_numbers(
    values: np.ndarray, counts: np.ndarray, reach: int, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Sums of resamples of hits or wins, drawn from the law of the sum, which a Fourier transform gives.

    No value is further from the mean than the sum's standard deviation. By Bernstein's inequality the sum leaves 30 of
    these, `reach`, with a chance below 1e-17, so that to know it modulo twice the reach is to know it.
    """
    n, size = counts.sum(), 2 * reach
    law = np.fft.irfft(np.fft.rfft(np.bincount(values, weights=counts) / n, size) ** n, size)
    sums = int(counts @ values) - reach + np.arange(size)
    chances = law[sums % size].clip(min=0)
    return np.repeat(sums, rng.multinomial(n_resamples, chances / chances.sum()))


def _percentiles(means: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - _share("confidence", confidence)) / 2
    low, high = np.quantile(means, [tail, 1 - tail]).tolist()
    return low, high


def _finite(values: ArrayLike) -> np.ndarray:
    sample = np.asarray(values, dtype=np.float64).ravel()
    unusable = np.count_nonzero(~np.isfinite(sample))
    if unusable:
        raise ValueError(f"{unusable} of {sample.size} values are NaN or infinite: leave them out and report how many")
    return sample


def _share(name: str, value: float) -> float:
    """The value itself, unless it is no share of 1 (95 for 0.95, say)."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}: must lie between 0 and 1")
    return value
