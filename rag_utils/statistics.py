"""Intervals, paired tests and agreement. Every resampling takes a seed and gives the same numbers for the same seed."""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_DRAWN_BELOW = 32
"""A value that occurs fewer times is drawn one by one (a few ns each); counting it takes a binomial (about 100 ns)."""
_BLOCK = 2**18
"""Draws held in memory at once: 2 MB, which stays in the processor's cache."""
_WIDEST_LAW = 2**14
"""Longest law of a sum that is computed whole."""


# Intervals


def wilson_interval(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a share, never outside 0-1 and never of width 0; (nan, nan) when n is 0.

    Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22 (1927).
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: must lie between 0 and n")
    if n == 0:
        return math.nan, math.nan
    z2 = NormalDist().inv_cdf((1 + _share(confidence, "confidence")) / 2) ** 2
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
    means = _resampled_means(differences, n_resamples, seed)
    rounding = 1e-12 * np.abs(differences).max()
    far_side = min(np.count_nonzero(means <= rounding), np.count_nonzero(means >= -rounding))
    p = min(1.0, 2 * (far_side + 1) / (n_resamples + 1))
    return PairedDifference(float(differences.mean()), *_percentiles(means, confidence), p)


def _percentiles(means: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - _share(confidence, "confidence")) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _resampled_means(sample: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """Means of `n_resamples` samples drawn with replacement, in no particular order.

    A resample's mean depends only on how often each distinct value was drawn, so nothing is gathered question by
    question where values repeat: the law is the bootstrap's, the work is that of the distinct values.
    """
    rng = np.random.default_rng(seed)
    distinct, counts = np.unique(sample, return_counts=True)
    if distinct.size == 1:
        return np.full(n_resamples, distinct[0])
    step = np.diff(distinct).min()
    steps = (distinct - distinct[0]) / step
    width = _width_of_law(steps, counts)
    if width <= _WIDEST_LAW and np.abs(steps - steps.round()).max() < 1e-9:
        sums = _sums_of_steps(steps.round().astype(int), counts, width, n_resamples, rng)
        return distinct[0] + sums * step / sample.size
    return _sums_of_values(distinct, counts, n_resamples, rng) / sample.size


def _width_of_law(steps: np.ndarray, counts: np.ndarray) -> float:
    """A range around its mean that the sum of a resample leaves with a chance below 1e-20 (Bernstein's inequality)."""
    n = counts.sum()
    mean = counts @ steps / n
    deviation = math.sqrt(counts @ (steps - mean) ** 2)
    return 2 * (10 * deviation + 40 * steps[-1])


def _sums_of_steps(
    steps: np.ndarray, counts: np.ndarray, width: float, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Sums of resamples of whole numbers (hits, wins), drawn from the law of the sum itself, by Fourier transform."""
    n = counts.sum()
    size = 1 << int(width).bit_length()
    law_of_one = np.bincount(steps, weights=counts) / n
    # The sums are known modulo `size`, which is wider than all that can be drawn: take those around the mean.
    law = np.fft.irfft(np.fft.rfft(law_of_one, size) ** n, size)
    sums = int(counts @ steps / 1) - size // 2 + np.arange(size)
    chances = law[sums % size].clip(min=0)
    return np.repeat(sums, rng.multinomial(n_resamples, chances / chances.sum()))


def _sums_of_values(distinct: np.ndarray, counts: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of resamples of any numbers: frequent values are counted by multinomial draws, rare ones drawn singly."""
    frequent = counts >= _DRAWN_BELOW
    rare = np.repeat(distinct[~frequent], counts[~frequent])
    chances = np.append(counts[frequent], rare.size) / counts.sum()
    sums = np.empty(n_resamples)
    rows = max(1, _BLOCK // (chances.size + rare.size))
    for start in range(0, n_resamples, rows):
        block = sums[start : start + rows]
        drawn = rng.multinomial(counts.sum(), chances, size=block.size)
        block[:] = drawn[:, :-1] @ distinct[frequent]
        if rare.size:
            block += _sums_of_draws(rare, drawn[:, -1], rng)
    return sums


def _sums_of_draws(values: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each of `sizes`, the sum of that many draws from `values`."""
    draws = values[rng.integers(values.size, size=sizes.sum())]
    sums = np.zeros(sizes.size)
    filled = sizes > 0  # reduceat would give an empty segment its successor's first draw
    sums[filled] = np.add.reduceat(draws, (np.cumsum(sizes) - sizes)[filled])
    return sums


# Tests


def mcnemar_exact(gains: int, losses: int, *, alternative: Literal["two-sided", "greater"] = "two-sided") -> float:
    """Exact p of McNemar's paired test: of the questions on which two systems differ, are gains as likely as losses?

    Args:
        gains: Questions that only the new system gets right.
        losses: Questions that only the baseline gets right.
        alternative: "greater" asks only whether the new system is better.

    Returns:
        p, which is 1 when the systems never differ.

    Source: McNemar, Psychometrika 12 (1947), with the binomial law instead of chi-square.
    """
    from scipy.special import bdtr

    if gains < 0 or losses < 0:
        raise ValueError(f"{gains} gains and {losses} losses: counts cannot be negative")
    if alternative == "greater":
        return float(bdtr(losses, gains + losses, 0.5))
    if alternative == "two-sided":
        return min(1.0, 2 * float(bdtr(min(gains, losses), gains + losses, 0.5)))
    raise ValueError(f"alternative is {alternative!r}: choose 'two-sided' or 'greater'")


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for making all these tests at once, in the given order; NaN stays and does not count as a test.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scand. J. Statistics 6 (1979).
    """
    defined = [(p, place) for place, p in enumerate(p_values) if not math.isnan(p)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for done, (p, place) in enumerate(sorted(defined)):
        largest = max(largest, min(1.0, (len(defined) - done) * _share(p, "p", closed=True)))
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
    level = _share(alpha, "alpha") / n_tests
    for gains in range(losses, n - losses + 1):
        if mcnemar_exact(gains, losses, alternative=alternative) <= level:
            return (gains - losses) / n
    return math.nan


# Agreement


def cohen_kappa(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    *,
    weights: Literal["linear", "quadratic"] | None = None,
    labels: Sequence[Hashable] | None = None,
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


def _confusion(a: Sequence[Hashable], b: Sequence[Hashable], labels: Sequence[Hashable]) -> np.ndarray:
    """How many items have label i from the first rater and label j from the second."""
    place = {label: i for i, label in enumerate(labels)}
    unknown = {label for label in (*a, *b) if label not in place}
    if unknown:
        raise ValueError(f"labels {sorted(map(repr, unknown))} are not among {list(labels)}: add them to `labels`")
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for first, second in zip(a, b, strict=True):
        counts[place[first], place[second]] += 1
    return counts


# Checks


def _finite(values: ArrayLike) -> np.ndarray:
    sample = np.asarray(values, dtype=np.float64).ravel()
    unusable = np.count_nonzero(~np.isfinite(sample))
    if unusable:
        raise ValueError(f"{unusable} of {sample.size} values are NaN or infinite: leave them out and report how many")
    return sample


def _share(value: float, name: str, *, closed: bool = False) -> float:
    if not (0 < value < 1 or closed and value in (0, 1)):
        raise ValueError(f"{name} is {value}: must lie between 0 and 1")
    return value
