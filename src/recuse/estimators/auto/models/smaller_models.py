"""Smaller versions of fitted models, for faster decisions: forests with fewer trees, processes with fewer centres."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

from sklearn.ensemble import ExtraTreesRegressor

from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.estimators.auto.models.risk_process import RiskProcess
from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.crossfitting import MeanOfRepeats

_SHARE = 2  # all copies of a forest together keep this many times the trees of one, times its weight


def smaller_model(model: Any, copies: int, weight: float) -> Any:
    """Return a fitted model that predicts nearly the same in less time.

    The trees of a forest differ by chance only. If the mean over several copies is used, or if the forest has a small
    weight in a blend, the prediction hardly depends on the number of its trees, so some are left out. A process gets
    fewer centres; see `recuse.estimators.auto.models.kernel_sum`. Other models are returned as they are.

    Parameters
    ----------
    model : estimator
    copies : int
        Number of fitted copies that predictions are averaged over.
    weight : float
        Of the copies together, in a blend.

    Examples
    --------
    >>> forest = ExtraTreesRegressor(100, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> [len(smaller_model(forest, copies, weight).estimators_) for copies, weight in ((1, 1.0), (1, 0.1), (8, 1.0))]
    [100, 20, 25]
    """
    match model:
        case MeanOfRepeats():
            return MeanOfRepeats([smaller_model(each, copies * len(model.models), weight) for each in model.models])
        case WrappedRegressor():
            smaller = copy(model)
            smaller.regressor_ = smaller_model(model.regressor_, copies, weight)
            return smaller
        case ExtraTreesRegressor():
            smaller = copy(model)
            trees = math.ceil(_SHARE * weight * len(model.estimators_) / copies)
            smaller.estimators_ = model.estimators_[:trees]
            return smaller
        case GaussianProcess() | RiskProcess():
            return model.with_fewer_centres()
    return model
