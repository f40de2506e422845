"""Intervals, paired tests and agreement.

Whatever is drawn at random takes a seed, and the same seed gives the same numbers.
"""

from rag_utils.statistics._agreement import cohen_kappa
from rag_utils.statistics._intervals import PairedDifference, bootstrap_interval, paired_bootstrap, wilson_interval
from rag_utils.statistics._significance import holm, mcnemar_exact, minimum_detectable_gain

__all__ = [
    "PairedDifference",
    "bootstrap_interval",
    "cohen_kappa",
    "holm",
    "mcnemar_exact",
    "minimum_detectable_gain",
    "paired_bootstrap",
    "wilson_interval",
]
