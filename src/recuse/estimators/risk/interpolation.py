"""Artificial rows between training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

__all__ = ["interpolated_rows"]

Floats = NDArray[np.float64]

_ROWS = 500
_POOL = 2000
_NEIGHBOURS = 5


def interpolated_rows(features: Floats, slices: Sequence[slice], random: np.random.RandomState) -> Floats:
    """Combine training rows with near neighbours, column by column, into rows that do not occur in training.

    Predictions of different models differ on these rows as much as on new rows. On training rows they differ less.

    Parameters
    ----------
    features : ndarray of shape (row, feature)
    slices : sequence of slice
        Features of each column, which are taken from the same parent.
    random : RandomState

    Returns
    -------
    ndarray of shape (new row, feature)

    Examples
    --------
    >>> features = np.random.RandomState(0).normal(size=(50, 3))
    >>> interpolated_rows(features, [slice(0, 1), slice(1, 3)], np.random.RandomState(1)).shape
    (50, 3)
    """
    drawn = features[random.choice(len(features), min(len(features), _POOL), replace=False)]
    _, first = np.unique(drawn, axis=0, return_index=True)
    pool = drawn[np.sort(first)]  # without copies: a row and its copy would give a training row again
    parents = pool[random.choice(len(pool), min(len(pool), _ROWS), replace=False)]
    count = min(_NEIGHBOURS + 1, len(pool))
    near = NearestNeighbors(n_neighbors=count).fit(pool).kneighbors(parents, return_distance=False)
    partners = pool[near[np.arange(len(parents)), random.randint(min(1, count - 1), count, size=len(parents))]]
    children = parents.copy()
    for where in slices:
        swapped = random.uniform(size=len(parents)) < 0.5
        children[swapped, where] = partners[swapped, where]
    return children
