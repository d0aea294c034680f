"""Distance of rows to the training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from recuse.rules.risk import Novelty
from recuse.tabular.folds import Split

Floats = NDArray[np.float64]

_NEIGHBOURS = 5
_MAX_ROWS = 5000  # training rows that distances are computed to


def learn_novelty(features: Floats, random: np.random.RandomState) -> Novelty:
    """Keep the training rows (row, feature), or a sample of them.

    Examples
    --------
    >>> near, far = learn_novelty(np.zeros((20, 1)), np.random.RandomState(0))(np.array([[0.0], [9.0]]))
    >>> bool(near < far)
    True
    """
    count = len(features)
    chosen = np.sort(random.choice(count, min(count, _MAX_ROWS), replace=False))
    return Novelty(NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(chosen))).fit(features[chosen]))


def out_of_fold_novelty(features: Floats, splits: Sequence[Split], random: np.random.RandomState) -> Floats:
    """Return the novelty (row,) of each row by the training rows of its fold; NaN for rows in no test part."""
    novelty = np.full(len(features), np.nan)
    for train, test in splits:
        novelty[test] = learn_novelty(features[train], random)(features[test])
    return novelty
