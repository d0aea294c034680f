"""Encoding of columns as features: standardised numbers, times with their cycles, and categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.tabular.codecs import MISSING_TIME, Cells
from recuse.tabular.schema import Column, Kind, check_finite

__all__ = [
    "CIRCLE_STEPS",
    "CategoryEncoding",
    "ColumnEncoding",
    "DateEncoding",
    "NumberEncoding",
    "Range",
    "UnusedEncoding",
    "encoding_of",
    "on_circle",
]

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

CIRCLE_STEPS = 1e9  # sine and cosine are multiples of its inverse
_MOST_LEVELS = 50  # Of more levels, the rare ones share a feature.
_LARGEST_SQUARED = 1e150  # squares of larger numbers may overflow
_CYCLES = ("month", "weekday", "hour")


class ColumnEncoding(Protocol):
    """Interface of the learned encoding of one column."""

    @property
    def column(self) -> Column:
        """What is known of the column."""

    @property
    def n_features(self) -> int:
        """The number of features of the column."""

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Write the features of cells into `features` (row, feature), which must be zero; return their novelty (row,).

        `keep` is as in `TableEncoder(unseen="keep")`.
        """


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


@dataclass(frozen=True)
class NumberEncoding:
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
    def n_features(self) -> int:
        """One for the number, and one for the flag."""
        return 1 + self.column.had_missing

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
class DateEncoding:
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
    def n_features(self) -> int:
        """The trend, two for each cycle, and the flag."""
        return self.trend.n_features + 2 * len(self.cycles)

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
class CategoryEncoding:
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
    def n_features(self) -> int:
        """One for each level that is not pooled, the pooled levels and missing cells."""
        return max(self.places, default=-1) + 1 + self.column.had_missing

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        flag = self.column.had_missing
        return np.array([0.0] * (self.n_features - flag) + [1.0] * flag)

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Write a one for the level of each row, or for a missing cell."""
        unknown = cells.unknown
        present = (cells.values >= 0) & (keep | ~unknown)
        features[np.flatnonzero(present), np.array([*self.places, 0], np.intp)[cells.values[present]]] = 1
        features[~present] = self.missing
        return (unknown | (cells.missing & (not self.column.had_missing))).astype(np.float64)


@dataclass(frozen=True)
class UnusedEncoding:
    """A column that is not used as a feature."""

    column: Column

    @property
    def n_features(self) -> int:
        """Zero."""
        return 0

    @property
    def missing(self) -> Floats:
        """No features."""
        return np.empty(0)

    def encode(self, cells: Cells, features: Floats, *, keep: bool) -> Floats:
        """Leave the features unchanged; no cell is novel."""
        return np.zeros(len(features))


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
