"""Published methods as presets of RiskRejector."""

from __future__ import annotations

from typing import Any

from sklearn.neighbors import KNeighborsRegressor

from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.risk.kernel_average import KernelAverage
from recuse.estimators.risk.rejector import RiskRejector

__all__ = ["knn_plug", "mlp_plug", "no_rejection"]


def knn_plug(**parameters: Any) -> RiskRejector:
    """Knn-Plug: nearest neighbours for h, and again for its squared residuals on the same rows.

    This is the plug-in rule of Zaoui, Denis and Hebiri, "Regression with reject option and application to kNN",
    NeurIPS 2020, with ten neighbours by default. Every row is among its own neighbours, so the estimated risk is too
    small, as in the published method; ``residuals="crossfit"`` avoids that.

    Parameters
    ----------
    **parameters
        Those of `RiskRejector` and of its parts, such as ``regressor__n_neighbors``.

    Examples
    --------
    >>> knn_plug(cost=4.0, regressor__n_neighbors=5).regressor
    KNeighborsRegressor()
    """
    return _plug(KNeighborsRegressor(10), KNeighborsRegressor(10), "train", parameters)


def mlp_plug(**parameters: Any) -> RiskRejector:
    """MLP-Plug: a network for h, and one of the same shape for its squared residuals on the same rows.

    Parameters
    ----------
    **parameters
        Those of `RiskRejector` and of its parts, such as ``regressor__epochs`` and ``risk__epochs``.

    Examples
    --------
    >>> mlp_plug(cost=4.0, regressor__epochs=100).regressor
    StackedMLPRegressor(epochs=100)
    """
    return _plug(StackedMLPRegressor(), StackedMLPRegressor(), "train", parameters)


def no_rejection(**parameters: Any) -> RiskRejector:
    """No-rejection learning: a network for h, trained without rejection, and a kernel average for its risk.

    The squared error is averaged over rows held out from the network (Li et al., "When No-Rejection Learning is
    Consistent for Regression with Rejection", AISTATS 2024); the width of the kernel is chosen by leaving one out.

    Parameters
    ----------
    **parameters
        Those of `RiskRejector` and of its parts, such as ``regressor__epochs`` and ``risk__width``.

    Examples
    --------
    >>> no_rejection(cost=4.0, risk__width=0.5).risk
    KernelAverage(width=0.5)
    """
    return _plug(StackedMLPRegressor(), KernelAverage(), "holdout", parameters)


def _plug(regressor: Any, risk: Any, residuals: Any, parameters: dict[str, Any]) -> RiskRejector:
    """Return a RiskRejector whose risk model uses only the features and is not rescaled."""
    model = RiskRejector(regressor, risk, residuals, sees_prediction=False, rescale=False, unseen="keep")
    return model.set_params(**parameters)  # type: ignore[no-any-return]
