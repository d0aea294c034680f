"""Subestimators of the risk-based estimators: defaults, seeded copies, weighted fits and checked predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.utils.validation import has_fit_parameter

from recuse.estimators.mlp import StackedMLPRegressor
from recuse.losses import Absolute, Pinball, Squared, TargetLoss
from recuse.tabular.rows import is_constant_target
from recuse.validation import require

Floats = NDArray[np.float64]

_MAX_COPIES = 1000


def default_regressor(loss: TargetLoss) -> Any:
    """Return boosted trees if those of scikit-learn minimise the loss, otherwise small networks.

    scikit-learn has gradient boosted trees for Huber's loss too, but they change delta from tree to tree.

    Examples
    --------
    >>> from recuse.losses import Huber
    >>> default_regressor(Pinball(0.9)), default_regressor(Huber(2.0))
    (HistGradientBoostingRegressor(loss='quantile', quantile=0.9), StackedMLPRegressor(loss=Huber(delta=2.0)))
    """
    match loss:
        case Squared():
            return HistGradientBoostingRegressor()
        case Absolute():
            return HistGradientBoostingRegressor(loss="absolute_error")
        case Pinball(quantile):
            return HistGradientBoostingRegressor(loss="quantile", quantile=quantile)
    return StackedMLPRegressor(loss=loss)


def default_risk_model() -> Any:
    """Return extremely randomised trees with leaves large enough to average the noise of the residuals."""
    return ExtraTreesRegressor(min_samples_leaf=5)


def check_subestimator(estimator: Any, name: str) -> None:
    """Check that an estimator can be cloned, fitted and used for prediction."""
    is_instance = not isinstance(estimator, type)
    usable = all(callable(getattr(estimator, method, None)) for method in ("fit", "get_params"))
    if usable and is_instance and not callable(getattr(estimator, "predict", None)):
        usable = is_regressor(estimator)  # a StackingRegressor predicts only after it was fitted
    require(usable and is_instance, name, "an estimator with fit, predict and get_params", estimator)


def seeded(estimator: Any, random: np.random.RandomState) -> Any:
    """Return an unfitted copy in which every `random_state` that is None is drawn from `random`."""
    copy = clone(estimator)
    unset = [
        name
        for name, value in sorted(copy.get_params(deep=True).items())
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    return copy.set_params(**{name: int(random.randint(2**31 - 1)) for name in unset})


def fit_subestimator(estimator: Any, X: Any, y: Floats, weight: Floats) -> Any:
    """Fit an estimator to weighted rows; one without `sample_weight` is fitted to copies of the rows.

    Some regressors do not accept a constant target, so a dummy regressor is fitted to it.
    """
    if is_constant_target(y):
        return DummyRegressor().fit(X, y)
    if np.ptp(weight) == 0:
        return estimator.fit(X, y)
    if has_fit_parameter(estimator, "sample_weight"):
        return estimator.fit(X, y, sample_weight=weight)
    copies = _copies(weight, estimator)
    return estimator.fit(np.repeat(X, copies, axis=0), np.repeat(y, copies, axis=0))


def _copies(weight: Floats, estimator: Any) -> NDArray[np.intp]:
    wrong = (weight != np.rint(weight)) | (weight > _MAX_COPIES)
    if wrong.any():
        raise ValueError(
            f"{type(estimator).__name__} takes no sample_weight, so weights must be whole numbers of copies, "
            f"at most {_MAX_COPIES}, got {weight[wrong][0]}"
        )
    return weight.astype(np.intp)
