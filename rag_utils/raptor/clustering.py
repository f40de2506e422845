"""Which nodes of a layer belong together: Gaussian mixtures on coordinates that are the same in every run.

Imported only where nodes are clustered, since scikit-learn takes a second to load; it has to be loaded before its
threads are limited.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

FEWEST_TO_SPLIT = 5
"""Fewer nodes stay one cluster; the released code raises for 2 to 4 of them (raptor, issue 30)."""
_MOST_COMPONENTS = 50
_DECIMALS = 4  # of a coordinate, whose spread is about 0.2: equal texts become equal points on every processor


@dataclass(frozen=True, kw_only=True)
class SoftClusters:
    """RAPTOR's clustering (arXiv 2401.18059, section 3): a node may stand in several clusters.

    A mixture over all nodes, then one within each of its clusters of more than `dimensions` + 1 nodes; a cluster whose
    texts exceed `tokens` goes through both again. As in the released code a mixture has as many components as give the
    lowest BIC, of 1 to min(50, n) - 1, full covariances, and members with a share above `threshold`. Of a few dozen
    nodes that BIC likes small, nearly flat components, so clusters are small too, some of one or two nodes.

    Where this differs from that code:

    - PCA reduces the vectors, not UMAP, which is unseeded there and so makes another tree in each run.
    - The mixture with the lowest BIC is the one used; there it is fitted again with another seed.
    - A long cluster that does not come apart is cut into halves, in the order of its nodes; there the
      recursion has no such end.
    - A cluster found twice counts once, and a node whose shares are all low joins the component with the highest.

    Args:
        dimensions: Of the reduced vectors, at most; n - 2 for fewer nodes.
        threshold: Share, 0 to 1, above which a node is a member.
        tokens: Most of the texts of a cluster of 5 or more nodes.
        seed: Of the mixtures' first guess.
    """

    dimensions: int = 10
    threshold: float = 0.1
    tokens: int = 3_500
    seed: int = 0

    def __call__(self, vectors: np.ndarray, lengths: Sequence[int]) -> list[tuple[int, ...]]:
        """Clusters as rising row numbers, in that order; together they hold every row.

        Args:
            vectors: (n, d), n at least 1.
            lengths: Tokens of each node's text.
        """
        with threadpool_limits(1):  # sums in one order; on busy cores many times as fast as two threads
            found = self._divided(np.arange(len(vectors)), np.asarray(vectors, np.float64), np.asarray(lengths))
            return sorted({tuple(rows.tolist()) for rows in found})

    def _divided(self, rows: np.ndarray, vectors: np.ndarray, lengths: np.ndarray) -> Iterator[np.ndarray]:
        """The clusters of some rows, none too long."""

        def too_long(part: np.ndarray) -> bool:
            return len(part) >= FEWEST_TO_SPLIT and lengths[part].sum() > self.tokens

        groups = self._mixed(rows, vectors)
        split = [self._mixed(own, vectors) if len(own) > self.dimensions + 1 else [own] for own in groups]
        parts = [*chain.from_iterable(split)]
        if too_long(rows) and max(map(len, parts)) == len(rows):
            parts = np.array_split(rows, 2)
        for part in parts:
            yield from self._divided(part, vectors, lengths) if too_long(part) else [part]

    def _mixed(self, rows: np.ndarray, vectors: np.ndarray) -> list[np.ndarray]:
        """The rows of each component of one mixture."""
        if len(rows) < FEWEST_TO_SPLIT or not np.ptp(vectors[rows], axis=0).any():
            return [rows]
        points = _reduced(vectors[rows], self.dimensions)
        shares = _lowest_bic(points, self.seed).predict_proba(points)
        member = (shares > self.threshold) | (shares == shares.max(axis=1, keepdims=True))
        return [rows[own] for own in member.T if own.any()]


def _reduced(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """The first principal components; scikit-learn fixes their signs."""
    kept = min(dimensions, len(vectors) - 2, vectors.shape[1])
    points = PCA(kept, svd_solver="full").fit_transform(vectors)
    return np.round(points, _DECIMALS) + 0.0  # no negative zeros, which would count as other points


def _lowest_bic(points: np.ndarray, seed: int) -> GaussianMixture:
    """The mixture with the lowest BIC; of equal ones that with the fewest components."""
    most = min(_MOST_COMPONENTS - 1, len(points) - 1, len(np.unique(points, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after 100 steps a mixture competes as it stands
        mixtures = [GaussianMixture(n, random_state=seed).fit(points) for n in range(1, most + 1)]
    return min(mixtures, key=lambda mixture: mixture.bic(points))
