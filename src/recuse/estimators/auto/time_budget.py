"""The time limit of a fit, and the number of rows that a learner can be fitted to within it."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from recuse.estimators.crossfitting import Sample
from recuse.estimators.subestimators import fit_subestimator, for_targets, seeded
from recuse.threads import one_thread

__all__ = ["TimeBudget", "affordable_rows"]

_MIN_ROWS = 200  # a fit to fewer rows of a larger table is useless
_SMALL_TRIAL, _LARGE_TRIAL = 2_000, 8_000
_MARGIN = 0.7  # share of the time that is planned, since times are extrapolated


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
        self._start, self._limit = time.monotonic(), math.inf if limit is None else limit

    def until(self, share: float) -> float:
        """Return the seconds until this share of the limit is used; negative afterwards."""
        return self._start + share * self._limit - time.monotonic()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit < math.inf


def affordable_rows(estimator: Any, growth: float, sample: Sample, rounds: float, rows: int, seconds: float) -> int:
    """Estimate the number of rows that an estimator can be fitted to in the given time; 0 if it is too small.

    The time is extrapolated from two small fits.

    Parameters
    ----------
    estimator : estimator
    growth : float
        Apart from a constant, the time is proportional to this power of the number of rows.
    sample : Sample
    rounds : float
        Number of fits that run one after another.
    rows : int
        Rows available for each fit.
    seconds : float
    """
    few, more = min(_SMALL_TRIAL, rows // 20), min(_LARGE_TRIAL, rows // 5)
    if few < 2:
        return rows
    short, long = (_time_of_fit(estimator, sample, count) for count in (few, more))
    slope = max(long - short, 0.1 * long) / (more**growth - few**growth)
    fixed = max(short - slope * few**growth, 0.0)
    allowed = _MARGIN * (seconds - short - long) / rounds - fixed
    affordable = int((allowed / slope) ** (1 / growth)) if allowed > 0 else 0
    if affordable >= rows:
        return rows
    return affordable if affordable >= _MIN_ROWS else 0


def _time_of_fit(estimator: Any, sample: Sample, rows: int) -> float:
    random = np.random.RandomState(0)
    some = sample.take(random.choice(len(sample.target), rows, replace=False))
    copy = seeded(for_targets(estimator, sample.n_outputs), random)
    start = time.monotonic()
    with one_thread():
        fit_subestimator(copy, *some)
    return time.monotonic() - start
