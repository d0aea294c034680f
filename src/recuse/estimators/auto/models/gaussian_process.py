"""Gaussian process regression with a length scale for each feature, in bounded time, and with heavy-tailed noise."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state

from recuse.estimators.auto.models.kernel_sum import KernelSum, summed
from recuse.estimators.auto.models.process_kernel import (
    JITTER,
    Projection,
    Scales,
    adjusted_scales,
    learned_scales,
)
from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.threads import one_blas_thread

Floats = NDArray[np.float64]

_DEGREES = 4.0  # degrees of freedom of the noise of a robust process
_MIN_WEIGHT = 0.02  # weight of the most distant row
_NEGLIGIBLE = 0.02  # standard deviations of the noise; a difference of this size adds 0.04% to the squared error


class GaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process with rational kernels, whose scales are learned from some of the rows, to bound the time.

    The module `process_kernel` explains the kernel.

    A table of many rows is fitted by the projected process: the mean of the process is a sum of kernels at some of the
    rows, the centres, whose coefficients are fitted to all rows.

    The noise of a robust process has Student's t distribution: rows with a large leave-one-out error get a low weight,
    as in one step of its maximum-likelihood fit (Lange, Little and Taylor, 1989). The scales stay as they are.

    Parameters
    ----------
    parts : int, default=1
        Number of kernels with lengths of their own, whose sum is the kernel.
    scale_rows : int, default=1000
        Number of rows that the scales are learned from.
    exact_rows : int, default=2000
        Maximum number of rows of which each is a centre.
    centres : int, default=1000
        Number of centres of a larger table, drawn at random.
    shrinkage : float, default=0.0
        Strength of the prior that the lengths of a part are equal; see `improved_scales`.
    steps : int, default=20
        Maximum number of steps for each part in which the scales of up to 600 rows are learned. Without shrinkage, many
        steps fit the noise.
    robust : bool, default=False
        Whether the noise has heavy tails. Ignored for more than `exact_rows` rows.
    random_state : int, RandomState or None, default=None
    start : Scales, optional
        Scales of a process of similar rows, which are only adjusted then. Ignored if it has other features.

    Attributes
    ----------
    scales_ : Scales
    sums_ : tuple of KernelSum
        One for each part; their sum is the mean of the process.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = GaussianProcess(random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> model.predict([[0.5]]).round(2)
    array([1.])
    """

    def __init__(
        self,
        parts: int = 1,
        scale_rows: int = 1000,
        exact_rows: int = 2000,
        centres: int = 1000,
        shrinkage: float = 0.0,
        steps: int = 20,
        robust: bool = False,
        random_state: int | np.random.RandomState | None = None,
        start: Scales | None = None,
    ) -> None:
        self.parts = parts
        self.scale_rows = scale_rows
        self.exact_rows = exact_rows
        self.centres = centres
        self.shrinkage = shrinkage
        self.steps = steps
        self.robust = robust
        self.random_state = random_state
        self.start = start

    @one_blas_thread()
    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Learn the scales, then fit; the noise of a row of weight w is divided by w."""
        X, weight = np.asarray(X), np.ones(len(y)) if sample_weight is None else sample_weight
        order = check_random_state(self.random_state).permutation(len(y))
        some = order[: self.scale_rows]
        scales = self.scales_ = self._scales(X[some], y[some], weight[some])
        kernel, centres = scales.kernel, X
        if len(y) <= self.exact_rows:
            if self.robust:
                weight = weight * robust_weights(scales, X, y, weight)
            coefficients = cho_solve(cho_factor(_covariance(scales, X, weight)), y)
        else:
            centres = X[order[: self.centres]]
            coefficients = Projection(kernel, X, weight / scales.ratio, centres).coefficients(y)
        self.sums_: tuple[KernelSum, ...] = kernel.sums(centres, coefficients)
        return self

    def _scales(self, X: Floats, y: Floats, weight: Floats) -> Scales:
        if self.start is not None and self.start.lengths.shape == (self.parts, X.shape[1]):
            return adjusted_scales(self.start, X, y, weight, self.shrinkage)
        return learned_scales(X, y, weight, self.parts, self.shrinkage, self.steps)

    def predict(self, X: Any) -> Floats:
        """Return the mean of the process for every row."""
        return summed(self.sums_, np.asarray(X))

    @one_blas_thread()
    def with_fewer_centres(self) -> GaussianProcess:
        """Return a fitted process that predicts nearly the same in less time."""
        smaller, tolerance = copy(self), _NEGLIGIBLE * self.scales_.noise**0.5
        smaller.sums_ = tuple(part.with_fewer_centres(tolerance) for part in self.sums_)
        return smaller


def _covariance(scales: Scales, X: Floats, weight: Floats) -> Floats:
    """Return the covariance (row, row) of the targets, relative to the variance of the process."""
    covariance = scales.kernel(X, X)
    covariance[np.diag_indices_from(covariance)] += scales.ratio / weight + JITTER
    return covariance


def robust_weights(scales: Scales, X: Floats, y: Floats, weight: Floats) -> Floats:
    """Return the weights (row,) of rows whose noise has Student's t distribution, with the mean 1.

    A weight is (v + 1) / (v + z^2), with v degrees of freedom and the leave-one-out error z in standard deviations of
    its prediction.

    Examples
    --------
    >>> X, y = np.linspace(-1, 1, 20)[:, None], np.zeros(20)
    >>> y[7] = 5.0
    >>> scales = Scales(np.ones((1, 1)), np.ones(1), 0.1)
    >>> int(np.argmin(robust_weights(scales, X, y, np.ones(20))))
    7
    """
    inverse = cho_solve(cho_factor(_covariance(scales, X, weight)), np.eye(len(y)))
    # the error is (C^-1 y) / diag(C^-1) and its variance 1 / diag(C^-1) (Rasmussen and Williams, 2006, section 5.4.2)
    squares = (inverse @ y) ** 2 / np.diag(inverse) / scales.variances.sum()
    weights = np.maximum((_DEGREES + 1) / (_DEGREES + squares), _MIN_WEIGHT)
    return np.asarray(weights / weights.mean())


def with_scales_of(fitted: Any, estimator: Any) -> Any:
    """Return an estimator to fit to more rows: a process starts from the scales of one that is fitted to most of them.

    Parameters
    ----------
    fitted : estimator
        A fitted copy of `estimator`.
    estimator : estimator
        A process, with or without wrappers. Others are returned as they are, and so are those of several targets and
        of several divisions into folds, whose fitted copies are combinations of processes.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> fitted = GaussianProcess(random_state=0).fit(X[::2], X[::2, 0])
    >>> with_scales_of(fitted, GaussianProcess()).start == fitted.scales_
    True
    """
    match fitted, estimator:
        case GaussianProcess(), GaussianProcess():
            return clone(estimator).set_params(start=fitted.scales_)
        case WrappedRegressor(), WrappedRegressor():
            return clone(estimator).set_params(regressor=with_scales_of(fitted.regressor_, estimator.regressor))
    return estimator
