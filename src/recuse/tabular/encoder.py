"""Encoding of tables with numbers, dates, categories and missing values as standardised float64 features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.dataframes import row_name
from recuse.tabular.codecs import MISSING_TIME, Cells
from recuse.tabular.schema import Column, Kind, TableSchema, Unseen, check_finite
from recuse.validation import require

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

# Sine and cosine of a cycle are multiples of the inverse of this number.
CIRCLE_STEPS = 1e9
# If a column has more levels, the rare ones share a feature.
_MOST_LEVELS = 50
# The square of a larger number may overflow.
_LARGEST_SQUARED = 1e150
_CYCLES = ("month", "weekday", "hour")


@dataclass(frozen=True)
class Range:
    """The values seen in training, from `low` to `high`."""

    low: float
    high: float

    @property
    def margin(self) -> float:
        """Distance from the range at which novelty is 1: half the width, with a tolerance for rounding."""
        return max(self.high / 2 - self.low / 2, 1e-6 * max(abs(self.low), abs(self.high)), np.finfo(np.float64).tiny)

    def novelty(self, values: Floats) -> Floats:
        """Return 0 inside the range, increasing to 1 at the margin.

        Examples
        --------
        >>> Range(0.0, 10.0).novelty(np.array([-1.0, 3.0, 12.5, 99.0]))
        array([0.2, 0. , 0.5, 1. ])
        """
        with np.errstate(over="ignore"):
            outside = np.maximum(self.low - values, values - self.high)
        return np.clip(outside, 0, self.margin) / self.margin

    def clip(self, values: Floats) -> Floats:
        """Limit values to the range and its margin."""
        return np.clip(values, self.low - self.margin, self.high + self.margin)


class _Encoding(ABC):
    """The learned encoding of one column."""

    @property
    @abstractmethod
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""

    @property
    def n_features(self) -> int:
        """The number of features of the column."""
        return len(self.missing)

    @abstractmethod
    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Write the features of cells into `features` (row, feature), which must be zero; return their novelty (row,).

        `keep` is as in `TableEncoder(unseen="keep")`.
        """


@dataclass(frozen=True)
class NumberEncoding(_Encoding):
    """Standardised numbers; missing ones get the mean, and a flag if training had missing numbers."""

    column: Column
    mean: float
    scale: float

    @classmethod
    def learn(cls, column: Column, values: Floats, weight: Floats) -> Self:
        """Learn mean and scale of the numbers of a column."""
        missing = np.isnan(values)
        known, weight = values[~missing], weight[~missing]
        unit = 1.0 if np.abs(known).max() < _LARGEST_SQUARED else _LARGEST_SQUARED
        mean = float(np.average(known / unit, weights=weight)) * unit
        scale = float(np.average((known / unit - mean / unit) ** 2, weights=weight) ** 0.5) * unit
        # the scale of a constant column is only a rounding error
        constant = scale <= 10 * np.finfo(np.float64).eps * max(abs(mean), np.finfo(np.float64).tiny)
        return cls(column, mean, 1.0 if constant else scale)

    @property
    def range(self) -> Range:
        """The range of training."""
        assert self.column.low is not None
        assert self.column.high is not None
        return Range(self.column.low, self.column.high)

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        return np.array([0.0, 1.0] if self.column.had_missing else [0.0])

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Write the standardised number into the first and the flag into the last feature."""
        values = self.column.measured(cells)
        missing, limits = np.isnan(values), self.range
        limited = values if keep else limits.clip(values)
        features[:, 0] = (np.where(missing, self.mean, limited) - self.mean) / self.scale
        if self.column.had_missing:
            features[:, -1] = missing
        reason = cells.unknown | (cells.missing & (not self.column.had_missing))
        return np.where(reason, 1.0, limits.novelty(np.where(missing, limits.low, values)))


@dataclass(frozen=True)
class DateEncoding(_Encoding):
    """The standardised time, and the sine and cosine of each of `cycles`.

    These are those of "month", "weekday" and "hour" that vary in training. All are computed in the time zone of the
    training column. Dates outside the training range have a novelty as numbers have.
    """

    trend: NumberEncoding
    cycles: tuple[str, ...]

    @classmethod
    def learn(cls, column: Column, cells: Cells, weight: Floats) -> Self:
        """Learn the scale of the trend, and which cycles vary."""
        known = cells.values[cells.values != MISSING_TIME]
        cycles = tuple(cycle for cycle in _CYCLES if np.ptp(_phase(known, cycle)) > 0)
        return cls(NumberEncoding.learn(column, column.measured(cells), weight), cycles)

    @property
    def column(self) -> Column:
        """What is known of the column."""
        return self.trend.column

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        first, *flag = self.trend.missing
        return np.array([first, *[0.0] * (2 * len(self.cycles)), *flag])

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Write the trend, the cycles and the flag."""
        for place, cycle in enumerate(self.cycles):
            phase = np.where(cells.values == MISSING_TIME, np.nan, _phase(cells.values, cycle))
            features[:, 2 * place + 1 : 2 * place + 3] = np.nan_to_num(on_circle(phase), nan=0.0)
        return self.trend.encode(cells, features, keep=keep)


