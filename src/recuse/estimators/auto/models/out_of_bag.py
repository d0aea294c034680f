"""Forest predictions of training rows by the trees that were not fitted to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

__all__ = ["out_of_bag_prediction"]

Floats = NDArray[np.float64]

_TREES = 50
_MOST_ROWS = 5000  # of one tree


def out_of_bag_prediction(
    X: Floats, y: Floats, weight: Floats, min_samples_leaf: int, random: np.random.RandomState
) -> Floats:
    """Fit extremely randomised trees and predict each row by those that were not fitted to it.

    Parameters
    ----------
    X : ndarray of shape (row, input)
    y : ndarray of shape (row,) or (row, output)
        Of unit scale, since trees stop splitting where the variance is near the machine precision.
    weight : ndarray of shape (row,)
    min_samples_leaf : int
    random : RandomState

    Returns
    -------
    ndarray of the shape of y

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> prediction = out_of_bag_prediction(X, 2 * X[:, 0], np.ones(200), 2, np.random.RandomState(0))
    >>> bool(np.abs(prediction - 2 * X[:, 0]).mean() < 0.1)
    True
    """
    forest = ExtraTreesRegressor(
        _TREES,
        min_samples_leaf=min_samples_leaf,
        bootstrap=True,
        oob_score=True,
        max_samples=min(len(y), _MOST_ROWS),
        random_state=random,
    )
    return np.asarray(forest.fit(X, y, sample_weight=weight).oob_prediction_)
