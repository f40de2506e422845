"""Exact paired tests on right and wrong answers, and what many tests at once do to their p."""

import math
from collections.abc import Sequence
from typing import Literal

from rag_utils.statistics._checks import share


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
        largest = max(largest, min(1.0, (len(defined) - done) * share("p", p)))
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
    level = share("alpha", alpha) / n_tests
    for gains in range(losses, n - losses + 1):
        if mcnemar_exact(gains, losses, alternative=alternative) <= level:
            return (gains - losses) / n
    return math.nan
