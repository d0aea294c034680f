"""Regression on the features that matter, selected by permutation importance on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.joint_fits import Rows, fit_all
from recuse.losses import TargetLoss

Floats = NDArray[np.float64]
RowLoss = Callable[[Floats, Floats], Floats]  # from predictions and targets to the loss of each row

# A feature matters if the increase of the loss is this number of standard errors above zero.
_CERTAIN = 2.0
_MAX_FEATURES = 100  # a wider table keeps all, since its importances take too long
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

    A feature that is a function of the others takes over a part of their importance, but may blur their effects. Such
    features come last and are `optional`: they are left out at once if the loss is not certainly higher without them.

    Parameters
    ----------
    regressor : estimator
    screen : estimator
        The regressor of the halves.
    loss : TargetLoss or callable
        A callable of predictions and targets returns the loss of each row.
    optional : int, default=0
        Number of last features that are left out if screens without them have no higher loss.
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
        optional: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.regressor = regressor
        self.screen = screen
        self.loss = loss
        self.optional = optional
        self.random_state = random_state

    @classmethod
    def _prepared(cls, estimators: Sequence[RelevantFeatures], rows: Sequence[Rows], n_jobs: int | None) -> list[Rows]:
        _select(estimators, rows, n_jobs)
        return [(X[:, each.columns_], y, weight) for each, (X, y, weight) in zip(estimators, rows, strict=True)]

    def predict(self, X: Floats) -> Floats:
        """Predict every row."""
        return np.asarray(self.regressor_.predict(np.asarray(X)[:, self.columns_]))

    def _losses(self, screen: Any, X: Floats, y: Floats) -> Floats:
        prediction = screen.predict(X)
        return self.loss(prediction - y) if isinstance(self.loss, TargetLoss) else self.loss(prediction, y)


def _select(estimators: Sequence[RelevantFeatures], rows: Sequence[Rows], n_jobs: int | None) -> None:
    """Set `columns_` of each estimator; the screens of all of them are fitted together."""
    for estimator, (X, _, _) in zip(estimators, rows, strict=True):
        estimator.columns_ = np.arange(X.shape[1])
    narrow = [(each, table) for each, table in zip(estimators, rows, strict=True) if table[0].shape[1] <= _MAX_FEATURES]
    randoms = [check_random_state(estimator.random_state) for estimator, _ in narrow]
    selections = [_Selection.start(*each, random) for each, random in zip(narrow, randoms, strict=True)]
    _screen(selections, n_jobs)
    shorter = [selection.without_optional() for selection in selections if selection.has_optional]
    _screen(shorter, n_jobs)
    chosen = {id(selection.estimator): selection for selection in selections}
    for selection in shorter:
        if not selection.certainly_higher_loss(chosen[id(selection.estimator)]):
            chosen[id(selection.estimator)] = selection
    for selection in chosen.values():
        kept = certainly_relevant(selection.increases())
        selection.estimator.columns_ = kept if len(kept) else selection.estimator.columns_


@dataclass
class _Selection:
    """The selection of features for one estimator: two halves of its rows, and the screens that are fitted to them."""

    estimator: RelevantFeatures
    halves: tuple[Rows, Rows]
    random: np.random.RandomState
    screens: Sequence[Any] = ()

    @classmethod
    def start(cls, estimator: RelevantFeatures, table: Rows, random: np.random.RandomState) -> Self:
        """Divide the rows."""
        first, second = _halves(len(table[1]), random)
        return cls(estimator, (_take(table, first), _take(table, second)), random)

    @property
    def has_optional(self) -> bool:
        """Whether some features are optional, and others remain without them."""
        return bool(0 < self.estimator.optional < self.halves[0][0].shape[1])

    def without_optional(self) -> _Selection:
        """Return the selection among the features that are not optional."""
        first, second = ((X[:, : -self.estimator.optional], y, weight) for X, y, weight in self.halves)
        return _Selection(self.estimator, (first, second), self.random)

    def _held_out(self) -> Sequence[tuple[Any, Rows]]:
        """Return each screen with the half that it was not fitted to."""
        return list(zip(self.screens, self.halves[::-1], strict=True))

    def losses(self) -> Floats:
        """Return the loss of each row (row,), multiplied by its weight."""
        return np.concatenate(
            [self.estimator._losses(screen, X, y) * _share(y, weight) for screen, (X, y, weight) in self._held_out()]
        )

    def increases(self) -> Floats:
        """Return the increase of the loss of each row (row, feature) if a feature is permuted."""
        parts = []
        for screen, (X, y, weight) in self._held_out():
            losses = partial(self.estimator._losses, screen, y=y)
            parts.append(loss_increases(losses, X, self.random.permutation(len(X)), weight))
        return np.concatenate(parts)

    def certainly_higher_loss(self, other: _Selection) -> bool:
        """Whether the loss is certainly higher than that of another selection on the same rows."""
        return len(certainly_relevant((self.losses() - other.losses())[:, None])) > 0


def _screen(selections: Sequence[_Selection], n_jobs: int | None) -> None:
    """Fit the screens, all at once."""
    if not selections:
        return
    screens = [clone(selection.estimator.screen) for selection in selections for _ in range(2)]
    fitted = fit_all(screens, [half for selection in selections for half in selection.halves], n_jobs)
    for place, selection in enumerate(selections):
        selection.screens = fitted[2 * place : 2 * place + 2]


def _share(y: Floats, weight: Floats | None) -> Floats:
    return np.ones(len(y)) if weight is None else weight / weight.mean()


def _halves(rows: int, random: np.random.RandomState) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    order = random.permutation(rows)[:_MAX_ROWS]
    return np.sort(order[::2]), np.sort(order[1::2])


def _take(table: Rows, rows: NDArray[np.intp]) -> Rows:
    X, y, weight = table
    return X[rows], y[rows], None if weight is None else weight[rows]


def loss_increases(
    losses: Callable[[Floats], Floats], X: Floats, order: NDArray[np.intp], weight: Floats | None = None
) -> Floats:
    """Return the increase of the loss of each row (row, feature) if a feature is permuted.

    Parameters
    ----------
    losses : callable
        Function from features (row, feature) to the losses (row,) of a model.
    X : ndarray of shape (row, feature)
        Rows that the model was not fitted to.
    order : ndarray of shape (row,)
        The permutation.
    weight : ndarray of shape (row,), optional

    Examples
    --------
    >>> X = np.array([[1.0, 5.0], [2.0, 6.0]])
    >>> loss_increases(lambda X: (X[:, 0] - [1, 2]) ** 2, X, order=np.array([1, 0]))
    array([[1., 0.],
           [1., 0.]])
    """
    before, columns = losses(X), []
    share = np.ones(len(X)) if weight is None else weight / weight.mean()
    for place in range(X.shape[1]):
        permuted = X.copy()
        permuted[:, place] = X[order, place]
        columns.append(share * (losses(permuted) - before))
    return np.stack(columns, axis=1)


def certainly_relevant(increases: Floats) -> NDArray[np.intp]:
    """Return the features whose mean increase (row, feature) is two standard errors above zero.

    Examples
    --------
    >>> certainly_relevant(np.array([[1.0, 1.0], [1.2, -1.0], [0.9, 0.1]]))
    array([0])
    """
    error = increases.std(axis=0) / len(increases) ** 0.5
    return np.flatnonzero(increases.mean(axis=0) > _CERTAIN * error)
