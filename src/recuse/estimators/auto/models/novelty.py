"""Novelty: training features in, how far any row is from the rows like it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

__all__ = ["Novelty"]

Floats = NDArray[np.float64]

_NEIGHBOURS = 5
_MOST_ROWS = 5000  # to be near to
_FLOOR = 1e-2  # in standard deviations of a feature; keeps the logarithm finite


@dataclass(frozen=True)
class Novelty:
    """The logarithm of the mean distance to the five nearest training rows, in standardised features.

    Errors are larger where there is little to learn from, and an unusual row is unusual whatever its prediction.

    Attributes
    ----------
    neighbours : NearestNeighbors
        Fitted to the training rows, or to a sample of many.
    """

    neighbours: Any

    @classmethod
    def learn(cls, features: Floats, random: np.random.RandomState) -> tuple[Self, Floats]:
        """Learn from training rows (row, feature); also give the novelty of each, its own row not counted.

        Examples
        --------
        >>> crowd, loner = np.zeros((20, 1)), np.full((1, 1), 9.0)
        >>> novelty, known = Novelty.learn(np.concatenate([crowd, loner]), np.random.RandomState(0))
        >>> bool(known[-1] > known[0]), bool(novelty(np.full((1, 1), 5.0))[0] > novelty(np.zeros((1, 1)))[0])
        (True, True)
        """
        count = len(features)
        chosen = np.sort(random.choice(count, min(count, _MOST_ROWS), replace=False))
        nearest = NearestNeighbors(n_neighbors=min(_NEIGHBOURS + 1, len(chosen))).fit(features[chosen])
        distance, _ = nearest.kneighbors(features)
        own = np.isin(np.arange(count), chosen)  # the nearest row to such a row is itself
        mean = np.where(own, distance[:, 1:].mean(axis=1), distance[:, :-1].mean(axis=1))
        return cls(nearest), np.log(mean + _FLOOR)

    def __call__(self, features: Floats) -> Floats:
        """Give the novelty (row,) of new rows."""
        count = max(1, self.neighbours.n_neighbors - 1)
        distance, _ = self.neighbours.kneighbors(features, n_neighbors=count)
        return np.asarray(np.log(distance.mean(axis=1) + _FLOOR))
