"""Distance of rows to the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from recuse.tabular.folds import Split

__all__ = ["FLOOR", "Novelty", "out_of_fold_novelty"]

Floats = NDArray[np.float64]

_NEIGHBOURS = 5
_MAX_ROWS = 5000  # training rows that distances are computed to
FLOOR = 1e-2  # in standard deviations of a feature; keeps the logarithm finite


@dataclass(frozen=True)
class Novelty:
    """The logarithm of the mean distance to the five nearest training rows, in standardised features.

    Errors are larger where there are few rows to learn from.

    Attributes
    ----------
    neighbours : NearestNeighbors
        Fitted to the training rows, or to a sample of them.

    Examples
    --------
    >>> novelty = Novelty.learn(np.zeros((20, 1)), np.random.RandomState(0))
    >>> near, far = novelty(np.array([[0.0], [9.0]]))
    >>> bool(near < far)
    True
    """

    neighbours: NearestNeighbors

    @classmethod
    def learn(cls, features: Floats, random: np.random.RandomState) -> Self:
        """Keep the training rows (row, feature), or a sample of them."""
        count = len(features)
        chosen = np.sort(random.choice(count, min(count, _MAX_ROWS), replace=False))
        return cls(NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(chosen))).fit(features[chosen]))

    def __call__(self, features: Floats) -> Floats:
        """Return the novelty (row,) of rows that are not among the training rows."""
        distance, _ = self.neighbours.kneighbors(features)
        return np.asarray(np.log(distance.mean(axis=1) + FLOOR))


def out_of_fold_novelty(features: Floats, splits: Sequence[Split], random: np.random.RandomState) -> Floats:
    """Return the novelty (row,) of each row by the training rows of its fold; NaN for rows in no test part."""
    novelty = np.full(len(features), np.nan)
    for train, test in splits:
        novelty[test] = Novelty.learn(features[train], random)(features[test])
    return novelty
