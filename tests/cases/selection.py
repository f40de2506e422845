"""Forward selection: when it stops, ties, the smallest gain, a missing score."""

import math

import numpy as np
import pytest

from rag_utils.selection import forward_selection

N = 1_000


def _evaluate(scores):
    """Hits whose mean is the score of a set of streams; a missing score is a missing value."""

    def hits(streams):
        score = scores["+".join(sorted(streams))]
        return np.full(N, score) if math.isnan(score) else np.arange(N) < round(N * score)

    return hits


def SEL_G01():
    """Stops when nothing improves: the third stream would lower the score."""
    scores = {"": 0.4, "k": 0.44, "n": 0.43, "y": 0.39, "k+n": 0.47, "k+y": 0.44, "n+y": 0.45, "k+n+y": 0.46}
    evaluate = _evaluate(scores)
    selection = forward_selection(["k", "n", "y"], evaluate, alpha=None)
    assert selection.selected == ("k", "n")
    assert evaluate(selection.selected).mean() == pytest.approx(0.47)


def SEL_G02():
    """Equal scores go by name, whatever the order of the candidates; equal is no improvement."""
    evaluate = _evaluate({"": 0.4, "keybert": 0.45, "yake": 0.45, "keybert+yake": 0.45})
    for candidates in (["yake", "keybert"], ["keybert", "yake"]):
        selection = forward_selection(candidates, evaluate, alpha=None)
        assert selection.selected == ("keybert",)
        assert evaluate(selection.selected).mean() == pytest.approx(0.45)


def SEL_G03():
    """A gain of .009 is below the smallest gain of .01."""
    evaluate = _evaluate({"": 0.4, "k": 0.409, "n": 0.405, "k+n": 0.43})
    assert forward_selection(["k", "n"], evaluate, alpha=None, min_gain=0.01).selected == ()


def SEL_G04():
    """A candidate without a score neither wins nor loses by its place: it is reported as failed."""
    evaluate = _evaluate({"": 0.4, "k": math.nan, "n": 0.42, "k+n": 0.41})
    for candidates in (["k", "n"], ["n", "k"]):
        selection = forward_selection(candidates, evaluate, alpha=None)
        assert selection.selected == ("n",)
        assert "NaN" in selection.path.set_index("stream").loc["k", "failed"]
