"""Encoding of dates and times: a trend, the season, the day of the week and the time of day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.tabular.cells import Times, read_dates, zone_of
from recuse.tabular.columns import Cells, NumericColumn

__all__ = ["CIRCLE_STEPS", "DateColumn", "on_circle"]

Floats = NDArray[np.float64]

CIRCLE_STEPS = 1e9  # sine and cosine are multiples of its inverse
_CYCLES = ("month", "weekday", "hour")


@dataclass(frozen=True)
class DateColumn:
    """A column of dates or times.

    The features are the standardised time, the sine and cosine of each of `cycles` (of "month", "weekday" and "hour"
    those that vary in training), and a flag if training had missing dates. All are computed in the time zone of the
    training column. Dates outside the training range have a novelty as numbers have.
    """

    trend: NumericColumn
    cycles: tuple[str, ...]
    zone: str | None

    @classmethod
    def learn(cls, column: pd.Series[Any], weight: Floats) -> Self:
        """Learn the scale of the trend, and which cycles vary."""
        zone = zone_of(column)
        times, _ = read_dates(column, zone)
        trend = NumericColumn.of_values(column, _seconds(times), weight)
        known = times[~np.isnat(times)]
        cycles = tuple(cycle for cycle in _CYCLES if np.ptp(_phase(known, cycle)) > 0)
        return cls(trend, cycles, zone)

    @property
    def name(self) -> Any:
        """The name of the column in the table."""
        return self.trend.name

    @property
    def n_features(self) -> int:
        """The trend, two for each cycle, and the flag."""
        return self.trend.n_features + 2 * len(self.cycles)

    @property
    def missing(self) -> Floats:
        """The features (feature,) of a missing cell."""
        first, *flag = self.trend.missing
        return np.array([first, *[0.0] * (2 * len(self.cycles)), *flag])

    @property
    def expected(self) -> str:
        """What the column must hold, for error messages."""
        return "dates or times as in training"

    def encode(self, column: pd.Series[Any], features: Floats, *, keep: bool) -> Cells:
        """Write the trend, the cycles and the flag."""
        times, unknown = read_dates(column, self.zone)
        for place, cycle in enumerate(self.cycles):
            features[:, 2 * place + 1 : 2 * place + 3] = np.nan_to_num(on_circle(_phase(times, cycle)), nan=0.0)
        return self.trend.encode_values(_seconds(times), unknown, features, keep=keep)


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


def _seconds(times: Times) -> Floats:
    """Return seconds since 1970 (row,), NaN for NaT."""
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)


def _phase(times: Times, cycle: str) -> Floats:
    """Return the position in a cycle (row,), from 0 to 1, NaN for NaT."""
    days = times.astype("datetime64[D]")
    if cycle == "month":
        phase = (times.astype("datetime64[M]").astype(np.int64) % 12) / 12
    elif cycle == "weekday":
        phase = ((days.astype(np.int64) + 3) % 7) / 7  # 1970-01-01 was a Thursday
    else:
        phase = (times - days).astype("timedelta64[us]").astype(np.int64) / (24 * 3600 * 1e6)
    return np.where(np.isnat(times), np.nan, phase)
