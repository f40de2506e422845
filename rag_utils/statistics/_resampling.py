"""Bootstrap resamples of a mean, drawn by how often each value occurs instead of question by question."""

import math

import numpy as np

_DRAWN_BELOW = 32
"""A value that occurs fewer times is drawn one by one (a few ns each); counting it takes a binomial (about 100 ns)."""
_BLOCK = 2**17
"""Draws held in memory at once: 1 MB, which stays in the processor's cache."""
_WIDEST_LAW = 2**14
"""Longest law of a sum that is computed whole: some ms, where longer ones would take more than counting does."""


def resampled_means(sample: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
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
        return (sample.size * distinct[0] + sums * step) / sample.size
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
    sums = int(counts @ steps) - size // 2 + np.arange(size)
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
            sizes = drawn[:, -1]
            # Not in a function of its own: `draws` must outlive the block, or the allocator returns its pages, and
            # fresh pages cost more than the draws. "clip" only spares the check of the bounds.
            draws = rare.take(rng.integers(rare.size, size=sizes.sum()), mode="clip")
            filled = sizes > 0  # reduceat would give an empty segment its successor's first draw
            block[filled] += np.add.reduceat(draws, (np.cumsum(sizes) - sizes)[filled])
    return sums
