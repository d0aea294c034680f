"""Tables in, numbers out: an array or DataFrame with categories and gaps -> standardised float64 features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

__all__ = ["TableEncoder"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers: gaps take the mean, and a flag tells them apart if there were any in training."""

    name: Any
    mean: float
    scale: float
    flag_missing: bool

    def encode(self, column: pd.Series[Any]) -> Floats:
        """Give (row, 1) or, with the flag, (row, 2)."""
        values = _numeric(column)
        missing = np.isnan(values)
        standard = (np.where(missing, self.mean, values) - self.mean) / self.scale
        return np.column_stack([standard, missing]) if self.flag_missing else standard[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one output for each level; a gap is a level if there were any in training."""

    name: Any
    levels: tuple[Any, ...]
    missing: bool

    def encode(self, column: pd.Series[Any]) -> Floats:
        """Give (row, level)."""
        gaps = column.isna().to_numpy()
        codes = pd.Index(self.levels).get_indexer(pd.Index(column.astype(object)))
        unknown = (codes < 0) & ~gaps
        if unknown.any():
            row = int(unknown.argmax())
            raise ValueError(
                f"column {self.name!r} must hold a category seen in training, one of {list(self.levels)}, "
                f"got {column.iloc[row]!r} at row {row}"
            )
        if gaps.any() and not self.missing:
            raise ValueError(
                f"column {self.name!r} had no missing values in training, got one at row {int(gaps.argmax())}"
            )
        hot = np.zeros((len(column), len(self.levels) + self.missing))
        hot[np.arange(len(column)), np.where(gaps, len(self.levels), codes)] = 1
        return hot


class TableEncoder:
    """Learn from a table how to turn such tables into features.

    Numbers are standardised; text, booleans and categories become one output per level. A pandas category
    brings its own levels, so one that happens to be absent from the training rows is still known.

    Examples
    --------
    >>> cars = pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]})
    >>> TableEncoder().fit(cars).transform(cars)
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    """

    columns_: list[NumericColumn | CategoryColumn]

    def fit(self, X: pd.DataFrame | Floats, sample_weight: Floats | None = None) -> TableEncoder:
        """Learn means, scales and levels."""
        frame = _frame(X)
        weight = np.ones(len(frame)) if sample_weight is None else sample_weight
        self.columns_ = [_learn(name, frame[name], weight) for name in frame.columns]
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Give features (row, feature)."""
        frame = _frame(X)
        return np.column_stack([column.encode(frame[column.name]) for column in self.columns_])

    @property
    def n_features(self) -> int:
        """How many features `transform` gives."""
        return sum(
            1 + column.flag_missing if isinstance(column, NumericColumn) else len(column.levels) + column.missing
            for column in self.columns_
        )


def _frame(X: pd.DataFrame | Floats) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)


def _learn(name: Any, column: pd.Series[Any], weight: Floats) -> NumericColumn | CategoryColumn:
    if _is_categorical(column):
        return _learn_category(name, column)
    values = _numeric(column)
    missing = np.isnan(values)
    if missing.all():
        raise ValueError(f"column {name!r} must hold at least one value, got only missing ones")
    known, weight = values[~missing], weight[~missing]
    mean = float(np.average(known, weights=weight))
    scale = float(np.average((known - mean) ** 2, weights=weight) ** 0.5)
    # a column that is constant but for rounding carries nothing: leave its scale alone
    constant = scale <= 10 * np.finfo(np.float64).eps * max(abs(mean), np.finfo(np.float64).tiny)
    return NumericColumn(name, mean, 1.0 if constant else scale, bool(missing.any()))


def _learn_category(name: Any, column: pd.Series[Any]) -> CategoryColumn:
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = tuple(column.cat.categories)
    else:
        levels = tuple(sorted(column.dropna().unique(), key=lambda level: (str(type(level)), level)))
    return CategoryColumn(name, levels, bool(column.isna().any()))


def _is_categorical(column: pd.Series[Any]) -> bool:
    kind = column.dtype
    return isinstance(kind, pd.CategoricalDtype) or types.is_bool_dtype(kind) or not types.is_numeric_dtype(kind)


def _numeric(column: pd.Series[Any]) -> Floats:
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {column.name!r} must hold numbers as in training, got {column.dtype}") from error
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise ValueError(f"column {column.name!r} must be finite, got {values[row]} at row {row}")
    return values
