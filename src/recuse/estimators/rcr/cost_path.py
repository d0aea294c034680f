"""fit_costs: one model and several costs in, a fitted model for each cost out, for little more than one fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from recuse.costs import Cost
from recuse.estimators.rcr.joint import RcRRegressor
from recuse.validation import require

__all__ = ["fit_costs"]


def fit_costs(
    model: RcRRegressor,
    X: Any,
    y: ArrayLike,
    costs: Sequence[Cost],
    sample_weight: ArrayLike | None = None,
    validation: tuple[Any, Any] | None = None,
) -> list[RcRRegressor]:
    """Fit a cross-fitted `RcRRegressor` at each of several costs; all share the regressors, which know no cost.

    Each model equals the one that `fit` gives at its cost. Where one model for all costs will do, fit it with
    ``cost=(low, high)``.

    Parameters
    ----------
    model : RcRRegressor
        With ``residuals="crossfit"``; it stays as it is.
    X, y, sample_weight, validation : as in `RcRRegressor.fit`
    costs : sequence of float or tuple (low, high)

    Returns
    -------
    list of RcRRegressor
        One for each cost.

    Examples
    --------
    >>> from recuse import RcRRegressor, datasets
    >>> (X, y), validation, (X_test, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RcRRegressor(residuals="crossfit", epochs=50, cv=2, random_state=0)
    >>> cheap, dear = fit_costs(model, X, y, costs=[2.0, 50.0], validation=validation)
    >>> bool((cheap.predict(X_test) == dear.predict(X_test)).all())
    True
    >>> cheap.decide(X_test).rejection_rate > dear.decide(X_test).rejection_rate
    True
    """
    require(
        model.residuals == "crossfit", "residuals", "'crossfit', so that costs can share regressors", model.residuals
    )
    require(len(costs) > 0, "costs", "one cost or more", costs)
    seed = model.random_state
    if not isinstance(seed, int | np.integer):  # all must divide and begin alike
        seed = int(check_random_state(seed).randint(2**31 - 1))
    fitted: list[RcRRegressor] = []
    for cost in costs:
        copy = clone(model).set_params(cost=cost, random_state=seed)
        copy._folds, copy._hands_on_folds = (fitted[-1]._folds if fitted else None), True
        fitted.append(copy.fit(X, y, sample_weight=sample_weight, validation=validation))
    for copy in fitted:
        del copy._folds, copy._hands_on_folds
    return fitted
