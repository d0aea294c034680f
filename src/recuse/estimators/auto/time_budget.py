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

_FEWEST_ROWS = 200  # a fit to fewer is useless, unless there are no more
_SMALL_TRIAL, _LARGE_TRIAL = 2_000, 8_000
_MARGIN = 0.7  # times are extrapolated


class TimeBudget:
    """Seconds since it was created, against a limit; None is no limit.

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
        """Seconds left until that share of the limit is used; negative afterwards."""
        return self._start + share * self._limit - time.monotonic()

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._limit < math.inf


def affordable_rows(estimator: Any, growth: float, sample: Sample, rounds: float, rows: int, seconds: float) -> int:
    """Estimate how many rows an estimator can be fitted to in so many seconds; 0 if they are too few.

    Two small fits show how its time grows with the rows.

    Parameters
    ----------
    estimator : estimator
    growth : float
        Apart from a constant, the time grows like this power of the number of rows.
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
    return affordable if affordable >= _FEWEST_ROWS else 0


def _time_of_fit(estimator: Any, sample: Sample, rows: int) -> float:
    random = np.random.RandomState(0)
    some = sample.take(random.choice(len(sample.target), rows, replace=False))
    copy = seeded(for_targets(estimator, sample.n_outputs), random)
    start = time.monotonic()
    with one_thread():
        fit_subestimator(copy, *some)
    return time.monotonic() - start
