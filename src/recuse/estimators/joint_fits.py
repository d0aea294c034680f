"""Fits of several estimators at once, in one stack of networks where their class supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats, Floats | None]  # inputs, target, weight


def fits_together(estimator: Any) -> bool:
    """Whether copies of the estimator can be fitted at once, each to rows of its own.

    Such a class has a static method `fit_together` of estimators, their rows and `n_jobs`. A wrapper of another
    estimator in the parameter `regressor` can do it if that one can.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
    >>> from recuse.estimators.mlp import StackedMLPRegressor
    >>> fits_together(ExpandedFeatures(StackedMLPRegressor())), fits_together(ExpandedFeatures(Ridge()))
    (True, False)
    """
    inner = getattr(estimator, "regressor", None)
    return hasattr(type(estimator), "fit_together") and (inner is None or fits_together(inner))


def fit_all(estimators: Sequence[Any], rows: Sequence[Rows], n_jobs: int | None = None) -> Sequence[Any]:
    """Fit each estimator to its rows, and return the estimators.

    Parameters
    ----------
    estimators : sequence of estimator
        Copies of one estimator, which may differ in `random_state`.
    rows : sequence of (inputs, target, weight or None)
    n_jobs : int, optional
        Processes, for estimators that are fitted together; the results do not depend on it.
    """
    if fits_together(estimators[0]):
        type(estimators[0]).fit_together(estimators, rows, n_jobs)
        return estimators
    for estimator, (X, y, weight) in zip(estimators, rows, strict=True):
        estimator.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    return estimators
