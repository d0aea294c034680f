"""Predictions of training rows by randomised trees that were not fitted to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import ExtraTreeRegressor

Floats = NDArray[np.float64]

_TREES = 50
_MOST_ROWS = 5000  # rows that one tree draws


def out_of_bag_prediction(
    X: Floats, y: Floats, weight: Floats, min_samples_leaf: int, random: np.random.RandomState
) -> Floats:
    """Fit extremely randomised trees and predict each row by those that were not fitted to it.

    Rows are drawn with equal probability, and their weights are used by the trees. Otherwise a row of a large weight
    would be in the sample of every tree.

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
    total, trees = np.zeros(y.shape), np.zeros(len(y))
    X = X.astype(np.float32)  # the trees convert it otherwise, each on its own
    for _ in range(_TREES):
        count = np.bincount(random.randint(len(y), size=min(len(y), _MOST_ROWS)), minlength=len(y))
        drawn, left_out = np.flatnonzero(count), np.flatnonzero(count == 0)
        tree = ExtraTreeRegressor(min_samples_leaf=min_samples_leaf, random_state=random)
        tree.fit(X[drawn], y[drawn], sample_weight=count[drawn] * weight[drawn])
        if len(left_out):
            total[left_out] += tree.predict(X[left_out])
            trees[left_out] += 1
    known = trees > 0
    prediction = np.empty(y.shape)
    prediction[known] = (total[known].T / trees[known]).T
    prediction[~known] = np.average(y, axis=0, weights=weight)  # every tree may have drawn some of the rows
    return prediction
