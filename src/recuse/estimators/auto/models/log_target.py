"""Regression of the logarithm of a positive target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.joint_fits import Rows

Floats = NDArray[np.float64]

_BEYOND = 0.5  # standard deviations of the logarithm by which predictions may be outside the training targets


class LogTarget(WrappedRegressor):
    """Fit a regressor to the logarithm of the target, which must be above zero, and predict its exponential.

    This suits targets such as prices, where effects are factors and errors grow with the target. Predictions are
    clipped a little beyond the range of the training targets, since the exponential is not bounded.

    Parameters
    ----------
    regressor : estimator

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> LogTarget(LinearRegression()).fit(X, np.array([10.0, 100.0, 1000.0])).predict([[2.1], [9.0]]).round()
    array([ 126., 2560.])
    """

    limits_: Floats

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    @classmethod
    def _prepared(cls, estimators: Sequence[LogTarget], rows: Sequence[Rows], n_jobs: int | None) -> list[Rows]:
        return [estimator._learn(*own) for estimator, own in zip(estimators, rows, strict=True)]

    def _learn(self, X: Floats, y: Floats, sample_weight: Floats | None) -> Rows:
        logarithm = np.log(y)
        beyond = _BEYOND * float(logarithm.std())
        self.limits_ = np.array([logarithm.min() - beyond, logarithm.max() + beyond])
        return X, logarithm, sample_weight

    def predict(self, X: Floats) -> Floats:
        """Predict every row."""
        return np.asarray(np.exp(self.regressor_.predict(X).clip(*self.limits_)))
