"""Comparison of regressors by their out-of-fold predictions, on the rows that all of them have predicted."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.weights import regressor_weights, sparse_weights
from recuse.estimators.crossfitting import Sample
from recuse.losses import TargetLoss

Floats = NDArray[np.float64]
Emphasis = Callable[[Floats, NDArray[np.intp]], Floats]

_MOST_ROWS = 200_000


class Comparison:
    """Blends of regressors on the rows that all have predicted; of a large table, on some of these rows.

    All methods take the predictions of several regressors: an array of shape (regressor, row) or (regressor, row,
    output) that is NaN where a regressor has no model of the fold.

    Parameters
    ----------
    sample : Sample
    loss : TargetLoss
    emphasis : callable, optional
        Function from predictions and the numbers of rows to the weights (row,) with which these rows count. By default
        they are those of the sample.

    Examples
    --------
    >>> from recuse.losses import SQUARED
    >>> target = np.repeat([0.0, 1.0], 50)
    >>> good, bad = target + 0.1, target + 5.0
    >>> Comparison(Sample(target[:, None], target, np.ones(100)), SQUARED).weights(np.array([good, bad])).round(1)
    array([1., 0.])
    """

    def __init__(self, sample: Sample, loss: TargetLoss, emphasis: Emphasis | None = None) -> None:
        self._sample, self._loss, self._emphasis = sample, loss, emphasis
        self._weight = sample.weight
        rows = len(sample.target)
        self._compared = np.arange(rows) % math.ceil(rows / _MOST_ROWS) == 0

    def emphasise(self, predictions: Floats) -> None:
        """Set the weights of the rows by the errors of a blend; rows of other folds count as these do on average."""
        if self._emphasis is None:
            return
        rows = self._common(predictions)
        counts, usual = self._emphasis(self._blend(predictions, rows), rows), self._sample.weight
        self._weight = usual * (counts.sum() / usual[rows].sum())
        self._weight[rows] = counts

    def weights(self, predictions: Floats) -> Floats:
        """Return the weights (regressor,) of the best blend."""
        return self._weights(predictions, self._common(predictions))

    def sparse_weights(self, predictions: Floats, needed: float) -> Floats:
        """Return weights (regressor,), zero for those without which the loss rises by less than a share."""
        rows = self._common(predictions)
        return sparse_weights(predictions[:, rows], self._sample.target[rows], self._weight[rows], self._loss, needed)

    def loss_of_blend(self, predictions: Floats) -> float:
        """Return the mean loss of the best blend."""
        rows = self._common(predictions)
        loss = self._loss(self._blend(predictions, rows) - self._sample.target[rows])
        return float(np.average(loss, weights=self._weight[rows]))

    def _common(self, predictions: Floats) -> NDArray[np.intp]:
        """Return the numbers of the rows that all have predicted."""
        known = np.isfinite(predictions.reshape(len(predictions), len(self._sample.target), -1)).all(axis=(0, 2))
        return np.flatnonzero(known & self._compared)

    def _weights(self, predictions: Floats, rows: NDArray[np.intp]) -> Floats:
        return regressor_weights(predictions[:, rows], self._sample.target[rows], self._weight[rows], self._loss)

    def _blend(self, predictions: Floats, rows: NDArray[np.intp]) -> Floats:
        return np.asarray(np.tensordot(self._weights(predictions, rows), predictions[:, rows], 1))
