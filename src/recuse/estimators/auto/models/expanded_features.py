"""Regression on features with their ranks, squares or linear pieces beside them, and on a standardised target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import QuantileTransformer

from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.joint_fits import Rows
from recuse.tabular.units import moments

Floats = NDArray[np.float64]
Columns = NDArray[np.intp]
Expansion = Literal["ranks", "squares", "pieces", "levels", "none"]

_HALF_WIDTH = 3**0.5  # half the width of a uniform distribution with standard deviation 1
_MAX_QUANTILES = 100
_MAX_PIECES = 16  # most pieces of one column
_MAX_LEVELS = 16  # distinct values of a column with few of them
_MIN_PIECES = 4  # with fewer, ranks are better
_MAX_INPUTS = 256  # pieces of all columns
_SAME = 1e-10  # share of the range of a column; values that are closer differ by a rounding error


class ExpandedFeatures(WrappedRegressor):
    """Fit a regressor to the features, to ranks, squares or linear pieces of them, and to a standardised target.

    Ranks and pieces help networks on skewed columns, and the ranks help kernel methods. The ranks are uniform on [-1.7,
    1.7], so that their standard deviation is 1. Squares are those of the ranks, beside the ranks themselves; with them
    a network finds boundaries that are curved, such as a circle. With pieces, the range of a column is divided at
    quantiles of its distinct values, and each piece has an input that rises from 0 to 1 along it, so that a network can
    bend its function at every division (Gorishniy, Rubachev and Babenko, 2022). With levels, only columns with up to 16
    distinct values are divided, so that a kernel can have a length for each step between two of them, and the others
    have ranks. Columns with one or two distinct values are left as they are. The scaled target helps trees, which stop
    splitting where the variance of the target is near the machine precision.

    Parameters
    ----------
    regressor : estimator
    expansion : {"ranks", "squares", "pieces", "levels", "none"}, default="ranks"
        What is added to the features. If no column has few values, levels are pieces of all columns. If too many
        columns would be divided into pieces, all have ranks.
    scale_target : bool, default=True

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> model = ExpandedFeatures(Ridge(1e-6), "pieces").fit(X, [0.0, 3.0, 1.0, 1.0, 5.0])
    >>> model.predict([[2.0], [2.5]]).round(2)
    array([3., 2.])
    """

    def __init__(self, regressor: Any, expansion: Expansion = "ranks", scale_target: bool = True) -> None:
        self.regressor = regressor
        self.expansion = expansion
        self.scale_target = scale_target

    @classmethod
    def _prepared(cls, estimators: Sequence[ExpandedFeatures], rows: Sequence[Rows], n_jobs: int | None) -> list[Rows]:
        return [estimator._learn(*own) for estimator, own in zip(estimators, rows, strict=True)]

    def _learn(self, X: Floats, y: Floats, sample_weight: Floats | None) -> Rows:
        """Learn the expansion and the scale, and return the rows of the regressor."""
        self._learn_expansion(X)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.target_ = moments(y, weight) if self.scale_target else (0.0, 1.0)
        mean, scale = self.target_ = self.target_[0], self.target_[1] or 1.0
        return self.inputs(X), (y - mean) / scale, sample_weight

    def predict(self, X: Floats) -> Floats:
        """Predict every row, in the user's units."""
        mean, scale = self.target_
        return np.asarray(self.regressor_.predict(self.inputs(np.asarray(X))) * scale + mean)

    def _learn_expansion(self, X: Floats) -> None:
        """Set the columns with ranks, and those with pieces, of which `starts_` and `widths_` are the ends."""
        distinct = [_distinct(column) for column in X.T] if self.expansion != "none" else []
        expanded, divided = _expanded(distinct), _divided(distinct, self.expansion)
        self.rank_columns_ = np.setdiff1d(expanded, divided)
        if len(self.rank_columns_):
            quantiles = min(_MAX_QUANTILES, len(X))
            self.ranks_ = QuantileTransformer(n_quantiles=quantiles, random_state=0).fit(X[:, self.rank_columns_])
        edges = [_divisions(distinct[column], _pieces(divided)) for column in divided]
        self.piece_columns_ = np.repeat(divided, [len(own) - 1 for own in edges])
        self.starts_ = np.array([start for own in edges for start in own[:-1]])
        self.widths_ = np.array([width for own in edges for width in np.diff(own)])

    def inputs(self, X: Floats) -> Floats:
        """Return the inputs of the regressor: the features, and what is added to them."""
        parts = [X]
        if len(self.rank_columns_):
            ranks = (2 * self.ranks_.transform(X[:, self.rank_columns_]) - 1) * _HALF_WIDTH
            parts += [ranks, ranks**2 - 1] if self.expansion == "squares" else [ranks]
        if len(self.piece_columns_):
            parts.append(((X[:, self.piece_columns_] - self.starts_) / self.widths_).clip(0.0, 1.0))
        return X if len(parts) == 1 else np.column_stack(parts)


def has_pieces(X: Floats) -> bool:
    """Whether some columns of a table are divided into levels or pieces; otherwise all have ranks instead.

    Examples
    --------
    >>> has_pieces(np.arange(60.0).reshape(30, 2)), has_pieces(np.arange(3000.0).reshape(30, 100))
    (True, False)
    """
    return len(_divided([_distinct(column) for column in X.T], "levels")) > 0


def _distinct(column: Floats) -> Floats:
    """Return the distinct values of a column, sorted; of values that differ by a rounding error, only the lowest.

    Examples
    --------
    >>> _distinct(np.array([0.3, 0.1 + 0.2, 1.0, 0.3])).tolist()
    [0.3, 1.0]
    """
    values = np.unique(column)
    distinct: Floats = values[np.append(True, np.diff(values) > _SAME * np.ptp(values))]
    return distinct


def _expanded(distinct: Sequence[Floats]) -> Columns:
    """Return the columns that are expanded, given the distinct values of all."""
    return np.flatnonzero([len(values) > 2 for values in distinct])


def _divided(distinct: Sequence[Floats], expansion: Expansion) -> Columns:
    """Return the columns that are divided into pieces, given the distinct values of all."""
    columns = _expanded(distinct)
    few = np.array([column for column in columns if len(distinct[column]) <= _MAX_LEVELS], dtype=np.intp)
    if expansion == "levels" and len(few):
        columns = few
    return columns if expansion in ("pieces", "levels") and _pieces(columns) >= _MIN_PIECES else columns[:0]


def _pieces(columns: Columns) -> int:
    """Return the number of pieces of a column, at most."""
    return min(_MAX_PIECES, _MAX_INPUTS // max(len(columns), 1))


def _divisions(distinct: Floats, pieces: int) -> Floats:
    """Return the ends of the pieces of a column: quantiles of its distinct values, so that no piece is empty."""
    return np.asarray(np.quantile(distinct, np.linspace(0.0, 1.0, min(pieces, len(distinct) - 1) + 1)))
