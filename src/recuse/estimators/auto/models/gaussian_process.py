"""Gaussian process regression with a length scale for each feature, in bounded time."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
    WhiteKernel,
)
from sklearn.utils import check_random_state

__all__ = ["GaussianProcess", "RationalKernel"]

Floats = NDArray[np.float64]

_LENGTHS = (1e-1, 1e3)  # in standard deviations of a feature
_VARIANCE, _NOISE = (1e-2, 1e3), (1e-4, 2.0)  # for a target of unit variance
_STEPS = 20
_JITTER = 1e-10  # added to the diagonal, for the factorisation


class RationalKernel(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    """The kernel 1 / (1 + d^2 / 2), where d is the distance in units of a length for each feature.

    It is the rational quadratic kernel with the exponent 1, a mixture of Gaussian kernels of many widths. It needs
    neither a root nor an exponential, so a decision takes a third of the time that a Matern kernel takes.

    Parameters
    ----------
    length_scale : ndarray of shape (feature,), or float for one feature
    length_scale_bounds : tuple of float

    Examples
    --------
    >>> RationalKernel(np.array([2.0]))(np.array([[0.0], [4.0]])).round(3)
    array([[1.   , 0.333],
           [0.333, 1.   ]])
    """

    def __init__(self, length_scale: Floats | float, length_scale_bounds: tuple[float, float] = _LENGTHS) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """Describe the lengths to the optimiser."""
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, np.size(self.length_scale))

    def __call__(self, X: Floats, Y: Floats | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel (row, row) and, on request, its gradient by the logarithms of the lengths."""
        rows = X / self.length_scale
        others = rows if Y is None else Y / self.length_scale
        kernel = 1 / (1 + cdist(rows, others, "sqeuclidean") / 2)
        if not eval_gradient:
            return kernel
        return kernel, (kernel**2)[:, :, None] * (rows[:, None] - rows[None]) ** 2


class GaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process with a rational kernel, whose scales are learned from some of the rows, to bound the time.

    Parameters
    ----------
    scale_rows : int, default=300
        Number of rows that the scales are learned from.
    most_rows : int, default=2000
        Maximum number of rows to fit to; of a larger table, this many rows are drawn at random.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = GaussianProcess(random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> model.predict([[0.5]]).round(2)
    array([1.])
    """

    def __init__(
        self, scale_rows: int = 300, most_rows: int = 2000, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.scale_rows = scale_rows
        self.most_rows = most_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Learn the scales, then fit; the noise of a row of weight w is divided by w."""
        X, weight = np.asarray(X), np.ones(len(y)) if sample_weight is None else sample_weight
        rows = check_random_state(self.random_state).permutation(len(y))[: self.most_rows]
        some = rows[: self.scale_rows]
        learned = _learned_kernel(X[some], y[some])
        noise = learned.k2.noise_level / weight[rows]  # a weight of two equals two copies
        self.process_ = GaussianProcessRegressor(learned.k1, alpha=noise, optimizer=None).fit(X[rows], y[rows])
        return self

    def predict(self, X: Any) -> Floats:
        """Return the mean of the process for every row."""
        return np.asarray(self.process_.predict(np.asarray(X)))


def _learned_kernel(X: Floats, y: Floats) -> Any:
    """Maximise the likelihood of the rows over the lengths, the variance and the noise."""
    features = X.shape[1]
    start = np.append(np.full(features, np.log(features**0.5)), np.log([1.0, 0.1]))
    bounds = np.log([*[_LENGTHS] * features, _VARIANCE, _NOISE])
    # a bounded number of steps: the last digits of a length scale do not matter
    options = {"maxiter": _STEPS}
    found = minimize(_likelihood, start, args=(X, y), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    variance, noise = np.exp(found.x[features:])
    return ConstantKernel(variance) * RationalKernel(np.exp(found.x[:features])) + WhiteKernel(noise)


def _likelihood(logarithms: Floats, X: Floats, y: Floats) -> tuple[float, Floats]:
    """Return the negative log-likelihood and its gradient by the logarithms of lengths, variance and noise.

    The gradient by the length of a feature x is the sum over pairs of rows of m (x - x')^2, with a matrix m of the
    pairs. It is computed as 2 (x^2 m 1 - x m x), so no array of all pairs and features is needed.
    """
    features = X.shape[1]
    variance, noise = np.exp(logarithms[features:])
    rows = X / np.exp(logarithms[:features])
    kernel = 1 / (1 + cdist(rows, rows, "sqeuclidean") / 2)
    covariance = variance * kernel
    covariance[np.diag_indices_from(covariance)] += noise + _JITTER
    try:
        factor = cho_factor(covariance, lower=True)
    except np.linalg.LinAlgError:
        return np.inf, np.zeros_like(logarithms)
    inverse = cho_solve(factor, np.eye(len(y)))
    solved = inverse @ y
    value = 0.5 * float(y @ solved) + float(np.log(np.diag(factor[0])).sum())
    slope = 0.5 * (inverse - np.outer(solved, solved))  # by the covariance
    pairs = slope * variance * kernel**2
    by_length = 2 * (np.square(rows).T @ pairs.sum(axis=1) - np.einsum("ij,ij->j", rows, pairs @ rows))
    return value, np.array([*by_length, variance * np.sum(slope * kernel), noise * np.trace(slope)])
