"""Base classes of the estimators: checks of their input, and what every rejecting regressor offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from recuse.costs import Cost, is_constant, needs_rows, resolve
from recuse.decision import Decision
from recuse.estimators.rate_search import check_validation, in_validation
from recuse.losses import SQUARED, TargetLoss
from recuse.tabular.rows import Rows, is_constant_target

__all__ = ["CheckedRegressor", "RejectingRegressor"]

Floats = NDArray[np.float64]

_LARGEST = 1e150


class CheckedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators of this package ask of their input, whether they reject or not.

    One that can predict several targets at once says so by `_several_targets`; `fit` then sets `_n_targets`.
    """

    _several_targets = False
    _n_targets = 1

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what the estimator can do."""
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several_targets
        return tags

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if the block fails or is interrupted."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _check_new_rows(self, X: Any) -> pd.DataFrame | Floats:
        """Check rows to decide on against what `fit` saw."""
        check_is_fitted(self)
        return self._check_features(X, reset=False)

    def _training_rows(
        self, X: Any, y: Any, cost: Cost, sample_weight: ArrayLike | None, *, reset: bool = True
    ) -> Rows:
        """Check rows to learn from, and bring them to their canonical form."""
        X, y = self._check_training_rows(X, y, reset=reset)
        return self._check_distinct(Rows.check(X, y, cost, sample_weight), reset=reset)

    def _check_distinct(self, rows: Rows, *, reset: bool = True) -> Rows:
        """See whether enough is left to learn from, once equal rows are one and those of no weight are gone."""
        if len(rows) < 2:
            raise ValueError(f"training needs at least 2 distinct rows, got n_samples = {len(rows)}")
        if reset and is_constant_target(rows.y):
            raise ValueError(f"y must not be constant, got {rows.y[0]} in all rows of weight > 0")
        return rows

    def _check_training_rows(
        self,
        X: Any,
        y: Any,
        *,
        reset: bool = True,
        min_rows: int = 2,
    ) -> tuple[pd.DataFrame | Floats, Floats]:
        """Check rows to learn from: enough of them, with finite targets that, in training, are not all alike."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = self._check_features(X, reset=reset)
        target = self._check_target(y, reset=reset)
        check_consistent_length(X, target)
        if len(target) < min_rows:
            raise ValueError(f"training needs at least {min_rows} rows, got n_samples = {len(target)}")
        largest = np.abs(target).max()
        if largest > _LARGEST:
            raise ValueError(f"y must be at most {_LARGEST} in size, so that it can be squared, got {largest}")
        if reset and is_constant_target(target):
            raise ValueError(f"y must not be constant, got {target[0]} in all {len(target)} rows")
        return X, target

    def _check_target(self, y: Any, *, reset: bool) -> Floats:
        """Give finite targets (row,), or (row, output) where there are several and the estimator can predict them."""
        target: Floats = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=0)
        if target.ndim == 1 or target.shape[1] == 1:
            target = column_or_1d(target, warn=True)
        elif not self._several_targets:
            raise ValueError(f"{type(self).__name__} predicts one target, got y of shape {target.shape}")
        count = 1 if target.ndim == 1 else target.shape[1]
        if reset:
            self._n_targets = count
        elif count != self._n_targets:
            raise ValueError(f"y must have as many targets as in training, {self._n_targets}, got shape {target.shape}")
        return target

    def _validation_rows(self, validation: Any, cost: Cost, *, with_cost: bool = True) -> Rows:
        """Check the user's own rows to choose by, which may bring their costs along."""
        check_validation(validation, {2: "(X, y)", 3: "(X, y, cost)"} if with_cost else {2: "(X, y)"})
        if len(validation) == 2 and needs_rows(cost):
            raise ValueError("cost has one value per row, so validation needs its own: pass (X, y, cost)")
        with in_validation():
            X, y = self._check_training_rows(validation[0], validation[1], reset=False, min_rows=1)
            return Rows.check(X, y, cost if len(validation) == 2 else validation[2], None)

    def _check_features(self, X: Any, *, reset: bool) -> pd.DataFrame | Floats:
        if not isinstance(X, pd.DataFrame):
            rows: Floats = validate_data(self, X, reset=reset, dtype=np.float64)
            return rows
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise ValueError(f"X must have at least one row and one column, got 0 in shape {X.shape}")
        if X.columns.has_duplicates:
            twice = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"column names must be unique, got {twice!r} more than once")
        frame: pd.DataFrame = validate_data(self, X, reset=reset, skip_check_array=True)
        return frame


class RejectingRegressor(CheckedRegressor, ABC):
    """A regressor that may step aside, at a cost, with scikit-learn's conventions.

    A concrete estimator has a parameter `cost`, sets `cost_` in `fit`, and says by `serves_any_cost` whether
    it can decide at a cost it was not fitted for. One that can aim at another loss than the squared error also sets
    `loss_`, the loss its costs are stated in.
    """

    cost: Cost
    cost_: Cost
    loss_: TargetLoss = SQUARED

    @abstractmethod
    def predict(self, X: Any) -> Floats:
        """Give h(x) for every row, accepted or not."""

    @abstractmethod
    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Give a score for every row; the row is accepted where it is > 0."""

    @property
    @abstractmethod
    def serves_any_cost(self) -> bool:
        """Whether the fitted estimator can decide at any cost, and not only at the one it was fitted for."""

    def decide(self, X: Any, cost: Cost | None = None) -> Decision:
        """Predict every row and say which predictions to use.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Another cost than the one the estimator was fitted for, where it can serve that.

        Returns
        -------
        Decision
        """
        rows_cost = self._cost_of_rows(self._check_new_rows(X), cost)
        prediction, score = self._judge(X, rows_cost)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return Decision(prediction, score > 0, score, rows_cost, index=index, loss=self.loss_)

    def _judge(self, X: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Give predictions and scores; an estimator whose scores need the predictions may save asking twice."""
        return self.predict(X), self.decision_function(X, cost)

    def _cost_of_rows(self, X: Any, cost: Cost | None) -> Floats:
        """One cost for each row, by the caller's word or else as in `fit`; an error if neither will do."""
        n_rows = len(X)
        if cost is None:
            if needs_rows(self.cost_):
                raise ValueError(
                    f"{type(self).__name__} was fitted with one cost per row, so new rows need theirs: "
                    "pass cost=, a number or one value per row"
                )
            return resolve(self.cost_, X, n_rows)
        rows = resolve(cost, X, n_rows)
        if not self.serves_any_cost and is_constant(self.cost_) and not np.all(rows == self.cost_):
            other = rows[rows != self.cost_][0]
            raise ValueError(
                f"{type(self).__name__} was fitted for cost {self.cost_} and cannot decide at cost {other}: "
                "fit it again with that cost, or with one cost per row"
            )
        return rows