def on_circle(phase: Floats) -> Floats:
    """Return sine and cosine (row, 2) of positions in a cycle (row,), which are from 0 to 1.

    They are rounded, since their last digits depend on the library and on the number of rows, and thresholds of trees
    are often values of training rows.

    Examples
    --------
    >>> on_circle(np.array([0.0, 0.25, 0.5])).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]
    """
    angle = 2 * np.pi * phase
    exact = np.column_stack([np.sin(angle), np.cos(angle)])
    return np.asarray(np.floor(exact * CIRCLE_STEPS + 0.5) / CIRCLE_STEPS)


def _phase(microseconds: Times, cycle: str) -> Floats:
    """Return the position in a cycle (row,), from 0 to 1."""
    times = microseconds.astype("datetime64[us]")
    days = times.astype("datetime64[D]")
    if cycle == "month":
        return np.asarray((times.astype("datetime64[M]").astype(np.int64) % 12) / 12)
    if cycle == "weekday":
        return np.asarray(((days.astype(np.int64) + 3) % 7) / 7)  # 1970-01-01 was a Thursday
    return np.asarray((times - days).astype("timedelta64[us]").astype(np.int64) / (24 * 3600 * 1e6))


@dataclass(frozen=True)
class CategoryEncoding(_Encoding):
    """One feature for each level, then one for pooled levels, then one for missing cells.

    Attributes
    ----------
    column : Column
    places : tuple of int
        The feature of each level; the rare levels of a column with many share the last one. A level that a pandas
        category declares and no training row has keeps a feature, but counts as unknown.
    """

    column: Column
    places: tuple[int, ...]

    @classmethod
    def learn(cls, column: Column, cells: Cells, weight: Floats) -> Self:
        """Pool the rare levels of a column with many."""
        count = len(column.levels)
        if count <= _MOST_LEVELS:
            return cls(column, tuple(range(count)))
        known = cells.values >= 0
        total = np.bincount(cells.values[known], weights=weight[known], minlength=count)
        own = sorted(sorted(range(count), key=lambda place: -total[place])[: _MOST_LEVELS - 1])  # ties stay in order
        feature = {place: number for number, place in enumerate(own)}
        return cls(column, tuple(feature.get(place, len(own)) for place in range(count)))

    @property
    def pooled(self) -> tuple[str, ...]:
        """The levels that share a feature."""
        shared = len(self.places) > _MOST_LEVELS
        levels = zip(self.column.levels, self.places, strict=True)
        return tuple(level.text for level, place in levels if shared and place == max(self.places))

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        return np.array([0.0] * (max(self.places, default=-1) + 1) + [1.0] * self.column.had_missing)

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Write a one for the level of each row, or for a missing cell."""
        unknown = cells.unknown
        present = (cells.values >= 0) & (keep | ~unknown)
        features[np.flatnonzero(present), np.array([*self.places, 0], np.intp)[cells.values[present]]] = 1
        features[~present] = self.missing
        return (unknown | (cells.missing & (not self.column.had_missing))).astype(np.float64)


@dataclass(frozen=True)
class UnusedEncoding(_Encoding):
    """A column that is not used as a feature."""

    column: Column

    @property
    def missing(self) -> Floats:
        """No features."""
        return np.empty(0)

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Leave the features unchanged; no cell is novel."""
        return np.zeros(len(features))


