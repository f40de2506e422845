"""Maximum likelihood of the Bradley-Terry family, of a sample and of all resamples of its questions at once.

The log odds of a row, which is a pair of models or one battle, are `design @ logits`: the first model's logit less the
second's, and covariates. At log odds d a win has the weight exp(d / 2), a loss exp(-d / 2) and a tie 2 v, a parameter
(Davidson, JASA 65 (1970)). Where the counts hold no tie v is 0, which is the model of Bradley & Terry.

Shapes: design [rows, columns]; counts [resamples, rows, 3] of wins, ties, losses; parameters [resamples, columns + 1],
the last column being log v. The first `n_models` columns of a design are the models.
"""

import numpy as np

from rag_utils.arena.battles import Games

MAX_STEPS = 100
BLOCK = 1_000_000  # rows times resamples that are fitted at a time: bounds memory


def bootstrap_fits(design: np.ndarray, games: Games, n_bootstrap: int, seed: int) -> np.ndarray:
    """Parameters of the sample, then of `n_bootstrap` resamples of its questions.

    The bootstrap is the Bayesian one: a question, with all its battles, has the weight of an exponential variate, or a
    gamma variate where it counts other than 1 (Rubin, Annals of Statistics 9 (1981)).
    """
    if n_bootstrap < 1:
        raise ValueError(f"n_bootstrap is {n_bootstrap}: at least 1 resample is needed")

    def counts(weights: np.ndarray) -> np.ndarray:
        return (games.tally @ weights.T).T.reshape(len(weights), -1, 3)

    estimate = fit(design, counts(games.mass[None]), len(games.models))
    weights = np.random.default_rng(seed).standard_gamma(games.mass, (n_bootstrap, len(games.mass)))
    blocks = np.array_split(weights, 1 + n_bootstrap * len(design) // BLOCK)
    return np.vstack([estimate, *(fit(design, counts(block), len(games.models), estimate) for block in blocks)])


def fit(design: np.ndarray, counts: np.ndarray, n_models: int, start: np.ndarray | float = 0.0) -> np.ndarray:
    """Newton's method for all resamples at once, its steps shortened by how far they move any row's log odds.

    That makes convergence certain where a maximum exists, and quadratic near it (generalized self-concordance: Sun &
    Tran-Dinh, Mathematical Programming 178 (2019)).

    Raises:
        ValueError: No maximum was reached.
    """
    parameters = np.zeros((len(counts), design.shape[1] + 1)) + start
    squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    for _ in range(MAX_STEPS):
        gradient, curvature = _derivatives(design, squares, counts, parameters)
        curvature[:, :n_models, :n_models] += counts.mean()  # only differences count: this holds the models' sum at 0
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        reach = np.abs(step[:, :-1] @ design.T).max(axis=1) + np.abs(step[:, -1])
        parameters += step / (1 + reach[:, None] / 2)
        if reach.max() < 1e-8:
            return parameters
    raise ValueError(f"no finite ratings in {MAX_STEPS} steps: models and covariates together explain every battle")


def _derivatives(
    design: np.ndarray, squares: np.ndarray, counts: np.ndarray, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first derivatives of the log-likelihood, and minus the second; log v stays put where there are no ties.

    They are written without differences of nearly equal numbers, since odds may be very long.
    """
    wins, ties, losses = np.moveaxis(counts, 2, 0)
    n, any_tie, k = wins + ties + losses, ties.any(axis=1), design.shape[1]
    half = parameters[:, :-1] @ design.T / 2
    v = any_tie[:, None] * np.exp(parameters[:, -1:])
    cosh, sinh = np.cosh(half), np.sinh(half)
    total = cosh + v
    by_odds = (wins * (np.exp(-half) + v) - losses * (np.exp(half) + v) - ties * sinh) / total / 2
    by_v = (ties * cosh - (wins + losses) * v) / total
    curvature = np.empty((len(counts), k + 1, k + 1))
    curvature[:, :k, :k] = (n * (1 + cosh * v) / total**2 / 4 @ squares).reshape(-1, k, k)
    curvature[:, :k, k] = curvature[:, k, :k] = -(n * sinh * v / total**2 / 2) @ design
    curvature[:, k, k] = (n * cosh * v / total**2).sum(axis=1) + ~any_tie
    return np.column_stack([by_odds @ design, by_v.sum(axis=1)]), curvature
