"""Base classes of the estimators: checks of their input, and the interface of every rejecting regressor."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from recuse.costs import Cost, cost_of_rows, needs_rows, resolve
from recuse.dataframes import aligned, check_target_type, row_index, to_pandas
from recuse.decision import SURROGATE_SCORE, Decision
from recuse.losses import SQUARED, TargetLoss
from recuse.rules import DecisionRule
from recuse.tabular.fingerprint import Overlap, TrainingRows
from recuse.tabular.folds import mark_splits
from recuse.tabular.rows import Rows, as_table, is_constant_target

Floats = NDArray[np.float64]
Table = pd.DataFrame | Floats

# The square of a larger target may overflow.
_MAX_TARGET = 1e150


class CheckedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators, with the checks of their input; `fit` sets `target_name_`, where `y` has a name."""

    target_name_: str | None = None

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the estimator if the block fails or is interrupted."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _check_new_rows(self, X: Any, cost: Cost | None = None) -> Table:
        """Check rows to predict against the rows of `fit`, and drop the columns of the costs, of `fit` and passed."""
        check_is_fitted(self)
        if isinstance(cost, str) and cost not in getattr(self, "feature_names_in_", ()):
            X = _without(X, cost)
        return self._check_features(X, getattr(self, "cost_", None), reset=False)

    def _training_rows(
        self,
        X: Any,
        y: Any,
        cost: Cost,
        sample_weight: ArrayLike | None,
        *,
        groups: ArrayLike | None = None,
        cv: Any = None,
        merge_costs: bool = False,
        sort: bool = True,
    ) -> Rows:
        """Check the training rows; merge equal rows and sort them unless `sort` is False."""
        table, target, row_cost = self._check_training_rows(X, y, cost)
        index = row_index(X)
        sample_weight, groups = aligned(sample_weight, index, "sample_weight"), aligned(groups, index, "groups")
        part = mark_splits(cv, table, target, groups)
        make = partial(Rows.canonical, merge_costs=merge_costs) if sort else Rows.as_given
        rows = make(table, target, row_cost, sample_weight=sample_weight, groups=groups, part=part)
        if len(rows) < 2:
            raise ValueError(f"training needs at least 2 distinct rows, got n_samples = {len(rows)}")
        if is_constant_target(rows.y):
            raise ValueError(f"y must not be constant, got {rows.y[0]} in all rows of weight > 0")
        return rows

    def _check_training_rows(
        self, X: Any, y: Any, cost: Cost, *, reset: bool = True, min_rows: int = 2
    ) -> tuple[Table, Floats, Floats]:
        """Check the features, the targets (finite, not constant) and the costs; return them as arrays."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        table = self._check_features(X, cost, reset=reset)
        target = self._check_target(aligned(y, row_index(X), "y"), reset=reset)
        check_consistent_length(table, target)
        if len(target) < min_rows:
            raise ValueError(f"training needs at least {min_rows} rows, got n_samples = {len(target)}")
        largest = np.abs(target).max()
        if largest > _MAX_TARGET:
            raise ValueError(f"y must be at most {_MAX_TARGET} in size, so that it can be squared, got {largest}")
        if reset and is_constant_target(target):
            raise ValueError(f"y must not be constant, got {target[0]} in all {len(target)} rows")
        return table, target, resolve(cost, X if isinstance(cost, str) else table, len(table))

    def _check_target(self, y: Any, *, reset: bool) -> Floats:
        """Check the targets; return them as (row,)."""
        check_target_type(y)
        target: Floats = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=0)
        if target.ndim > 1 and target.shape[1] != 1:
            raise ValueError(f"{type(self).__name__} predicts one target, got y of shape {target.shape}")
        if reset:
            name = y.columns[0] if isinstance(y, pd.DataFrame) else getattr(y, "name", None)
            self.target_name_ = None if name is None else str(name)
        return np.asarray(column_or_1d(target, warn=True))

    def _validation_rows(self, validation: Any, cost: Cost, *, with_cost: bool = True, sort: bool = True) -> Rows:
        """Check the validation rows passed to `fit`, which may have their own costs."""
        _check_form(validation, {2: "(X, y)", 3: "(X, y, cost)"} if with_cost else {2: "(X, y)"})
        if len(validation) == 2 and needs_rows(cost):
            raise ValueError("cost has one value per row, so validation needs its own: pass (X, y, cost)")
        try:
            X, y, own_cost = validation if len(validation) == 3 else (*validation, cost)
            make = Rows.canonical if sort else Rows.as_given
            return make(*self._check_training_rows(X, y, own_cost, reset=False, min_rows=1))
        except ValueError as error:
            raise ValueError(f"in validation: {error}") from error

    def _check_features(self, X: Any, cost: object, *, reset: bool) -> Table:
        """Convert any table to a DataFrame or a float array, without the column of the cost, and check its columns."""
        table = as_table(_without(X, cost) if isinstance(cost, str) else X)
        return validate_data(self, table, reset=reset, skip_check_array=True)  # type: ignore[no-any-return]


class RejectingRegressor(CheckedRegressor, ABC):
    """A regressor that can reject a row, at a cost, with scikit-learn's conventions.

    A concrete estimator has a parameter `cost`, sets `cost_` and the rule that it decides by, `rule_`, in `fit`, and
    implements `serves_any_cost`. An estimator that minimises another loss than the squared error also sets `loss_`; its
    costs are in the units of that loss. An estimator fitted for a range of costs sets `cost_range_` and has no `cost_`.
    An estimator of tables has hashes of all rows that `fit` used in `training_rows_`.
    """

    cost: Cost
    cost_: Cost
    rule_: DecisionRule
    cost_range_: tuple[float, float] | None = None
    loss_: TargetLoss = SQUARED
    training_rows_: TrainingRows | None = None
    score_unit = SURROGATE_SCORE

    @property
    @abstractmethod
    def serves_any_cost(self) -> bool:
        """Whether the fitted estimator can decide at any cost, and not only at the one it was fitted for."""

    def predict(self, X: Any) -> Floats:
        """Predict every row, whether it would be accepted or not.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._check_new_rows(X)
        return self.rule_.predict(rows)

    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Compute the score of every row; a row is accepted where its score is > 0.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Used instead of the cost of `fit`, if the estimator supports it; see `serves_any_cost`.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._check_new_rows(X, cost)
        return self.rule_.decide(rows, self._cost_of_rows(cost, X, rows))[1]

    def decide(self, X: Any, cost: Cost | None = None) -> Decision:
        """Predict every row and decide which predictions to accept.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Used instead of the cost of `fit`, if the estimator supports it; see `serves_any_cost`.

        Returns
        -------
        Decision
        """
        rows = self._check_new_rows(X, cost)
        row_cost = self._cost_of_rows(cost, X, rows)
        prediction, score = self.rule_.decide(rows, row_cost)
        return Decision(
            prediction,
            score > 0,
            score,
            row_cost,
            index=row_index(X),
            loss=self.loss_,
            score_unit=self.score_unit,
        )

    def training_overlap(self, X: Any, y: Any) -> Overlap | None:
        """Find rows that equal rows used in training, in all features and in the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)

        Returns
        -------
        Overlap or None
            None for estimators of images, which keep no hashes.
        """
        check_is_fitted(self)
        return None if self.training_rows_ is None else self.training_rows_.overlap(X, y)

    @property
    def fingerprint(self) -> str:
        """A checksum of the parameters and the results of `fit`; models of different fits differ in it."""
        check_is_fitted(self)
        return fitted_fingerprint(self)

    def _training_rows(self, *arguments: Any, **options: Any) -> Rows:
        rows = super()._training_rows(*arguments, **options)
        self.training_rows_ = TrainingRows.learn(rows)
        return replace(rows, schema=self.training_rows_.schema)

    def _validation_rows(self, *arguments: Any, **options: Any) -> Rows:
        rows = super()._validation_rows(*arguments, **options)
        if self.training_rows_ is not None:
            self.training_rows_ = self.training_rows_.with_rows(rows)
        return rows

    def _cost_of_rows(self, cost: Cost | None, X: Any, rows: Any) -> Floats:
        """Return the cost of each row: the cost passed, or else that of `fit`.

        Parameters
        ----------
        cost : float, array-like, callable, str or None
        X : array-like or DataFrame
            The rows passed by the user, possibly with the column of the cost.
        rows : DataFrame or ndarray
            The same rows, checked and without that column. A callable cost receives them.
        """
        return cost_of_rows(
            cost,
            X,
            rows,
            fitted=getattr(self, "cost_", None),
            cost_range=self.cost_range_,
            serves_any_cost=self.cost_range_ is not None or self.serves_any_cost,
            name=type(self).__name__,
        )


