"""Regression on the features that matter, selected by permutation importance on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.joint_fits import Rows, fit_all
from recuse.estimators.permutation_importance import certainly_relevant, loss_increases
from recuse.losses import TargetLoss

__all__ = ["GammaDeviance", "RelevantFeatures", "RowLoss"]

Floats = NDArray[np.float64]
RowLoss = Callable[[Floats, Floats], Floats]  # from predictions and targets to the loss of each row

_MAX_FEATURES = 100  # of a wider table all are kept, since the importances take too long
_MAX_ROWS = 20_000  # that the selection is made on


@dataclass(frozen=True)
class GammaDeviance:
    """Half the gamma deviance of losses y >= 0 and their expected values, up to a term without the latter."""

    def __call__(self, prediction: Floats, target: Floats) -> Floats:
        """Return y / R + log R, where R is at least a thousandth of the mean target."""
        expected = np.maximum(prediction, 1e-3 * float(target.mean()) or 1.0)
        return np.asarray(target / expected + np.log(expected))


class RelevantFeatures(WrappedRegressor):
    """Select features, then fit a regressor to them.

    Networks fit the noise of features without effect, so their loss is lower without those. A simple regressor, the
    screen, is fitted to each half of the rows. The importance of a feature is the increase of the loss of the other
    half if the feature is permuted (Breiman, 2001). Features are kept if it is two standard errors above zero.

    Parameters
    ----------
    regressor : estimator
    screen : estimator
        The regressor of the halves.
    loss : TargetLoss or callable
        A callable of predictions and targets returns the loss of each row.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    columns_ : ndarray of shape (kept feature,)

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from recuse.losses import SQUARED
    >>> X = np.random.RandomState(0).normal(size=(200, 3))
    >>> model = RelevantFeatures(LinearRegression(), LinearRegression(), SQUARED, random_state=0)
    >>> model.fit(X, X[:, 1] + 0.1 * X[:, 0] ** 2).columns_
    array([1])
    """

    def __init__(
        self,
        regressor: Any,
        screen: Any,
        loss: TargetLoss | RowLoss,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.regressor = regressor
        self.screen = screen
        self.loss = loss
        self.random_state = random_state

    @classmethod
    def _prepared(cls, estimators: Sequence[RelevantFeatures], rows: Sequence[Rows], n_jobs: int | None) -> list[Rows]:
        _select(estimators, rows, n_jobs)
        return [(X[:, each.columns_], y, weight) for each, (X, y, weight) in zip(estimators, rows, strict=True)]

    def predict(self, X: Floats) -> Floats:
        """Predict every row."""
        return np.asarray(self.regressor_.predict(np.asarray(X)[:, self.columns_]))

    def _increases(
        self, screen: Any, X: Floats, y: Floats, weight: Floats | None, random: np.random.RandomState
    ) -> Floats:
        """Return the increase of the loss of held-out rows (row, feature) if a feature is permuted."""

        def losses(features: Floats) -> Floats:
            prediction = screen.predict(features)
            return self.loss.of_rows(prediction - y) if isinstance(self.loss, TargetLoss) else self.loss(prediction, y)

        return loss_increases(losses, X, random.permutation(len(X)), weight)


def _select(estimators: Sequence[RelevantFeatures], rows: Sequence[Rows], n_jobs: int | None) -> None:
    """Set `columns_` of each estimator; the screens of all of them are fitted together."""
    tables = [table for table in rows if table[0].shape[1] <= _MAX_FEATURES]
    chosen = [each for each, (X, _, _) in zip(estimators, rows, strict=True) if X.shape[1] <= _MAX_FEATURES]
    for estimator, (X, _, _) in zip(estimators, rows, strict=True):
        estimator.columns_ = np.arange(X.shape[1])
    if not chosen:
        return
    randoms = [check_random_state(estimator.random_state) for estimator in chosen]
    halves = [_halves(len(y), random) for (_, y, _), random in zip(tables, randoms, strict=True)]
    parts = [_take(table, half) for table, both in zip(tables, halves, strict=True) for half in both]
    screens = fit_all([clone(estimator.screen) for estimator in chosen for _ in range(2)], parts, n_jobs)
    for place, (estimator, random) in enumerate(zip(chosen, randoms, strict=True)):
        first, second = screens[2 * place : 2 * place + 2]
        held_out = ((first, parts[2 * place + 1]), (second, parts[2 * place]))
        increases = np.concatenate([estimator._increases(screen, *part, random) for screen, part in held_out])
        kept = certainly_relevant(increases)
        estimator.columns_ = kept if len(kept) else estimator.columns_


def _halves(rows: int, random: np.random.RandomState) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    order = random.permutation(rows)[:_MAX_ROWS]
    return np.sort(order[::2]), np.sort(order[1::2])


def _take(table: Rows, rows: NDArray[np.intp]) -> Rows:
    X, y, weight = table
    return X[rows], y[rows], None if weight is None else weight[rows]