ColumnEncoding = NumberEncoding | DateEncoding | CategoryEncoding | UnusedEncoding


def encoding_of(column: Column, cells: pd.Series[Any], weight: Floats) -> ColumnEncoding:
    """Learn the encoding of a column from its training rows."""
    if column.kind == Kind.UNUSED:
        return UnusedEncoding(column)
    read = column.codec.of_series(cells)
    if column.kind == Kind.CATEGORY:
        return CategoryEncoding.learn(column, read, weight)
    if column.kind == Kind.DATE:
        return DateEncoding.learn(column, read, weight)
    check_finite(column.name, read.values, cells.index)
    return NumberEncoding.learn(column, read.values, weight)


@dataclass(frozen=True)
class Encoded:
    """An encoded table.

    `novelty` is 0 for a cell as in training and 1 for a cell without information: an unseen category, a missing value
    in a column that had none in training, or a number far outside the range of training. It lies between for a number
    just outside that range.
    """

    features: Floats  # (row, feature)
    novelty: Floats  # (row, column)


class TableEncoder:
    """Encode tables as float64 features.

    - Numbers and durations are standardised. A missing number is replaced by the mean, with a flag if training had
      missing numbers. Outside the training range, the novelty increases from 0 to 1 over half the width of the range,
      and numbers beyond that are clipped.
    - Text, booleans and pandas categories have one feature for each level, and one for missing cells if training had
      any. Of more than 50 levels, the 49 most frequent have a feature each and the others share one. A column of text
      with more than 50 levels, and more levels than half the number of rows, identifies rows and is dropped.
    - Dates and times become a trend and the sine and cosine of month, weekday and time of day, if these vary.
    - A few texts such as "n/a" among numbers count as missing. A column without any value is dropped. Both give a
      warning.

    A category without training rows, declared or not, is encoded as missing and has novelty 1. A missing value in a
    column that had none in training also has novelty 1.

    Parameters
    ----------
    unseen : {"novel", "error", "keep"}, default="novel"
        With "error", unseen categories and new missing values raise a ValueError. With "keep", the novelty is the same,
        but numbers are not clipped, and a category that was declared but not seen has its own feature, as in published
        experiments.

    Attributes
    ----------
    schema_ : TableSchema
        What is known of the columns.
    columns_ : list of ColumnEncoding
        The learned encoding of each column: frozen dataclasses of numbers, text and tuples.

    Examples
    --------
    >>> cars = pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]})
    >>> encoder = TableEncoder().fit(cars)
    >>> encoder.transform(cars)
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    >>> encoder.encode(pd.DataFrame({"weight": [3.5], "origin": ["mars"]}))
    Encoded(features=array([[1.5, 0. , 0. ]]), novelty=array([[0.5, 1. ]]))
    """

    schema_: TableSchema
    columns_: list[ColumnEncoding]

    def __init__(self, unseen: Unseen = "novel") -> None:
        self.unseen = unseen

    def fit(
        self, X: pd.DataFrame | Floats, sample_weight: Floats | None = None, schema: TableSchema | None = None
    ) -> TableEncoder:
        """Learn means, scales, ranges and levels; `schema` is that of these rows, where it is known."""
        require(self.unseen in ("novel", "error", "keep"), "unseen", "'novel', 'error' or 'keep'", self.unseen)
        if X.shape[1] == 0:
            raise ValueError("X must have at least one column to learn from, got none")
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        schema = TableSchema.learn(X) if schema is None else schema
        if not schema.used:
            raise ValueError(f"X must have at least one column to learn from, got none, {X.shape[1]} dropped")
        return self._learn(replace(schema, unseen=self.unseen), X, weight)

    def refitted(self, X: pd.DataFrame | Floats, sample_weight: Floats, unseen: Unseen) -> TableEncoder:
        """Return an encoder that learned the same columns, as of the same kinds, from other rows."""
        schema = replace(self.schema_.learned_from(self._frame(X)), unseen=unseen)
        return TableEncoder(unseen)._learn(schema, X, sample_weight)

    def _learn(self, schema: TableSchema, X: pd.DataFrame | Floats, weight: Floats) -> TableEncoder:
        self.schema_ = schema
        frame = self._frame(X)
        self.columns_ = [encoding_of(column, frame[column.name], weight) for column in schema.columns]
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return features (row, feature)."""
        return self.encode(X).features

    def encode(self, X: pd.DataFrame | Floats) -> Encoded:
        """Return features (row, feature) and the novelty of each cell (row, column)."""
        frame = self._frame(X)
        features, novelty = np.zeros((len(frame), self.n_features)), np.zeros((len(frame), len(self.columns_)))
        for place, (learned, part) in enumerate(zip(self.columns_, self.slices, strict=True)):
            if learned.column.kind != Kind.UNUSED:
                cells = self._read(learned.column, frame[learned.column.name])
                novelty[:, place] = learned.encode(cells, features[:, part], keep=self.unseen == "keep")
        return Encoded(features, novelty)

    def _read(self, column: Column, series: pd.Series[Any]) -> Cells:
        cells = column.codec.of_series(series)
        if column.kind == Kind.NUMBER:
            check_finite(column.name, cells.values, series.index)
            if cells.unknown.any():
                column.warn_of_text(cells.unknown, series.iloc[int(cells.unknown.argmax())])
        if self.unseen == "error":
            check_seen(column, cells, lambda row: series.iloc[row], series.index)
        return cells

    @property
    def n_features(self) -> int:
        """The number of features."""
        return sum(column.n_features for column in self.columns_)

    @property
    def slices(self) -> list[slice]:
        """The features of each column; none for a dropped column."""
        ends = np.cumsum([column.n_features for column in self.columns_]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def missing_row(self) -> Floats:
        """The features (feature,) of a row in which every cell is missing."""
        return np.concatenate([column.missing for column in self.columns_])

    def _frame(self, X: pd.DataFrame | Floats) -> pd.DataFrame:
        """Find the columns by name where both tables have names, else by position."""
        names = [column.name for column in self.schema_.columns]
        if self.schema_.matrix is None and isinstance(X, pd.DataFrame):
            absent = [name for name in names if name not in X.columns]
            if absent:
                raise ValueError(f"X must have the column {absent[0]!r}, as in training, got columns {list(X.columns)}")
            return X
        if X.shape[1] != len(names):
            raise ValueError(f"X must have {len(names)} columns, as in training, got {X.shape[1]}")
        return X.set_axis(names, axis=1) if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=names)


def check_seen(column: Column, cells: Cells, cell_at: Callable[[int], Any], index: pd.Index[Any] | None) -> None:
    """Raise an error for the first unseen category or new missing value.

    Parameters
    ----------
    column : Column
    cells : Cells
    cell_at : callable
        Returns the cell of a row as it was given.
    index : Index or None
        The labels of the rows.
    """
    if cells.unknown.any():
        row, count = int(cells.unknown.argmax()), int(cells.unknown.sum())
        raise ValueError(
            f"column {column.name!r} must hold {column.expected}, got {cell_at(row)!r:.80} "
            f"at {row_name(row, index)}{_first_of(count)}"
        )
    if not column.had_missing and cells.missing.any():
        row, count = int(cells.missing.argmax()), int(cells.missing.sum())
        raise ValueError(
            f"column {column.name!r} must have no missing value, as in training, got one "
            f"at {row_name(row, index)}{_first_of(count)}"
        )


def _first_of(count: int) -> str:
    return "" if count == 1 else f", the first of {count:,} such rows"
