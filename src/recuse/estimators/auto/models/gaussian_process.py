"""Gaussian process regression with a length scale for each feature, in bounded time."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from recuse.estimators.auto.models.process_kernel import JITTER, Kernel, Projection, learned_scales
from recuse.threads import one_blas_thread

__all__ = ["GaussianProcess"]

Floats = NDArray[np.float64]


class GaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process with rational kernels, whose scales are learned from some of the rows, to bound the time.

    The module `process_kernel` explains the kernel.

    A table of many rows is fitted by the projected process: the mean of the process is a sum of kernels at some of the
    rows, the centres, whose coefficients are fitted to all rows.

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
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    kernel_ : Kernel
    centres_ : ndarray of shape (centre, feature)
    coefficients_ : ndarray of shape (centre,)

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
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.parts = parts
        self.scale_rows = scale_rows
        self.exact_rows = exact_rows
        self.centres = centres
        self.random_state = random_state

    @one_blas_thread()
    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Learn the scales, then fit; the noise of a row of weight w is divided by w."""
        X, weight = np.asarray(X), np.ones(len(y)) if sample_weight is None else sample_weight
        order = check_random_state(self.random_state).permutation(len(y))
        some = order[: self.scale_rows]
        scales = learned_scales(X[some], y[some], weight[some], self.parts)
        self.kernel_: Kernel = scales.kernel
        if len(y) <= self.exact_rows:
            self.centres_ = X
            covariance = self.kernel_(X, X)
            covariance[np.diag_indices_from(covariance)] += scales.ratio / weight + JITTER
            self.coefficients_ = cho_solve(cho_factor(covariance), y)
        else:
            self.centres_ = X[order[: self.centres]]
            self.coefficients_ = Projection(self.kernel_, X, weight / scales.ratio, self.centres_).coefficients(y)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the mean of the process for every row."""
        return self.kernel_.sum(np.asarray(X), self.centres_, self.coefficients_)
