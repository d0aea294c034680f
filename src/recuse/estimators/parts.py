"""Parts: a user's regressor in, fitted copies of it and their answers out - seeded, weighted, member by member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.utils.validation import has_fit_parameter

from recuse.estimators.parameters import require

__all__ = ["Answers", "Sample", "answers", "check_part", "fit_part", "fit_parts", "seeded"]

Floats = NDArray[np.float64]
Sample = tuple[Any, Floats, Floats]  # rows, targets, weights

_MOST_COPIES = 1000


@dataclass(frozen=True)
class Answers:
    """What some models say about some rows.

    Attributes
    ----------
    prediction : ndarray of shape (row,)
        Mean over the models.
    spread : ndarray of shape (row,)
        Standard deviation among the members of a model (root of the mean square over the models); zero where a model
        has no members.
    ambiguity : ndarray of shape (row,)
        Variance of the models' predictions round their mean.
    """

    prediction: Floats
    spread: Floats
    ambiguity: Floats


def check_part(part: Any, name: str) -> None:
    """Check that a part can be fitted and asked, and copied before that."""
    usable = all(callable(getattr(part, method, None)) for method in ("fit", "predict", "get_params"))
    require(usable and not isinstance(part, type), name, "an estimator with fit, predict and get_params", part)


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
    if np.ptp(y) == 0:
        return DummyRegressor().fit(X, y)
    if np.ptp(weight) == 0:
        return part.fit(X, y)
    if has_fit_parameter(part, "sample_weight"):
        return part.fit(X, y, sample_weight=weight)
    copies = _copies(weight, part)
    return part.fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))


def _copies(weight: Floats, part: Any) -> NDArray[np.intp]:
    wrong = (weight != np.rint(weight)) | (weight > _MOST_COPIES)
    if wrong.any():
        raise ValueError(
            f"{type(part).__name__} takes no sample_weight, so weights must be whole numbers of copies, "
            f"at most {_MOST_COPIES}, got {weight[wrong][0]}"
        )
    return weight.astype(np.intp)


def answers(models: Sequence[Any], X: Any) -> Answers:
    """Ask every model, and every member of those that have `predict_members`, about every row."""
    said = [_members(model, X) for model in models]
    means = np.array([members.mean(axis=0) for members in said])  # (model, row)
    within = np.array([members.var(axis=0) for members in said])
    return Answers(means.mean(axis=0), np.sqrt(within.mean(axis=0)), means.var(axis=0))


def _members(model: Any, X: Any) -> Floats:
    """Predictions (member, row)."""
    if hasattr(model, "predict_members"):
        return np.asarray(model.predict_members(X), dtype=np.float64)
    prediction = np.asarray(model.predict(X), dtype=np.float64)
    if prediction.size != len(X):
        raise ValueError(
            f"{type(model).__name__} must predict one value for each of {len(X)} rows, got shape {prediction.shape}"
        )
    return prediction.reshape(1, -1)
