"""Log-linear model of the expected loss, fitted with the gamma deviance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import GammaRegressor

Floats = NDArray[np.float64]

FAR = 3.0  # standard deviations beyond which inputs are clipped, since the exponential is not bounded
_FLOOR = 1e-3  # share of the mean error; the deviance of a zero error is infinite
_TAIL = 0.005  # share of the training rows at either end beyond which predictions are clipped
_STEPS = 500


class RiskLinear(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression of a target >= 0 by the exponential of a linear function, with the gamma deviance.

    It has few parameters, so it is useful with few rows, where forests and networks fit the noise. Inputs are
    standardised and clipped. The penalty of the squared coefficients is proportional to their number, so that the
    logarithm of the risk varies as much with many inputs as with few. Predictions are clipped to the range of 99% of
    the predictions of the training rows.

    Parameters
    ----------
    penalty : float, default=0.01
        Of the squared coefficients, for each input.

    Examples
    --------
    >>> random = np.random.RandomState(0)
    >>> X = random.uniform(size=(500, 1))
    >>> error = np.exp(2 * X[:, 0]) * random.exponential(size=500)
    >>> RiskLinear().fit(X, error).predict(np.array([[0.0], [1.0]])).round()
    array([1., 7.])
    """

    mean_: Floats
    scale_: Floats
    model_: GammaRegressor
    limits_: Floats

    def __init__(self, penalty: float = 0.01) -> None:
        self.penalty = penalty

    def fit(self, X: Any, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Fit to losses y >= 0."""
        X = np.asarray(X)
        mean = float(np.average(y, weights=sample_weight)) or 1.0
        self.mean_ = np.average(X, axis=0, weights=sample_weight)
        scale = np.sqrt(np.average(np.square(X - self.mean_), axis=0, weights=sample_weight))
        self.scale_ = np.where(scale > 0, scale, 1.0)
        model = GammaRegressor(alpha=self.penalty * X.shape[1], max_iter=_STEPS)
        self.model_ = model.fit(self._inputs(X), np.maximum(y, _FLOOR * mean), sample_weight)
        self.limits_ = np.quantile(self.model_.predict(self._inputs(X)), [_TAIL, 1 - _TAIL])
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the expected loss of every row."""
        return np.asarray(self.model_.predict(self._inputs(np.asarray(X))).clip(*self.limits_))

    def _inputs(self, X: Floats) -> Floats:
        return np.asarray(((X - self.mean_) / self.scale_).clip(-FAR, FAR))
