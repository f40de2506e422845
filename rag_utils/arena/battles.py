"""Battles, the input of ratings: checked, then counted."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

Battles: TypeAlias = pd.DataFrame | Iterable[Mapping[str, Any]]

OUTCOMES = {"model_a": 0, "tie": 1, "model_b": 2}
TIE_RULES = {"half": [[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], "davidson": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}
"""What each outcome counts as: wins of the first, ties, wins of the second."""


def checked(battles: Battles, columns: list[str]) -> pd.DataFrame:
    """Battles between two models; those of a model against itself are left out with a warning.

    Raises:
        ValueError: No battles, a column is missing or has missing values, or a winner is unknown.
    """
    frame = battles if isinstance(battles, pd.DataFrame) else pd.DataFrame(list(battles))
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("category"), object))  # unlike categories cannot be compared
    if absent := [column for column in columns if column not in frame]:
        raise ValueError(f"{len(frame)} battles without {absent}: each needs {columns}")
    wrong = frame.winner[~frame.winner.isin(OUTCOMES)]
    if len(wrong):
        raise ValueError(f"{len(wrong)} winners like {wrong.iloc[0]!r}: keep only {[*OUTCOMES]}, and report the others")
    if missing := int(frame[columns].isna().any(axis=1).sum()):
        raise ValueError(f"{missing} battles have missing values in {columns}: leave them out and report how many")
    alone = frame.model_a == frame.model_b
    if alone.any():
        names = [*frame.model_a[alone].unique()]
        warnings.warn(f"{alone.sum()} battles of a model against itself are left out: {names}", stacklevel=3)
    if alone.all():
        raise ValueError("no battles between two models: at least one is needed")
    return frame[~alone]


class Games(NamedTuple):
    """Battles counted by row, which is a pair of models or a single battle.

    `pairs` are places in `models`, [rows, 2]; `tally`, [3 * rows, questions], has wins of a row's first model, ties,
    and wins of its second; `mass` is what each question counts, 1 but for made-up ones.
    """

    models: list[str]
    pairs: np.ndarray
    tally: Any
    mass: np.ndarray

    @property
    def totals(self) -> np.ndarray:
        """Counts over all questions, [rows, 3]."""
        return (self.tally @ self.mass).reshape(-1, 3)

    def opponents(self) -> np.ndarray:
        """[rows, models]: 1 for a row's first model, -1 for its second."""
        each = np.eye(len(self.models))
        return each[self.pairs[:, 0]] - each[self.pairs[:, 1]]

    def with_half_wins(self) -> "Games":
        """With two more questions for every row, one won by each side, that count half."""
        from scipy.sparse import eye_array, hstack

        sides = np.flatnonzero(np.tile([1, 0, 1], len(self.pairs)))
        tally = hstack([self.tally, eye_array(3 * len(self.pairs), format="csc")[:, sides]], format="csr")
        return self._replace(tally=tally, mass=np.append(self.mass, np.full(len(sides), 0.5)))

    def unbounded(self) -> str:
        """Why maximum likelihood has no finite ratings, or "" if it has.

        They need a chain of wins or ties from every model to every other (Ford, American Mathematical Monthly 64
        (1957)). Ties with a probability of their own could explain all, unless wins contradict each other, be it round
        a circle.

        Raises:
            ValueError: No chain of battles connects some models with the others.
        """
        from scipy.sparse.csgraph import connected_components

        def groups(graph: np.ndarray, connection: str) -> list[list[str]]:
            labels = connected_components(graph, connection=connection)[1]
            return [[self.models[i] for i in np.flatnonzero(labels == label)] for label in np.unique(labels)]

        (first, second), (won, tied, lost) = self.pairs.T, self.totals.T
        wins, ties = np.zeros((2, len(self.models), len(self.models)))
        np.add.at(wins, (first, second), won)
        np.add.at(wins, (second, first), lost)
        np.add.at(ties, (first, second), tied)
        links = wins + ties + ties.T
        if len(islands := groups(links, "weak")) > 1:
            raise ValueError(f"no chain of battles connects {islands}: rate them apart, or judge pairs between them")
        if len(levels := groups(links, "strong")) > 1:
            return f"no finite ratings exist, since battles between {levels} all went one way"
        if len(groups(wins, "strong")) == len(self.models):
            return f"no finite ratings exist, since none of {self.models} lost to one it had beaten, even indirectly"
        return ""


def count(frame: pd.DataFrame, ties: str, *, by_pair: bool = True) -> Games:
    """Count checked battles by pair of models, or keep each as a row of its own."""
    from scipy.sparse import csr_array

    if ties not in TIE_RULES:
        raise ValueError(f"ties is {ties!r}: choose one of {[*TIE_RULES]}")
    places, models = pd.factorize(pd.concat([frame.model_a, frame.model_b]))
    pairs, rows = places.reshape(2, -1).T, np.arange(len(frame))
    counts = np.array(TIE_RULES[ties], dtype=float)[frame.winner.map(OUTCOMES)]
    if by_pair:
        turned = pairs[:, 0] > pairs[:, 1]
        counts = np.where(turned[:, None], counts[:, ::-1], counts)
        keys, rows = np.unique(pairs.min(axis=1) * len(models) + pairs.max(axis=1), return_inverse=True)
        pairs = np.column_stack(np.divmod(keys, len(models)))
    cells, questions = 3 * rows[:, None] + np.arange(3), pd.factorize(frame["query"])[0]
    tally = csr_array((counts.ravel(), (cells.ravel(), questions.repeat(3))))
    tally.eliminate_zeros()
    return Games([*models], pairs, tally, np.ones(tally.shape[1]))
