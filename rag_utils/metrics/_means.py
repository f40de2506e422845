"""The mean over queries, with its denominator."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Mean(NamedTuple):
    """A mean with its denominator: `n` defined values, `dropped` undefined ones."""

    value: float
    n: int
    dropped: int

    def __str__(self) -> str:
        shown = f"{self.value:.4f}" if self.n else "-"
        return f"{shown} over {self.n} of {self.n + self.dropped} queries"


def mean_defined(values: Iterable[float]) -> Mean:
    """Mean of the values that are not NaN, with the counts of both kinds; NaN when none is defined."""
    values = list(values)
    defined = [value for value in values if not math.isnan(value)]
    mean = math.fsum(defined) / len(defined) if defined else math.nan
    return Mean(mean, len(defined), len(values) - len(defined))