def _without(X: Any, column: str) -> Any:
    """Drop the column of the cost, which is not a feature, if the table has it."""
    X = to_pandas(X)
    return X.drop(columns=column, errors="ignore") if isinstance(X, pd.DataFrame) else X


def _check_form(validation: object, forms: dict[int, str]) -> None:
    """Check that validation rows are a tuple of an accepted length; `forms` describes each length."""
    if not isinstance(validation, tuple | list) or len(validation) not in forms:
        kind = type(validation).__name__
        got = f"a {kind} of {len(validation)}" if isinstance(validation, Sequence) else kind
        raise ValueError(f"validation must be a tuple {' or '.join(forms.values())}, got {got}")


def fitted_fingerprint(estimator: Any) -> str:
    """Return a checksum of the class, the plain parameters, and the fitted attributes that hold plain values.

    Networks and trees are not part of it, since their bytes may differ between equal models. Out-of-fold results,
    validation losses and the hashes of the training rows identify them well enough.

    Examples
    --------
    >>> from recuse import RiskRejector
    >>> X, y = np.arange(20.0)[:, None], np.arange(20.0) ** 2
    >>> one, two = (RiskRejector(cost=cost, random_state=0).fit(X, y) for cost in (1.0, 2.0))
    >>> fitted_fingerprint(one) == fitted_fingerprint(two)
    False
    """
    digest = hashlib.sha256(type(estimator).__name__.encode())
    fitted = {name: value for name, value in vars(estimator).items() if name[0] != "_" and name[-1] == "_"}
    for name, value in sorted({**estimator.get_params(deep=False), **fitted}.items()):
        for piece in _pieces(value):
            digest.update(name.encode() + b"\0" + piece + b"\0")
    return digest.hexdigest()


def _pieces(value: Any) -> list[bytes]:
    """Return the bytes of a plain value, nothing for other objects."""
    if isinstance(value, str | bool | int | float | np.number):
        return [repr(value.item() if isinstance(value, np.number) else value).encode()]
    if isinstance(value, TrainingRows):
        return [*_pieces(value.hashes), *_pieces(value.count)]
    if isinstance(value, pd.DataFrame):
        return [piece for name in value.columns for piece in _pieces(value[name].to_numpy())]
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return [np.ascontiguousarray(value).tobytes()]
    if isinstance(value, list | tuple):
        return [piece for each in value for piece in _pieces(each)]
    return []
