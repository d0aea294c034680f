"""Features that matter to a fitted model: the loss of held-out rows rises if they are permuted (Breiman, 2001)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["certainly_relevant", "loss_increases"]

Floats = NDArray[np.float64]

_CERTAIN = 2.0  # standard errors


def loss_increases(
    losses: Callable[[Floats], Floats], X: Floats, order: NDArray[np.intp], weight: Floats | None = None
) -> Floats:
    """Return the increase of the loss of each row (row, feature) if a feature is permuted.

    Parameters
    ----------
    losses : callable
        Function from features (row, feature) to the losses (row,) of a model.
    X : ndarray of shape (row, feature)
        Rows that the model was not fitted to.
    order : ndarray of shape (row,)
        The permutation.
    weight : ndarray of shape (row,), optional

    Examples
    --------
    >>> X = np.array([[1.0, 5.0], [2.0, 6.0]])
    >>> loss_increases(lambda X: (X[:, 0] - [1, 2]) ** 2, X, order=np.array([1, 0]))
    array([[1., 0.],
           [1., 0.]])
    """
    before, columns = losses(X), []
    share = np.ones(len(X)) if weight is None else weight / weight.mean()
    for place in range(X.shape[1]):
        permuted = X.copy()
        permuted[:, place] = X[order, place]
        columns.append(share * (losses(permuted) - before))
    return np.stack(columns, axis=1)


def certainly_relevant(increases: Floats) -> NDArray[np.intp]:
    """Return the features whose mean increase (row, feature) is two standard errors above zero.

    Examples
    --------
    >>> certainly_relevant(np.array([[1.0, 1.0], [1.2, -1.0], [0.9, 0.1]]))
    array([0])
    """
    error = increases.std(axis=0) / len(increases) ** 0.5
    return np.flatnonzero(increases.mean(axis=0) > _CERTAIN * error)
