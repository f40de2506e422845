"""Agreement, paired tests, many comparisons, intervals."""

import inspect
import math

import pytest

from rag_utils.metrics import mean_defined
from rag_utils.statistics import bootstrap_interval, cohen_kappa, holm, mcnemar_exact, wilson_interval


def STA_G01():
    """Kappa of two judges over three labels."""
    first, second = ["A", "A", "B", "tie", "B", "A"], ["A", "B", "B", "tie", "B", "A"]
    assert cohen_kappa(first, second) == pytest.approx(0.73913, abs=1e-6)


def STA_G02():
    """Kappa of one label throughout is 0/0: undefined, documented, shown as '-'."""
    kappa = cohen_kappa(["A", "A", "A"], ["A", "A", "A"])
    assert math.isnan(kappa)
    assert "undefined" in cohen_kappa.__doc__
    assert str(mean_defined([kappa])).startswith("- ")


def STA_G03():
    """A label that one judge never uses."""
    assert cohen_kappa([1, 2, 3, 3, 2, 1], [1, 1, 1, 2, 2, 2]) == pytest.approx(0.0, abs=1e-6)


def STA_G04():
    """Few differences: the exact law, not chi-square."""
    assert mcnemar_exact(5, 0) == pytest.approx(0.0625, abs=1e-6)


def STA_G05():
    """A run against itself."""
    assert mcnemar_exact(0, 0) == 1.0


def STA_G06():
    """Two runs over the same 100 questions, by a paired test."""
    assert mcnemar_exact(14, 4) == pytest.approx(0.030884, abs=1e-6)
    assert "paired test" in mcnemar_exact.__doc__


def STA_G07():
    """Holm's adjustment never falls along the order of p."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06], abs=1e-6)


def STA_G08():
    """None of 20 still has an interval."""
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.16113), abs=1e-4)


def STA_G09():
    """The same seed gives the same interval, and the seed is a parameter."""
    low, high = bootstrap_interval([0, 1, 1, 0, 1], seed=7)
    assert bootstrap_interval([0, 1, 1, 0, 1], seed=7) == (low, high)
    assert low <= 0.6 <= high
    assert "seed" in inspect.signature(bootstrap_interval).parameters


def STA_G10():
    """Agreement equal to chance is 0."""
    assert cohen_kappa(["A", "A", "B", "B"], ["A", "B", "A", "B"]) == pytest.approx(0.0, abs=1e-6)


def STA_G11():
    """One judge that always says the same agrees by chance only."""
    assert cohen_kappa(["A", "A", "A", "A"], ["A", "A", "B", "A"]) == pytest.approx(0.0, abs=1e-6)
