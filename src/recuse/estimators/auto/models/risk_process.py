"""Gaussian process of the logarithm of the expected loss, fitted with the gamma deviance.

The deviance is minimised by Fisher scoring (McCullagh and Nelder, 1989): with a logarithmic link, its weights are the
same for all rows. So each step is a regression of the working response log R + e/R - 1 on the same kernel matrix, which
is factorised once.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from recuse.estimators.auto.models.kernel_sum import KernelSum, summed
from recuse.estimators.auto.models.process_kernel import Kernel, Projection, Scales, improved_scales, learned_scales
from recuse.threads import one_blas_thread

Floats = NDArray[np.float64]

_MAX_RATIO = 10.0  # larger ratios of a loss to the expected one count as this, so that no row dominates
_ROUNDS = 3  # rounds of learning the scales, each from the working response of the one before
_SCALE_STEPS = 12  # steps in each round after the first
_STEPS = 10
_TOLERANCE = 1e-2  # tolerance in the logarithm of the expected loss
_TAIL = 0.005  # share of the training rows at either end beyond which predictions are clipped
_NEGLIGIBLE = 0.02  # difference of the logarithm of the risk


class RiskProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process regression of a target >= 0 by its logarithm, with the gamma deviance.

    The kernel and its scales are those of `GaussianProcess`: inputs that do not matter get a long length. Predictions
    are clipped to the range of 99% of the predictions of the training rows.

    Parameters
    ----------
    scale_rows : int, default=500
        Number of rows that the scales are learned from.
    centres : int, default=500
        Maximum number of rows that are centres of kernels, drawn at random.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> random = np.random.RandomState(0)
    >>> X = random.uniform(size=(500, 1))
    >>> error = (0.1 + X[:, 0]) * random.exponential(size=500)
    >>> low, high = RiskProcess(random_state=0).fit(X, error).predict(np.array([[0.1], [0.9]]))
    >>> bool(0.1 < low < 0.3 and 0.8 < high < 1.2)
    True
    """

    sums_: tuple[KernelSum, ...]
    level_: float
    limits_: Floats

    def __init__(
        self, scale_rows: int = 500, centres: int = 500, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.scale_rows = scale_rows
        self.centres = centres
        self.random_state = random_state

    @one_blas_thread()
    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Fit to losses y >= 0."""
        X, weight = np.asarray(X), np.ones(len(y)) if sample_weight is None else sample_weight / sample_weight.mean()
        order = check_random_state(self.random_state).permutation(len(y))
        mean = float(np.average(y, weights=weight)) or 1.0
        loss, some = y / mean, order[: self.scale_rows]
        scales = _scales(X[some], loss[some], weight[some])
        centres = X[order[: self.centres]]
        self.sums_, logarithm = _fisher_scoring(scales.kernel, X, loss, weight / scales.ratio, centres)
        self.level_ = float(np.log(mean))
        self.limits_ = np.quantile(logarithm, [_TAIL, 1 - _TAIL]) + self.level_
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the expected loss of every row."""
        logarithm = summed(self.sums_, np.asarray(X))
        return np.asarray(np.exp((logarithm + self.level_).clip(*self.limits_)))

    @one_blas_thread()
    def with_fewer_centres(self) -> RiskProcess:
        """Return a fitted process that predicts nearly the same in less time."""
        smaller = copy(self)
        smaller.sums_ = tuple(part.with_fewer_centres(_NEGLIGIBLE) for part in self.sums_)
        return smaller


def _scales(X: Floats, loss: Floats, weight: Floats) -> Scales:
    """Learn the scales from working responses of unit variance."""

    def standardised(response: Floats) -> Floats:
        return np.asarray(response / (response.std() or 1.0))

    scales = learned_scales(X, standardised(_working_response(np.zeros(len(loss)), loss)), weight)
    for _ in range(_ROUNDS - 1):
        _, logarithm = _fisher_scoring(scales.kernel, X, loss, weight / scales.ratio, X)
        scales = improved_scales(scales, X, standardised(_working_response(logarithm, loss)), weight, _SCALE_STEPS)
    return scales


def _fisher_scoring(
    kernel: Kernel, rows: Floats, loss: Floats, precision: Floats, centres: Floats
) -> tuple[tuple[KernelSum, ...], Floats]:
    """Minimise the penalised gamma deviance; return the log risk as a function, and that of the rows (row,)."""
    logarithm, projection = np.zeros(len(loss)), Projection(kernel, rows, precision, centres)
    for _ in range(_STEPS):
        coefficients = projection.coefficients(_working_response(logarithm, loss))
        sums = kernel.sums(centres, coefficients)
        before, logarithm = logarithm, summed(sums, rows)
        if np.abs(logarithm - before).max() < _TOLERANCE:
            break
    return sums, logarithm


def _working_response(logarithm: Floats, loss: Floats) -> Floats:
    return np.asarray(logarithm + np.minimum(loss * np.exp(-logarithm), _MAX_RATIO) - 1)
