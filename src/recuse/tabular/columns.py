"""Encoding of columns of numbers and of categories."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.tabular.cells import check_finite, read_levels, read_numbers

__all__ = [
    "CategoryColumn",
    "Cells",
    "Column",
    "DroppedColumn",
    "NumericColumn",
    "Range",
    "identifies_rows",
    "warn_of_text",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_LEVELS = 50
_SHOWN_LEVELS = 10
_LARGEST_SQUARED = 1e150  # squares of larger numbers may overflow


@dataclass(frozen=True)
class Cells:
    """Novelty of the cells of one column, compared with the training rows.

    `unknown` marks values that did not occur in training, such as a new category. `new_gap` marks missing values in a
    column without missing values in training. Both have novelty 1.
    """

    novelty: Floats  # (row,)
    unknown: Flags
    new_gap: Flags


class Column(Protocol):
    """Interface of the learned encoding of one column."""

    @property
    def name(self) -> Any:
        """The name of the column in the table."""

    @property
    def n_features(self) -> int:
        """The number of features of the column."""

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""

    @property
    def expected(self) -> str:
        """What the column must hold, for error messages."""

    def encode(self, column: pd.Series[Any], features: Floats, *, keep: bool) -> Cells:
        """Write the features of the column into `features` (row, feature), which must be zero.

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
class NumericColumn:
    """A column of standardised numbers; missing ones get the mean, and a flag if training had missing numbers."""

    name: Any
    mean: float
    scale: float
    flag_missing: bool
    range: Range
    had_text: bool = False

    @classmethod
    def learn(cls, column: pd.Series[Any], weight: Floats) -> Self:
        """Learn mean, scale and range; texts among the numbers count as missing values."""
        values, text = read_numbers(column)
        if text.any():
            warn_of_text(column, text, "holds numbers and")
        return cls.of_values(column, values, weight, had_text=bool(text.any()))

    @classmethod
    def of_values(cls, column: pd.Series[Any], values: Floats, weight: Floats, *, had_text: bool = False) -> Self:
        """Learn mean, scale and range of values read from the column."""
        check_finite(column, values)
        missing = np.isnan(values)
        known, weight = values[~missing], weight[~missing]
        unit = 1.0 if np.abs(known).max() < _LARGEST_SQUARED else _LARGEST_SQUARED
        mean = float(np.average(known / unit, weights=weight)) * unit
        scale = float(np.average((known / unit - mean / unit) ** 2, weights=weight) ** 0.5) * unit
        # the scale of a constant column is only a rounding error
        constant = scale <= 10 * np.finfo(np.float64).eps * max(abs(mean), np.finfo(np.float64).tiny)
        limits = Range(float(known.min()), float(known.max()))
        return cls(column.name, mean, 1.0 if constant else scale, bool(missing.any()), limits, had_text)

    @property
    def n_features(self) -> int:
        """One for the number, and one for the flag."""
        return 1 + self.flag_missing

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        return np.array([0.0, 1.0] if self.flag_missing else [0.0])

    @property
    def expected(self) -> str:
        """What the column must hold, for error messages."""
        return "numbers as in training"

    def encode(self, column: pd.Series[Any], features: Floats, *, keep: bool) -> Cells:
        """Write the standardised number and the flag."""
        values, text = read_numbers(column)
        check_finite(column, values)
        if self.had_text:
            text = np.zeros_like(text)
        elif text.any():
            warn_of_text(column, text, "had only numbers in training and now holds")
        return self.encode_values(values, text, features, keep=keep)

    def encode_values(self, values: Floats, unknown: Flags, features: Floats, *, keep: bool) -> Cells:
        """Write numbers into the first and the flag into the last feature; NaN are missing and unknown cells."""
        missing = np.isnan(values)
        new_gap = missing & ~unknown & (not self.flag_missing)
        novelty = np.where(unknown | new_gap, 1.0, self.range.novelty(np.where(missing, self.range.low, values)))
        limited = values if keep else self.range.clip(values)
        features[:, 0] = (np.where(missing, self.mean, limited) - self.mean) / self.scale
        if self.flag_missing:
            features[:, -1] = missing
        return Cells(novelty, unknown, new_gap)


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one feature for each level, then one for pooled levels, then one for missing cells.

    `levels` have a feature each. `pooled` are the rare levels of a column with many, which share one. `absent` are
    levels that a pandas category declares and no training row has: each keeps a feature, but counts as unknown.
    """

    name: Any
    levels: tuple[Any, ...]
    flag_missing: bool
    pooled: tuple[Any, ...] = ()
    absent: tuple[Any, ...] = ()

    @classmethod
    def learn(cls, column: pd.Series[Any], weight: Floats) -> CategoryColumn | DroppedColumn:
        """Learn the levels; drop a column of text that identifies rows."""
        codes, cells = read_levels(column)
        known = codes >= 0
        declared = isinstance(column.dtype, pd.CategoricalDtype)
        seen = np.bincount(codes[known], minlength=len(cells)) > 0
        flag_missing = not bool(known.all())
        if _identify_rows(column, codes, cells):
            return DroppedColumn.warn(
                column.name, f"{len(cells):,} different texts in {len(column):,} rows identify rows"
            )
        if declared and len(cells) <= MAX_LEVELS:
            absent = tuple(cell for cell, present in zip(cells, seen, strict=True) if not present)
            return cls(column.name, tuple(cells), flag_missing, absent=absent)
        count = np.bincount(codes[known], weights=weight[known], minlength=len(cells))
        order = [place for place in (range(len(cells)) if declared else _sorted(cells)) if seen[place]]
        kept = set(order)
        if len(order) > MAX_LEVELS:
            kept = set(sorted(order, key=lambda place: -count[place])[: MAX_LEVELS - 1])  # ties stay in order
        levels = tuple(cells[place] for place in order if place in kept)
        return cls(column.name, levels, flag_missing, tuple(cells[place] for place in order if place not in kept))

    @property
    def n_features(self) -> int:
        """One for each level, the pooled levels and missing cells."""
        return len(self.levels) + bool(self.pooled) + self.flag_missing

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        return np.array([0.0] * (self.n_features - self.flag_missing) + [1.0] * self.flag_missing)

    @property
    def expected(self) -> str:
        """What the column must hold, for error messages."""
        known = [level for level in (*self.levels, *self.pooled) if level not in set(self.absent)]
        more = f", ... and {len(known) - _SHOWN_LEVELS:,} more" if len(known) > _SHOWN_LEVELS else ""
        shown = ", ".join(map(repr, known[:_SHOWN_LEVELS]))
        return f"a category seen in training, one of [{shown}{more}]"

    def encode(self, column: pd.Series[Any], features: Floats, *, keep: bool) -> Cells:
        """Write a one for the level of each row, or for a missing cell."""
        codes, cells = read_levels(column)
        places, absent = self._places(), set(self.absent)
        place_of = np.array([*(places.get(cell, -1) for cell in cells), -1], np.intp)[codes]  # the last: missing cells
        gap = codes < 0
        unknown = ~gap & ((place_of < 0) | np.array([*(cell in absent for cell in cells), False])[codes])
        missing = gap | (unknown if not keep else place_of < 0)
        features[np.flatnonzero(~missing), place_of[~missing]] = 1
        features[missing] = self.missing
        new_gap = gap & (not self.flag_missing)
        return Cells((unknown | new_gap).astype(np.float64), unknown, new_gap)

    def _places(self) -> dict[Any, int]:
        """Return the position of the feature of every level."""
        own = {level: place for place, level in enumerate(self.levels)}
        return {**own, **dict.fromkeys(self.pooled, len(self.levels))}


@dataclass(frozen=True)
class DroppedColumn:
    """A column that is not used as a feature."""

    name: Any
    reason: str

    @classmethod
    def warn(cls, name: Any, reason: str) -> Self:
        """Drop a column with a warning that gives the reason."""
        warnings.warn(f"column {name!r} is not used: {reason}", UserWarning, stacklevel=2)
        return cls(name, reason)

    @property
    def n_features(self) -> int:
        """Zero."""
        return 0

    @property
    def missing(self) -> Floats:
        """No features."""
        return np.empty(0)

    @property
    def expected(self) -> str:
        """What the column must hold, for error messages."""
        return "anything"

    def encode(self, column: pd.Series[Any], features: Floats, *, keep: bool) -> Cells:
        """Leave the features unchanged; no cell is novel."""
        none = np.zeros(len(column), np.bool_)
        return Cells(np.zeros(len(column)), none, none)


def identifies_rows(column: pd.Series[Any]) -> bool:
    """Whether the texts of a column differ in most rows, so that they identify rows.

    Examples
    --------
    >>> identifies_rows(pd.Series([f"id {number}" for number in range(100)])), identifies_rows(pd.Series(["a", "b"]))
    (True, False)
    """
    return _identify_rows(column, *read_levels(column))


def _identify_rows(column: pd.Series[Any], codes: NDArray[np.intp], levels: list[Any]) -> bool:
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    return not declared and len(levels) > MAX_LEVELS and len(levels) > int((codes >= 0).sum()) / 2


def _sorted(cells: list[Any]) -> list[int]:
    """Return the positions of the levels, sorted by type, then by value."""
    try:
        return sorted(range(len(cells)), key=lambda place: (str(type(cells[place])), cells[place]))
    except TypeError:  # hashable, but without an order
        return sorted(range(len(cells)), key=lambda place: (str(type(cells[place])), repr(cells[place])))


def warn_of_text(column: pd.Series[Any], text: Flags, state: str) -> None:
    """Warn that a column of numbers has texts, with their number and an example."""
    count, example = int(text.sum()), column.iloc[int(text.argmax())]
    warnings.warn(
        f"column {column.name!r} {state} {count:,} texts such as {example!r:.40}: they count as missing values",
        UserWarning,
        stacklevel=2,
    )
