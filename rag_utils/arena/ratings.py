"""Ratings from battles: online Elo, Bradley-Terry with intervals, length control, and the worth of fewer judgements.

A battle is one judged pair of answers to a question: `query`, `model_a`, `model_b`, and the `winner`, which is
"model_a", "model_b" or "tie". Ratings are in points, 400 of which are a factor of 10 in the odds of winning.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from rag_utils.arena.battles import OUTCOMES, TIE_RULES, Battles, checked, count
from rag_utils.arena.likelihood import bootstrap_fits, fit

COLUMNS = ["query", "model_a", "model_b", "winner"]
POINTS = 400 / math.log(10)  # of one unit of log odds

Ties = Literal["half", "davidson"]


def elo(battles: Battles, k: float = 4, scale: float = 400, base: float = 10, start: float = 1000) -> dict[str, float]:
    """Online Elo: after each battle, in the given order, the winner takes points from the loser.

    The same battles in another order give other ratings: shuffle them to see how far, or use `bradley_terry`.

    Args:
        battles: Battles, of which `query` is not needed. Those of a model against itself are left out with a warning.
        k: Points that a battle is worth at most.
        scale: Difference of ratings at which the odds are `base` to 1.
        base: See `scale`.
        start: Rating before the first battle.

    Returns:
        Rating of each model, in order of appearance.

    Raises:
        ValueError: No battles, missing values, or an unknown winner.

    Source: Elo, The Rating of Chessplayers (1978); constants as in the Chatbot Arena, used in RAG-QA Arena, table 5.
    """
    ratings: dict[str, float] = {}
    frame = checked(battles, COLUMNS[1:])
    for a, b, outcome in zip(frame.model_a, frame.model_b, frame.winner.map(OUTCOMES), strict=True):
        first, second = ratings.setdefault(a, start), ratings.setdefault(b, start)
        gain = k * (1 - outcome / 2 - 1 / (1 + base ** ((second - first) / scale)))
        ratings[a], ratings[b] = first + gain, second - gain
    return ratings


def bradley_terry(
    battles: Battles, n_bootstrap: int = 1000, seed: int = 0, ties: Ties = "half", anchor: str | None = None
) -> pd.DataFrame:
    """Ratings by maximum likelihood, whatever the order of battles, with 95 % intervals by bootstrap over questions.

    The bootstrap is the Bayesian one: a question, with all its battles, has a random weight of mean 1 in place of the
    number of times it is drawn. To first order the intervals are the same, and no resample loses the only upset that
    keeps a rating finite. With few questions, below about 20, they are too narrow, as any bootstrap's.

    Args:
        battles: Battles. Those of a model against itself are left out with a warning.
        n_bootstrap: Resamples.
        seed: Of the bootstrap.
        ties: "half" counts a tie as half a win for each; "davidson" gives ties a probability of their own.
        anchor: Model whose rating is 1000, in every resample too; by default the mean of all models is.

    Returns:
        One row a model, best first: model, rating, low, high, rank_low and rank_high. rank_low is 1 + the number of
        models that are significantly better (rated higher in 97.5 % of resamples); rank_high is the number of models
        less those that are significantly worse. Where no finite rating exists, as for a model that always won, half a
        win is added for each side of every pair that met (Haldane's correction; of random weight in resamples, so that
        of two models judged once a question the interval is Jeffreys's), and a warning names the models.

    Raises:
        ValueError: No battles, missing values, models that no chain of battles connects, or an unknown winner, tie
            model or anchor.

    Source: Bradley & Terry, Biometrika 39 (1952); Davidson, JASA 65 (1970); Rubin, The Bayesian Bootstrap, Annals of
    Statistics 9 (1981).
    """
    games = count(checked(battles, COLUMNS), ties)
    if problem := games.unbounded():
        warnings.warn(f"{problem}; half a win is added for each side of every pair that met", stacklevel=2)
        games = games.with_half_wins()
    fits = bootstrap_fits(games.opponents(), games, n_bootstrap, seed)
    return _table(games.models, fits, anchor)


class Controlled(NamedTuple):
    """Ratings in `bradley_terry`'s form, and what each term is worth in points: term, points, low, high."""

    ratings: pd.DataFrame
    terms: pd.DataFrame


def length_controlled(
    battles: Battles,
    n_bootstrap: int = 1000,
    seed: int = 0,
    anchor: str | None = None,
    terms: Sequence[str] = ("length",),
) -> Controlled:
    """Bradley-Terry ratings as they would be among answers of equal length, and, if asked, without a first place.

    Args:
        battles: Battles with `length_a` and `length_b`, in words or any other unit, above 0; a tie is half a win each.
        n_bootstrap: Resamples of questions; all battles are refitted, so that 1,000 take long for tens of thousands.
        seed: Of the bootstrap.
        anchor: As in `bradley_terry`.
        terms: "length": points for an answer twice as long as the other; "position": points for standing first, where
            `model_a` is the answer that the judge saw first.

    Raises:
        ValueError: As in `bradley_terry`; or no finite rating exists, a length is not above 0, or a term cannot be told
            from the models' strengths (one model is always longer by the same factor, or always first).

    Source: length as a term of the regression: Dubois et al., Length-Controlled AlpacaEval, arXiv:2404.04475, there one
    pair of models at a time and with another function of length.
    """
    frame = checked(battles, COLUMNS + ["length_a", "length_b"] * ("length" in terms))
    games = count(frame, "half", by_pair=False)
    if problem := games.unbounded():
        raise ValueError(f"{problem}: leave these models out, or judge more pairs")
    design = np.hstack([games.opponents(), *(_advantage(term, frame) for term in terms)])
    if np.linalg.matrix_rank(design) < design.shape[1] - 1:
        raise ValueError(f"terms {[*terms]} cannot be told from the models' strengths: vary which is longer or first")
    fits = bootstrap_fits(design, games, n_bootstrap, seed)
    worth = POINTS * fits[:, len(games.models) : -1]
    low, high = _limits(worth[1:])
    effects = pd.DataFrame({"term": [*terms], "points": worth[0], "low": low, "high": high})
    return Controlled(_table(games.models, fits, anchor), effects)


def budget_curve(battles: Battles, sizes: Sequence[int], n_repeats: int = 200, seed: int = 0) -> pd.DataFrame:
    """How well n judgements tell the order of models: Spearman's correlation with the ratings from all judgements.

    Args:
        battles: Battles, of which n are drawn at random without replacement; ties count as half a win for each.
        sizes: Numbers of judgements, each from 1 to all.
        n_repeats: Draws of each size.
        seed: Of the draws.

    Returns:
        One row a size: n, the mean correlation over draws, and low and high, between which 95 % of draws lie. So that
        every draw has finite ratings, half a win is added for each side of every pair that met at all, also in the
        ratings from all. A draw in which every model comes out equal correlates 0.

    Raises:
        ValueError: As in `bradley_terry`, or a size is out of range.
    """
    from scipy.stats import rankdata

    games = count(checked(battles, COLUMNS), "davidson")
    games.unbounded()
    all_counts = games.totals.astype(int).ravel()
    if wrong := [size for size in sizes if not 1 <= size <= all_counts.sum()]:
        raise ValueError(f"sizes {wrong}: must lie between 1 and the {all_counts.sum()} battles at hand")
    rng = np.random.default_rng(seed)
    drawn = [rng.multivariate_hypergeometric(all_counts, n, n_repeats, method="marginals") for n in sizes]
    counts = np.vstack([all_counts, *drawn]).reshape(-1, len(games.pairs), 3) @ TIE_RULES["half"] + [0.5, 0, 0.5]
    logits = fit(games.opponents(), counts, len(games.models))[:, :-1]
    ranks = rankdata(logits.round(9), axis=1) - (len(games.models) + 1) / 2
    norms = np.maximum(np.linalg.norm(ranks, axis=1), 1e-9)
    correlations = (ranks[1:] @ ranks[0] / (norms[1:] * norms[0])).reshape(len(sizes), n_repeats)
    low, high = _limits(correlations.T)
    return pd.DataFrame({"n": [*sizes], "correlation": correlations.mean(axis=1), "low": low, "high": high})


def _advantage(term: str, frame: pd.DataFrame) -> np.ndarray:
    """The first answer's advantage in each battle, [battles, 1]."""
    if term == "position":
        return np.ones((len(frame), 1))
    if term != "length":
        raise ValueError(f"term {term!r}: choose 'length' or 'position'")
    lengths = frame[["length_a", "length_b"]].to_numpy(dtype=float)
    if not (lengths > 0).all():
        raise ValueError(f"{(lengths <= 0).sum()} lengths are not above 0: leave out battles with an empty answer")
    return np.log2(lengths[:, :1] / lengths[:, 1:])


def _table(models: list[str], fits: np.ndarray, anchor: str | None) -> pd.DataFrame:
    """Ratings from the sample's logits, the first row, and the resamples'."""
    if anchor is not None and anchor not in models:
        raise ValueError(f"anchor {anchor!r} is not among the models {models}")
    points = POINTS * fits[:, : len(models)]
    zero = points.mean(axis=1) if anchor is None else points[:, models.index(anchor)]
    points = 1000 + points - zero[:, None]
    low, high = _limits(points[1:])
    better = np.mean(points[1:, :, None] > points[1:, None, :] + 1e-6, axis=0) >= 0.975
    ranks = {"rank_low": 1 + better.sum(axis=0), "rank_high": len(models) - better.sum(axis=1)}
    table = pd.DataFrame({"model": models, "rating": points[0], "low": low, "high": high, **ranks})
    return table.sort_values("rating", ascending=False, kind="stable", ignore_index=True)


def _limits(samples: np.ndarray) -> np.ndarray:
    return np.quantile(samples, [0.025, 0.975], axis=0)
