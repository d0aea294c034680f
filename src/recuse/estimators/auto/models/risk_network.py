"""Networks that predict the expected loss, fitted with the gamma deviance.

The output of a network is log R. Half the deviance of the gamma distribution, e/R - log(e/R) - 1, depends only on the
residual d = log R - log e: it is exp(-d) + d - 1. Its mean is lowest where R is the mean of e. For normal residuals it
is the negative log-likelihood of their variance, up to a factor and a constant. It depends on the ratio of e and R, so
small risks are learned as well as large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures, Expansion
from recuse.estimators.joint_fits import Rows, fit_all
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.losses import TargetLoss

Floats = NDArray[np.float64]

_MAX_LOG_RATIO = 4.0  # the loss is linear where the error is more than exp(4) times the risk
_FLOOR = 1e-3  # share of the mean error that keeps the logarithm of a zero error finite
_TAIL = 0.005  # share of the training rows at either end beyond which predictions are clipped


@final
@dataclass(frozen=True)
class LogRatio(TargetLoss):
    """Half the gamma deviance, as a loss of the residual in the logarithm.

    Parameters
    ----------
    scale : float, default=1.0
        Factor from residuals to natural logarithms.

    Examples
    --------
    >>> LogRatio()(np.array([0.0, np.log(2)])).round(3)
    array([0.   , 0.193])
    """

    scale: float = 1.0

    def __call__(self, residual: Floats) -> Floats:
        """Return exp(-d) + d - 1, where d is the residual in natural logarithms."""
        d = residual * self.scale
        near = d.clip(min=-_MAX_LOG_RATIO)
        return np.asarray(np.exp(-near) * (1 + near - d) + d - 1)

    def slope(self, residual: Floats, weight: Floats | float = 1.0) -> Floats:
        """Return 1 - exp(-d) times the weight."""
        near = (residual * self.scale).clip(min=-_MAX_LOG_RATIO)
        return np.asarray((1 - np.exp(-near)) * (weight * self.scale))

    def scaled(self, scale: float) -> LogRatio:
        """Return the loss of residuals in units of the scale."""
        return LogRatio(self.scale * scale)

    def unit(self, scale: float) -> float:
        """Return 1, since the loss has no unit."""
        return 1.0

    @property
    def name(self) -> str:
        """The name "log_ratio"; it is not among those of `recuse.losses.get`."""
        return "log_ratio"


class RiskNetwork(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression of a target >= 0 by small networks that predict its logarithm, with the gamma deviance.

    The prediction is the mean over the networks of their exponentials: the mean of the logarithms would be too low
    where they differ, as they do where the expected loss jumps. Predictions are clipped to the range of 99% of those
    of the training rows, since the exponential is not bounded.

    Parameters
    ----------
    hidden : sequence of int, default=(32, 32)
    epochs : int, default=60
    batch_size : int, default=256
    learning_rate : float, default=3e-3
    decay : bool, default=False
        Lower the learning rate to zero.
    n_members : int, default=4
    validation_fraction : float, default=0.2
    drop_outliers : bool, default=False
        Leave out members with a high validation loss; see `StackedMLPRegressor`.
    expansion : {"ranks", "squares", "pieces", "levels", "none"}, default="ranks"
        What is added to the features; see `ExpandedFeatures`.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> random = np.random.RandomState(0)
    >>> X = random.uniform(size=(500, 1))
    >>> error = (0.1 + X[:, 0]) * random.exponential(size=500)
    >>> low, high = RiskNetwork(random_state=0).fit(X, error).predict(np.array([[0.1], [0.9]]))
    >>> bool(0.1 < low < 0.3 and 0.8 < high < 1.2)
    True
    """

    networks_: ExpandedFeatures
    limits_: Floats
    floor_: float

    def __init__(
        self,
        hidden: Sequence[int] = (32, 32),
        epochs: int = 60,
        batch_size: int = 256,
        learning_rate: float = 3e-3,
        decay: bool = False,
        n_members: int = 4,
        validation_fraction: float = 0.2,
        drop_outliers: bool = False,
        expansion: Expansion = "ranks",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay = decay
        self.n_members = n_members
        self.validation_fraction = validation_fraction
        self.drop_outliers = drop_outliers
        self.expansion = expansion
        self.random_state = random_state

    def fit(self, X: Floats, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Fit to losses y >= 0."""
        self.fit_together([self], [(X, y, sample_weight)])
        return self

    @staticmethod
    def fit_together(estimators: Sequence[RiskNetwork], rows: Sequence[Rows], n_jobs: int | None = None) -> None:
        """Fit several estimators, each to its own rows; see `recuse.estimators.joint_fits`."""
        logarithms: list[Rows] = []
        for estimator, (X, y, weight) in zip(estimators, rows, strict=True):
            estimator.floor_ = _FLOOR * float(np.average(y, weights=weight)) or 1.0
            logarithms.append((X, np.log(y + estimator.floor_), weight))
        networks = fit_all([estimator._networks() for estimator in estimators], logarithms, n_jobs)
        for estimator, fitted, (X, _, _) in zip(estimators, networks, rows, strict=True):
            estimator.networks_ = fitted
            estimator.limits_ = np.quantile(estimator._mean_exponential(X), [_TAIL, 1 - _TAIL])

    def _networks(self) -> ExpandedFeatures:
        networks = StackedMLPRegressor(
            hidden=self.hidden,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
            n_members=self.n_members,
            validation_fraction=self.validation_fraction,
            drop_outliers=self.drop_outliers,
            loss=LogRatio(),
            random_state=self.random_state,
        )
        return ExpandedFeatures(networks, self.expansion, scale_target=False)

    def predict(self, X: Floats) -> Floats:
        """Predict the expected loss of every row."""
        prediction = self._mean_exponential(X).clip(*self.limits_) - self.floor_
        return np.asarray(prediction.clip(min=0.0))

    def _mean_exponential(self, X: Floats) -> Floats:
        logarithms = self.networks_.regressor_.predict_members(self.networks_.inputs(np.asarray(X)))
        with np.errstate(over="ignore"):  # an unusual row may overflow
            return np.asarray(np.exp(logarithms).mean(axis=0))
