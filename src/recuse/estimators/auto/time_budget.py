"""The time limit of a fit, and predictions of the time that an estimator needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from recuse.estimators.crossfitting import Sample
from recuse.estimators.subestimators import fit_subestimator, seeded
from recuse.threads import one_thread

_FIRST_ROWS, _STEP = 50, 4  # rows of the first trial fit, and the factor to the next
_FEW = 500  # rows of a trial fit that takes mostly overhead, so that its growth cannot be extrapolated
_CERTAIN = 20  # a fit that needs less than this part of the time needs no further trial
_MOST = 4  # a trial fit may take this part of the time
_COLUMNS = 200  # columns in the first trial fit of a wide table
_MIN_GROWTH, _MORE_GROWTH = 0.5, 0.5  # least power of the rows, and how far it may exceed the expected one


class OutOfTime(Exception):
    """Raised between two fits of a model that takes longer than predicted."""


class TimeBudget:
    """Remaining time of a fit; the time starts when the object is created, and a limit of None is no limit.

    Examples
    --------
    >>> TimeBudget(None).until(0.5), TimeBudget(None).limited
    (inf, False)
    >>> 29 < TimeBudget(60).until(0.5) <= 30
    True
    """

    def __init__(self, limit: float | None) -> None:
        self._start, self.limit = time.monotonic(), math.inf if limit is None else limit

    def until(self, share: float) -> float:
        """Return the seconds until this share of the limit is used; negative afterwards."""
        return self._start + share * self.limit - time.monotonic()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.limit < math.inf

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start


@dataclass(frozen=True)
class FitTime:
    """Predicted time of a fit, proportional to a power of the number of rows.

    Attributes
    ----------
    seconds : float
        Of a fit to `rows` rows.
    rows : int
    growth : float
        The power.
    trials : float
        Seconds that the trial fits took.
    """

    seconds: float
    rows: int
    growth: float
    trials: float = field(default=0.0, repr=False, compare=False)

    def of(self, rows: int) -> float:
        """Return the seconds of a fit to this number of rows.

        Examples
        --------
        >>> FitTime(2.0, rows=100, growth=2.0).of(200)
        8.0
        """
        return float(self.seconds * (rows / self.rows) ** self.growth)

    def affordable(self, seconds: float, rows: int) -> int:
        """Return the number of rows that can be fitted to in this time, at most `rows`.

        Examples
        --------
        >>> FitTime(1.0, rows=100, growth=2.0).affordable(4.0, rows=1000)
        200
        """
        if self.of(rows) <= seconds:
            return rows
        return int(self.rows * (max(seconds, 0.0) / self.seconds) ** (1 / self.growth))


def measured_time(
    estimator: Any,
    growth: float,
    sample: Sample,
    rows: int,
    seconds: float,
    time_of_fit: Callable[[Any, Sample, int], float] | None = None,
) -> FitTime:
    """Predict the time of a fit from fits to few rows, each to four times as many rows as the one before.

    The trial fits end as soon as the next one is likely to take too long, or a fit to all rows is predicted to take
    a small part of the time.

    Parameters
    ----------
    estimator : estimator
    growth : float
        Expected power of the number of rows that the time is proportional to; the power of two trial fits replaces it.
    sample : Sample
    rows : int
        Rows of the fit to predict.
    seconds : float
        Time available for the fit; a trial fit may take a quarter of it.
    time_of_fit : callable, optional
        Measures the time of a fit of an estimator to a number of rows of the sample.

    Examples
    --------
    >>> sample = Sample(np.zeros((8000, 1)), np.zeros(8000), np.ones(8000))
    >>> measured_time(None, 2.0, sample, 8000, 100.0, lambda estimator, sample, rows: rows / 1000)
    FitTime(seconds=3.2, rows=3200, growth=1.0)
    """
    measure, start = _time_of_fit if time_of_fit is None else time_of_fit, time.monotonic()
    count = min(max(_FIRST_ROWS, rows // _STEP**4), rows)
    first = _of_all_columns(estimator, sample, count, seconds, measure)
    found = FitTime(first, count, growth)
    while (following := _following(count, rows)) is not None:
        # with few rows, most of the time is overhead, so the next trial takes less than its rows suggest
        if found.seconds * _STEP**_MIN_GROWTH > seconds / _MOST or found.of(rows) < seconds / _CERTAIN:
            break
        taken = measure(estimator, sample, following)
        power = math.log(max(taken, 1e-9) / max(found.seconds, 1e-9)) / math.log(following / count)
        found, count = FitTime(taken, following, min(max(power, _MIN_GROWTH), growth + _MORE_GROWTH)), following
    return replace(found, trials=time.monotonic() - start)


def _following(count: int, rows: int) -> int | None:
    """Return the rows of the next trial fit: at most a third of all, since it is not used for anything else.

    Examples
    --------
    >>> [_following(count, rows=1000) for count in (50, 200, 333)]
    [200, 333, None]
    """
    if 2 * _STEP * count <= rows:
        return _STEP * count
    return rows // 3 if count < _FEW and 4 * count <= rows else None


def _of_all_columns(
    estimator: Any, sample: Sample, rows: int, seconds: float, measure: Callable[[Any, Sample, int], float]
) -> float:
    """Return the time of a fit to few rows with all columns; of a wide table, predict it from fewer columns.

    The time is assumed to be proportional to the number of columns at most.
    """
    width = sample.inputs.shape[1]
    columns = min(_COLUMNS, width)
    while columns < width:
        taken = measure(estimator, sample._replace(inputs=sample.inputs[:, :columns]), rows)
        if taken * min(_STEP, width / columns) > seconds / (2 * _MOST):  # there may be another fit, to all columns
            return float(taken * width / columns)
        columns = min(_STEP * columns, width)
    return measure(estimator, sample, rows)


def _time_of_fit(estimator: Any, sample: Sample, rows: int) -> float:
    random = np.random.RandomState(0)
    some = sample.take(random.choice(len(sample.target), rows, replace=False))
    copy = seeded(estimator, random)
    start = time.monotonic()
    with one_thread():
        fit_subestimator(copy, *some)
    return time.monotonic() - start
