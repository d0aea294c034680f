"""Joint fits of RcRRegressor at several costs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone

from recuse.costs import is_constant, row_values
from recuse.estimators.rcr.parameters import FitData
from recuse.estimators.rcr.regressor import RcRRegressor
from recuse.surrogates import SurrogateLike
from recuse.validation import require

__all__ = ["fit_costs"]


def fit_costs(
    model: RcRRegressor,
    X: Any,
    y: ArrayLike,
    costs: Sequence[float],
    surrogates: Sequence[SurrogateLike] | None = None,
    sample_weight: ArrayLike | None = None,
    validation: tuple[Any, Any] | None = None,
    groups: ArrayLike | None = None,
) -> list[RcRRegressor]:
    """Fit an `RcRRegressor` at each of several costs, with each of several surrogates.

    Each model equals the result of `fit` at the same cost with the same surrogate. In joint training, all models are
    trained in one stack. In cross-fitting they share the regressors, which do not depend on the cost.

    Parameters
    ----------
    model : RcRRegressor
        Without `cost_range`. It is not changed.
    X, y, sample_weight, validation, groups : as in `RcRRegressor.fit`
    costs : sequence of float
    surrogates : sequence of str, Surrogate or callable, optional
        By default the surrogate of `model`.

    Returns
    -------
    list of RcRRegressor
        One for each cost and surrogate, ordered by cost, then by surrogate.

    Examples
    --------
    >>> from recuse import RcRRegressor, datasets
    >>> (X, y), validation, (X_test, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RcRRegressor(epochs=50, n_members=2, random_state=0)
    >>> models = fit_costs(model, X, y, costs=[2.0, 50.0], surrogates=["mae", "logistic"], validation=validation)
    >>> [(fitted.cost_, fitted.surrogate) for fitted in models]
    [(2.0, 'mae'), (2.0, 'logistic'), (50.0, 'mae'), (50.0, 'logistic')]
    >>> models[0].decide(X_test).rejection_rate > models[2].decide(X_test).rejection_rate
    True
    """
    chosen = [model.surrogate] if surrogates is None else list(surrogates)
    require(len(costs) > 0, "costs", "one cost or more", costs)
    require(len(chosen) > 0, "surrogates", "one surrogate or more", surrogates)
    require(model.cost_range is None, "cost_range", "None, since each cost is fitted separately", model.cost_range)
    for cost in costs:
        require(is_constant(cost), "costs", "numbers", cost)
        row_values(cost, "cost", 1)
    shared = clone(model)
    outcomes = shared._train_all(FitData(X, y, sample_weight, validation, groups), costs, chosen)
    fitted = []
    aims = [(cost, surrogate) for cost in costs for surrogate in chosen]
    for (cost, surrogate), outcome in zip(aims, outcomes, strict=True):
        fitted.append(copy.copy(shared).set_params(cost=cost, surrogate=surrogate))
        fitted[-1]._adopt(outcome, cost)
        outcome.warn(stacklevel=3)
    return fitted
