"""Default parts of a RiskRejector: a loss in, a regressor that aims at it and a model of its risk out."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

from recuse.estimators.mlp import StackedMLPRegressor
from recuse.losses import Absolute, Pinball, Squared, TargetLoss

__all__ = ["regressor_for", "risk_model"]


def regressor_for(loss: TargetLoss) -> Any:
    """Give boosted trees where scikit-learn's can minimise the loss, else small networks that do.

    There are gradient boosted trees for Huber's loss too, but they choose its delta anew at each tree.

    Examples
    --------
    >>> from recuse.losses import Huber
    >>> regressor_for(Pinball(0.9)), regressor_for(Huber(2.0))
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


def risk_model() -> Any:
    """Give extremely randomised trees with leaves large enough to average the noise of the residuals."""
    return ExtraTreesRegressor(min_samples_leaf=5)
