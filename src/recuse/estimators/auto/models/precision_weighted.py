"""Regression with weights inverse to the estimated noise of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from recuse.estimators.auto.models.out_of_bag import out_of_bag_prediction
from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.joint_fits import Rows
from recuse.losses import SQUARED, TargetLoss
from recuse.tabular.units import moments
from recuse.threads import one_thread

Floats = NDArray[np.float64]


class PrecisionWeighted(WrappedRegressor):
    """Estimate the noise of every training row, then fit a regressor with weights inverse to it.

    Least squares with weights inverse to the variances has the lowest variance (Aitken, 1935). Two forests estimate the
    noise: one is fitted to the target, the other to the losses of the first. Both predict each row out of bag, so no
    row influences its own estimate.

    Parameters
    ----------
    regressor : estimator
        Its `fit` must accept `sample_weight`.
    loss : TargetLoss, default=SQUARED
        The loss that measures the noise.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> random = np.random.RandomState(0)
    >>> X = random.uniform(size=(400, 1))
    >>> y = X[:, 0] + random.normal(size=400) * np.where(X[:, 0] > 0.5, 5.0, 0.01)
    >>> model = PrecisionWeighted(LinearRegression(), random_state=0).fit(X, y)
    >>> model.predict([[0.25]]).round(1)
    array([0.2])
    """

    def __init__(
        self,
        regressor: Any,
        loss: TargetLoss = SQUARED,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.regressor = regressor
        self.loss = loss
        self.random_state = random_state

    @classmethod
    def _prepared(cls, estimators: Sequence[PrecisionWeighted], rows: Sequence[Rows], n_jobs: int | None) -> list[Rows]:
        pairs = zip(estimators, rows, strict=True)
        return list(Parallel(n_jobs)(delayed(estimator._weighted)(*own) for estimator, own in pairs))

    def _weighted(self, X: Floats, y: Floats, sample_weight: Floats | None) -> Rows:
        """Return the rows with weights inverse to their estimated noise."""
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        random = check_random_state(self.random_state)
        mean, scale = moments(y, weight)
        standard = (y - mean) / (scale or 1.0)
        with one_thread():
            expected = out_of_bag_prediction(X, standard, weight, 2, random)
            noise = self.loss.scaled(scale or 1.0)(expected - standard)
            risk = out_of_bag_prediction(X, noise / (noise.mean() or 1.0), weight, 10, random)
        return X, y, weight * precision(risk)

    def predict(self, X: Floats) -> Floats:
        """Predict every row."""
        return np.asarray(self.regressor_.predict(X))


def precision(risk: Floats) -> Floats:
    """Return weights inverse to the risk, with mean one.

    Risks are at least a twentieth of their mean, so that a few rows do not dominate.

    Examples
    --------
    >>> precision(np.array([1.0, 1.0, 4.0])).round(2)
    array([1.33, 1.33, 0.33])
    """
    inverse = 1 / np.maximum(risk, float(risk.mean()) / 20 or 1.0)  # equal weights if no row has a risk
    return np.asarray(inverse / inverse.mean())
