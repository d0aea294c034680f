"""Regression on features with their ranks, squares or linear pieces beside them, and on a standardised target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import QuantileTransformer

from recuse.estimators.auto.models.wrapped_regressor import WrappedRegressor
from recuse.estimators.joint_fits import Rows
from recuse.tabular.units import target_moments

__all__ = ["ExpandedFeatures", "Expansion", "has_pieces"]

Floats = NDArray[np.float64]
Expansion = Literal["ranks", "squares", "pieces", "none"]

_HALF_WIDTH = 3**0.5  # of a uniform distribution with standard deviation 1
_MAX_QUANTILES = 100
_MAX_PIECES = 16  # of one column
_MIN_PIECES = 4  # with fewer, ranks are better
_MAX_INPUTS = 256  # pieces of all columns


class ExpandedFeatures(WrappedRegressor):
    """Fit a regressor to the features, to ranks, squares or linear pieces of them, and to a standardised target.

    Ranks and pieces help networks on skewed columns, and the ranks help kernel methods. The ranks are uniform on [-1.7,
    1.7], so that their standard deviation is 1. Squares are those of the ranks, beside the ranks themselves; with them
    a network finds boundaries that are curved, such as a circle. With pieces, the range of a column is divided at
    quantiles of its distinct values, and each piece has an input that rises from 0 to 1 along it, so that a network can
    bend its function at every division (Gorishniy, Rubachev and Babenko, 2022). Columns with one or two distinct values
    are left as they are. The scaled target helps trees, which stop splitting where the variance of the target is near
    the machine precision.

    Parameters
    ----------
    regressor : estimator
    expansion : {"ranks", "squares", "pieces", "none"}, default="ranks"
        What is added to the features. A table of many columns gets ranks instead of pieces.
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
        self.target_ = target_moments(y, weight) if self.scale_target else (0.0, 1.0)
        mean, scale = self.target_ = self.target_[0], self.target_[1] or 1.0
        return self.inputs(X), (y - mean) / scale, sample_weight

    def predict(self, X: Floats) -> Floats:
        """Predict every row, in the user's units."""
        mean, scale = self.target_
        return np.asarray(self.regressor_.predict(self.inputs(np.asarray(X))) * scale + mean)

    def _learn_expansion(self, X: Floats) -> None:
        """Set `columns_`, the expanded columns, and `ranks_` or the ends `starts_` and `widths_` of the pieces."""
        distinct = [np.unique(column) for column in X.T] if self.expansion != "none" else []
        self.columns_ = _expanded(distinct)
        pieces = _pieces(self.columns_)
        self.expansion_: Expansion = "ranks" if self.expansion == "pieces" and pieces < _MIN_PIECES else self.expansion
        if not len(self.columns_):
            self.expansion_ = "none"
        elif self.expansion_ in ("ranks", "squares"):
            quantiles = min(_MAX_QUANTILES, len(X))
            self.ranks_ = QuantileTransformer(n_quantiles=quantiles, random_state=0).fit(X[:, self.columns_])
        else:
            edges = [_divisions(distinct[column], pieces) for column in self.columns_]
            self.columns_ = np.repeat(self.columns_, [len(own) - 1 for own in edges])
            self.starts_ = np.concatenate([own[:-1] for own in edges])
            self.widths_ = np.concatenate([np.diff(own) for own in edges])

    def inputs(self, X: Floats) -> Floats:
        """Return the inputs of the regressor: the features, and what is added to them."""
        match self.expansion_:
            case "none":
                return X
            case "pieces":
                return np.column_stack([X, ((X[:, self.columns_] - self.starts_) / self.widths_).clip(0.0, 1.0)])
        ranks = (2 * self.ranks_.transform(X[:, self.columns_]) - 1) * _HALF_WIDTH
        return np.column_stack([X, ranks] if self.expansion_ == "ranks" else [X, ranks, ranks**2 - 1])


def has_pieces(X: Floats) -> bool:
    """Whether the columns are few enough for linear pieces of each; otherwise ranks are added instead.

    Examples
    --------
    >>> has_pieces(np.arange(6.0).reshape(3, 2)), has_pieces(np.arange(300.0).reshape(3, 100))
    (True, False)
    """
    return _pieces(_expanded([np.unique(column) for column in X.T])) >= _MIN_PIECES


def _expanded(distinct: Sequence[Floats]) -> NDArray[np.intp]:
    """Return the columns that are expanded, given the distinct values of all."""
    return np.flatnonzero([len(values) > 2 for values in distinct])


def _pieces(columns: NDArray[np.intp]) -> int:
    """Return the number of pieces of a column, at most."""
    return min(_MAX_PIECES, _MAX_INPUTS // max(len(columns), 1))


def _divisions(distinct: Floats, pieces: int) -> Floats:
    """Return the ends of the pieces of a column: quantiles of its distinct values, so that no piece is empty."""
    return np.asarray(np.quantile(distinct, np.linspace(0.0, 1.0, min(pieces, len(distinct) - 1) + 1)))
