"""Clock: a time limit in, what is left of it and what can be done in that out."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from recuse.estimators.subestimators import Sample, fit_part, for_targets, seeded

__all__ = ["Clock", "affordable_rows"]

_FEWEST_ROWS = 200  # a fit to fewer is not worth it, unless there are no more
_SMALL_TRIAL, _LARGE_TRIAL = 2_000, 8_000
_MARGIN = 0.7  # times are extrapolated


class Clock:
    """A time limit that started when the clock was made; none is an infinite one.

    Examples
    --------
    >>> Clock(None).until(0.5), Clock(None).ticks
    (inf, False)
    >>> 29 < Clock(60).until(0.5) <= 30
    True
    """

    def __init__(self, limit: float | None) -> None:
        self._start, self._limit = time.monotonic(), math.inf if limit is None else limit

    def until(self, share: float) -> float:
        """Seconds left until that share of the limit is over; negative afterwards."""
        return self._start + share * self._limit - time.monotonic()

    @property
    def ticks(self) -> bool:
        """Whether there is a limit at all."""
        return self._limit < math.inf


def affordable_rows(part: Any, growth: float, sample: Sample, rounds: float, rows: int, seconds: float) -> int:
    """How many rows a part can be fitted to in so many seconds; none at all if it would be too few.

    Two small fits show how its time grows with the rows.

    Parameters
    ----------
    part : estimator
    growth : float
        The power of the number of rows by which its time grows, beside a time that does not.
    sample : tuple (inputs, targets, weights)
    rounds : float
        Fits that run one after another.
    rows : int
        As many as there are for each fit.
    seconds : float
    """
    few, more = min(_SMALL_TRIAL, rows // 20), min(_LARGE_TRIAL, rows // 5)
    if few < 2:
        return rows
    short, long = (_time_of_fit(part, sample, count) for count in (few, more))
    slope = max(long - short, 0.1 * long) / (more**growth - few**growth)
    fixed = max(short - slope * few**growth, 0.0)
    allowed = _MARGIN * (seconds - short - long) / rounds - fixed
    affordable = int((allowed / slope) ** (1 / growth)) if allowed > 0 else 0
    if affordable >= rows:
        return rows
    return affordable if affordable >= _FEWEST_ROWS else 0


def _time_of_fit(part: Any, sample: Sample, rows: int) -> float:
    random = np.random.RandomState(0)
    inputs, target, weight = sample
    some = random.choice(len(target), rows, replace=False)
    copy = seeded(for_targets(part, 1 if target.ndim == 1 else target.shape[1]), random)
    start = time.monotonic()
    fit_part(copy, inputs[some], target[some], weight[some])
    return time.monotonic() - start
