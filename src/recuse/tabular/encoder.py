"""Tables in, numbers out: an array or DataFrame with categories and gaps -> standardised float64 features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

__all__ = ["Encoded", "TableEncoder"]

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
        cells = column.astype(object)
        codes = _index(self.levels).get_indexer(_index(cells))
        unknown = (codes < 0) & ~gaps
        if unknown.any():
            row = int(unknown.argmax())
            raise ValueError(
                f"column {self.name!r} must hold a category seen in training, one of {list(self.levels)}, "
                f"got {cells.iloc[row]!r} at row {column.index[row]}"
            )
        if gaps.any() and not self.missing:
            raise ValueError(
                f"column {self.name!r} must have no missing value, as in training, "
                f"got one at row {column.index[int(gaps.argmax())]}"
            )
        hot = np.zeros((len(column), len(self.levels) + self.missing))
        hot[np.arange(len(column)), np.where(gaps, len(self.levels), codes)] = 1
        return hot


@dataclass(frozen=True)
class Encoded:
    """Features and novelty of some rows."""

    features: Floats
    novelty: Floats


class TableEncoder:
    """Learn from a table how to turn such tables into features.

    Numbers are standardised; text, booleans and categories become one output per level. A pandas category
    brings its own levels, so one that happens to be absent from the training rows is still known. Errors name the
    row by its label in the index of the DataFrame.

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
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
        if frame.shape[1] == 0:
            raise ValueError("X must have at least one column to learn from, got none")
        self._named = isinstance(X, pd.DataFrame)
        weight = np.ones(len(frame)) if sample_weight is None else sample_weight
        self.columns_ = [_learn(name, frame[name], weight) for name in frame.columns]
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Give features (row, feature)."""
        frame = self._frame(X)
        return np.column_stack([column.encode(frame[column.name]) for column in self.columns_])

    def encode(self, X: pd.DataFrame | Floats) -> Encoded:
        """Give features and novelty."""
        features = self.transform(X)
        return Encoded(features, np.zeros((len(features), len(self.columns_))))

    @property
    def slices(self) -> list[slice]:
        """Features of each column."""
        widths = [
            1 + column.flag_missing if isinstance(column, NumericColumn) else len(column.levels) + column.missing
            for column in self.columns_
        ]
        ends = np.cumsum(widths)
        return [slice(int(end) - width, int(end)) for end, width in zip(ends, widths, strict=True)]

    @property
    def missing_row(self) -> Floats:
        """What a row encodes to whose cells are all missing."""
        return np.zeros(self.n_features)

    def _frame(self, X: pd.DataFrame | Floats) -> pd.DataFrame:
        """Find the columns by name where both tables have names, else by position."""
        names = [column.name for column in self.columns_]
        if self._named and isinstance(X, pd.DataFrame):
            absent = [name for name in names if name not in X.columns]
            if absent:
                raise ValueError(f"X must have the column {absent[0]!r}, as in training, got columns {list(X.columns)}")
            return X
        if X.shape[1] != len(names):
            raise ValueError(f"X must have {len(names)} columns, as in training, got {X.shape[1]}")
        return X.set_axis(names, axis=1) if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=names)

    @property
    def n_features(self) -> int:
        """How many features `transform` gives."""
        return sum(
            1 + column.flag_missing if isinstance(column, NumericColumn) else len(column.levels) + column.missing
            for column in self.columns_
        )


def _learn(name: Any, column: pd.Series[Any], weight: Floats) -> NumericColumn | CategoryColumn:
    if column.isna().all():
        raise ValueError(f"column {name!r} must hold at least one value, got only missing ones")
    if types.is_object_dtype(column.dtype):  # numbers that came as objects are numbers
        column = column.where(column.notna(), np.nan).infer_objects()
    if _is_categorical(column):
        return _learn_category(name, column)
    values = _numeric(column)
    missing = np.isnan(values)
    known, weight = values[~missing], weight[~missing]
    mean = float(np.average(known, weights=weight))
    scale = float(np.average((known - mean) ** 2, weights=weight) ** 0.5)
    # a column that is constant but for rounding carries nothing: leave its scale alone
    constant = scale <= 10 * np.finfo(np.float64).eps * max(abs(mean), np.finfo(np.float64).tiny)
    return NumericColumn(name, mean, 1.0 if constant else scale, bool(missing.any()))


def _learn_category(name: Any, column: pd.Series[Any]) -> CategoryColumn:
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    levels = tuple(column.cat.categories) if declared else _levels(column)
    return CategoryColumn(name, levels, bool(column.isna().any()))


def _levels(column: pd.Series[Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(column.dropna().astype(object).unique(), key=lambda level: (str(type(level)), level)))
    except TypeError as error:  # lists, dicts and the like
        raise ValueError(
            f"column {column.name!r} must hold numbers, text or categories, got {column.dropna().iloc[0]!r:.80}"
        ) from error


def _index(values: Any) -> pd.Index[Any]:
    return pd.Index(values, dtype=object, tupleize_cols=False)


def _is_categorical(column: pd.Series[Any]) -> bool:
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) or types.is_bool_dtype(kind):
        return True
    if types.is_object_dtype(kind) or types.is_string_dtype(kind):
        return True
    if types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind):
        return False
    raise ValueError(
        f"column {column.name!r} must hold numbers, text, booleans or categories, got {kind}; "
        "turn dates and times into numbers, such as days since some day"
    )


def _numeric(column: pd.Series[Any]) -> Floats:
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {column.name!r} must hold numbers as in training, got {column.dtype}") from error
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise ValueError(f"column {column.name!r} must be finite, got {values[row]} at row {column.index[row]}")
    return values
