"""Paired bootstrap, 10,000 resamples of 10,000 questions: a plain loop against `paired_bootstrap`.

Run: python tests/benchmarks/bootstrap.py   (make bench NAME=bootstrap)

The loop draws the questions of each resample and gathers both systems' values. It is timed on `LOOPED` resamples a
round and multiplied; its interval comes from the resamples of all rounds together. Exit status 1 below a goal, or when
the intervals differ by more than Monte-Carlo error.
"""

import sys
import time

import numpy as np

from rag_utils.statistics import paired_bootstrap

QUESTIONS = 10_000
RESAMPLES = 10_000
LOOPED = 500
ROUNDS = 9
GOALS = {"hit@k": 500, "RR@10": 8, "any floats": 1}


def made_up_values(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Values of two systems over the same questions, which agree on about half (RR) to nine tenths (hits) of them."""
    rng = np.random.default_rng(0)
    if name == "hit@k":
        a = (rng.random(QUESTIONS) < 0.8).astype(float)
        return a, np.where(rng.random(QUESTIONS) < 0.1, 1 - a, a)
    if name == "any floats":
        return rng.random(QUESTIONS), rng.random(QUESTIONS)
    ranks = rng.geometric(0.45, (2, QUESTIONS))
    a, other = np.where(ranks > 10, 0.0, 1 / ranks)
    return a, np.where(rng.random(QUESTIONS) < 0.5, other, a)


def loop(a: np.ndarray, b: np.ndarray, n_resamples: int, rng: np.random.Generator) -> list[float]:
    """The peer: two gathers a resample."""
    means = []
    for _ in range(n_resamples):
        questions = rng.integers(0, len(a), len(a))
        means.append(a[questions].mean() - b[questions].mean())
    return means


def bench(name: str) -> bool:
    """Interleave the two, print the median ratio and the intervals, and say whether both hold."""
    a, b = made_up_values(name)
    rng = np.random.default_rng(1)
    means, slow, fast = [], [], []
    for seed in range(ROUNDS):
        begin = time.perf_counter()
        means += loop(a, b, LOOPED, rng)
        slow.append((time.perf_counter() - begin) * RESAMPLES / LOOPED)
        begin = time.perf_counter()
        ours = paired_bootstrap(a, b, n_resamples=RESAMPLES, seed=seed)
        fast.append(time.perf_counter() - begin)
    ratio = float(np.median(np.divide(slow, fast)))
    peer = np.quantile(means, [0.025, 0.975])
    # Standard error of a normal 2.5 % quantile from m draws: sqrt(.025 * .975 / m) / density = 2.67 sd / sqrt(m).
    allowed = 4 * 2.67 * np.std(means) * (len(means) ** -0.5 + RESAMPLES**-0.5)
    off = float(np.abs(peer - [ours.low, ours.high]).max())
    print(
        f"{name}: loop {np.median(slow):.2f} s ({LOOPED} resamples timed x {RESAMPLES / LOOPED:.0f}), "
        f"ours {np.median(fast) * 1e3:.2f} ms, median ratio {ratio:,.1f} (goal {GOALS[name]}, {ROUNDS} rounds)\n"
        f"  interval: loop [{peer[0]:.5f}, {peer[1]:.5f}], ours [{ours.low:.5f}, {ours.high:.5f}], "
        f"largest difference {off:.1e}, Monte-Carlo error allows {allowed:.1e}"
    )
    return ratio >= GOALS[name] and off <= allowed


if __name__ == "__main__":
    sys.exit(0 if all([bench(name) for name in GOALS]) else 1)
