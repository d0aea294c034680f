"""Default parts of a RiskRejector: a loss in, a regressor that aims at it and a model of its risk out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from recuse.estimators.mlp import StackedMLPRegressor
from recuse.losses import Absolute, Pinball, Squared, TargetLoss
from recuse.tabular.rows import is_constant_target
from recuse.validation import require

__all__ = [
    "Answers",
    "Sample",
    "answers",
    "check_part",
    "fit_part",
    "fit_parts",
    "for_targets",
    "regressor_for",
    "risk_model",
    "seeded",
]

Floats = NDArray[np.float64]
Sample = tuple[Any, Floats, Floats]  # rows, targets, weights

_MOST_COPIES = 1000


@dataclass(frozen=True)
class Answers:
    """What some models say about some rows.

    Attributes
    ----------
    prediction : ndarray of shape (row,), or (row, output) of several targets
        Mean over the models.
    spread : ndarray of shape (row,)
        Standard deviation among the members of a model (root of the mean square over models and targets); zero where a
        model has no members.
    ambiguity : ndarray of shape (row,)
        Variance of the models' predictions round their mean, mean over the targets.
    """

    prediction: Floats
    spread: Floats
    ambiguity: Floats


def check_part(part: Any, name: str) -> None:
    """Check that a part can be fitted and asked, and copied before that."""
    usable = all(callable(getattr(part, method, None)) for method in ("fit", "predict", "get_params"))
    require(usable and not isinstance(part, type), name, "an estimator with fit, predict and get_params", part)


def for_targets(part: Any, count: int) -> Any:
    """Give the part, or, if it can predict only one of several targets, one that fits a copy of it to each.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.svm import SVR
    >>> for_targets(Ridge(), 2), for_targets(SVR(), 2), for_targets(SVR(), 1)
    (Ridge(), MultiOutputRegressor(estimator=SVR()), SVR())
    """
    able = count == 1 or (hasattr(part, "__sklearn_tags__") and get_tags(part).target_tags.multi_output)
    return part if able else MultiOutputRegressor(part)


def seeded(part: Any, random: np.random.RandomState) -> Any:
    """Give an unfitted copy; every `random_state` in it that is None is drawn from `random`."""
    copy = clone(part)
    open_states = [
        name
        for name, value in sorted(copy.get_params(deep=True).items())
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    return copy.set_params(**{name: int(random.randint(2**31 - 1)) for name in open_states})


def fit_parts(
    part: Any, samples: Sequence[Sample], random: np.random.RandomState, n_jobs: int | None = None
) -> list[Any]:
    """Fit a copy of the part to each sample, in so many processes; the results do not depend on how many."""
    copies = [seeded(part, random) for _ in samples]
    fits = (delayed(fit_part)(copy, *sample) for copy, sample in zip(copies, samples, strict=True))
    return list(Parallel(n_jobs=n_jobs)(fits))


def fit_part(part: Any, X: Any, y: Floats, weight: Floats) -> Any:
    """Fit a part to weighted rows; one that takes no weights gets so many copies of each row.

    A constant target, which some regressors refuse, is learned by a regressor that says just that.
    """
    if is_constant_target(y):
        return DummyRegressor().fit(X, y)
    if np.ptp(weight) == 0:
        return part.fit(X, y)
    # MultiOutputRegressor takes weights whether its copies do or not
    each = part.estimator if isinstance(part, MultiOutputRegressor) else part
    if has_fit_parameter(each, "sample_weight"):
        return part.fit(X, y, sample_weight=weight)
    copies = _copies(weight, each)
    return part.fit(np.repeat(X, copies, axis=0), np.repeat(y, copies, axis=0))


def _copies(weight: Floats, part: Any) -> NDArray[np.intp]:
    wrong = (weight != np.rint(weight)) | (weight > _MOST_COPIES)
    if wrong.any():
        raise ValueError(
            f"{type(part).__name__} takes no sample_weight, so weights must be whole numbers of copies, "
            f"at most {_MOST_COPIES}, got {weight[wrong][0]}"
        )
    return weight.astype(np.intp)


def answers(models: Sequence[Any], X: Any, n_targets: int = 1) -> Answers:
    """Ask every model, and every member of those that have `predict_members`, about every row."""
    said = [_members(model, X, n_targets) for model in models]
    means = np.array([members.mean(axis=0) for members in said])  # (model, row) or (model, row, output)
    within = np.array([members.var(axis=0) for members in said]).mean(axis=0)
    return Answers(means.mean(axis=0), np.sqrt(_over_targets(within)), _over_targets(means.var(axis=0)))


def _members(model: Any, X: Any, n_targets: int) -> Floats:
    """Predictions (member, row), or (member, row, output) of several targets."""
    shape = (len(X),) if n_targets == 1 else (len(X), n_targets)
    if hasattr(model, "predict_members"):
        prediction = np.asarray(model.predict_members(X), dtype=np.float64)
        fits = prediction.shape[1:] == shape
    else:
        prediction = np.asarray(model.predict(X), dtype=np.float64)
        fits = prediction.shape == shape or (n_targets == 1 and prediction.size == len(X))
        prediction = prediction.reshape(1, *shape) if fits else prediction
    if not fits:
        count = "one value" if n_targets == 1 else f"{n_targets} values"
        raise ValueError(
            f"{type(model).__name__} must predict {count} for each of {len(X)} rows, got shape {prediction.shape}"
        )
    return prediction


def _over_targets(values: Floats) -> Floats:
    """Mean over the targets (row, output) -> (row,), where there are several."""
    return values if values.ndim == 1 else np.asarray(values.mean(axis=1))


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
