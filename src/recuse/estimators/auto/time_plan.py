"""Predicted times of the steps of a fit, from trial fits, and the number of folds that there is time for."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.models.out_of_bag import out_of_bag_prediction
from recuse.estimators.auto.race import sample_folds
from recuse.estimators.auto.time_budget import FitTime, TimeBudget, measured_time
from recuse.estimators.crossfitting import Sample
from recuse.losses import TargetLoss
from recuse.tabular.folds import Split, folds_of
from recuse.tabular.rows import Rows
from recuse.threads import one_thread

_SELECTED = 0.5  # share of the time of all regressors that the selected ones take
_WEIGHTED = 0.75  # time of a weighted variant, relative to its learner; only those of selected regressors are tried
_RISK_SHARE = 0.25  # share of the remaining time for risk models that take longer
_CLOSING_SHARE = 0.03  # share of the limit for the corrections and the report
_CELLS = 40_000  # from this many cells on, the time of a forest is proportional to the rows
_FOLDS = (5, 3)  # numbers of folds where the time is too short for more
# with fewer rows, more folds gain more than the slowest regressors, so that share of them does not count
_MIN_ROWS, _SLOWEST = 2_000, 0.3


@dataclass(frozen=True)
class Forecast:
    """Predicted seconds of the steps of a fit.

    Attributes
    ----------
    regressors, risks : mapping of str to FitTime
    weighted : frozenset of str
        Names of the regressors that have a weighted variant.
    blend : float
        Seconds of one set of weights of the blend; there is one for each fold and one for all rows.
    closing : float
        Seconds of the corrections and the report.
    rows : int
    processes : int
    """

    regressors: Mapping[str, FitTime]
    risks: Mapping[str, FitTime]
    weighted: frozenset[str] = frozenset()
    blend: float = 0.0
    closing: float = 0.0
    rows: int = 1
    processes: int = 1

    @classmethod
    def measure(
        cls,
        learners: Mapping[str, Learner],
        weighted: Mapping[str, Learner],
        risk_models: Mapping[str, Learner],
        sample: Sample,
        loss: TargetLoss,
        budget: TimeBudget,
        encoding: float,
        n_jobs: int | None,
    ) -> Forecast:
        """Measure trial fits to some of the rows.

        Parameters
        ----------
        learners, weighted, risk_models : mapping of str to Learner
        sample : Sample
        loss : TargetLoss
        budget : TimeBudget
        encoding : float
            Seconds that encoding the rows took.
        n_jobs : int, optional
        """
        rows, left = len(sample.target), budget.until(1.0)
        errors = np.square(sample.target - sample.target.mean(axis=0)).reshape(rows, -1).mean(axis=1)
        residuals = sample._replace(target=errors / (errors.mean() or 1.0))

        def times(of: Mapping[str, Learner], rows_of: Sample, seconds: float) -> dict[str, FitTime]:
            return {
                name: measured_time(learner.build(rows, loss), learner.growth, rows_of, rows, seconds)
                for name, learner in of.items()
                if learner.suits(rows_of, loss)
            }

        return cls(
            times(learners, sample, left / max(len(learners), 1)),
            times(risk_models, residuals, left / 10),
            frozenset(weighted),
            _time_of_blend(residuals),
            _CLOSING_SHARE * budget.limit + 2 * encoding,
            rows,
            int(effective_n_jobs(n_jobs)),
        )

    def after_regressors(self, folds: int, left: float) -> float:
        """Return the seconds of the blend, the risk models and the last steps, given those that are left.

        If the risk models take more than a quarter of the time, they are fitted to fewer rows or left out.
        """
        risks = [self._rounds(folds + 1) * timing.of(self.rows) for timing in self.risks.values()]
        return (
            min(sum(risks), max(_RISK_SHARE * left, min(risks, default=0.0))) + (folds + 1) * self.blend + self.closing
        )

    def total(self, folds: int, repeats: int, left: float, *, last_fits: bool) -> float:
        """Return the seconds of a fit with this number of folds in each of several divisions of the rows.

        Not all regressors are fitted to more than a sample of the folds; those that are selected are assumed to take
        half of the time that all would take. In one division of a small table, the slowest regressors do not count:
        if the time is too short for all, the least useful ones are left out later.

        Parameters
        ----------
        folds, repeats : int
        left : float
            Seconds that are left.
        last_fits : bool
            Whether the regressors are also fitted to all rows.
        """
        rows, sample = round(self.rows * (1 - 1 / folds)), sample_folds(folds)
        rounds = self._rounds(sample) + _SELECTED * self._rounds(folds - sample)
        each = {
            name: repeats * rounds * timing.of(rows) + (_SELECTED * timing.of(self.rows) if last_fits else 0.0)
            for name, timing in self.regressors.items()
        }
        counted = len(each) - (int(_SLOWEST * len(each)) if repeats == 1 and self.rows < _MIN_ROWS else 0)
        planned = dict(sorted(each.items(), key=lambda item: item[1])[:counted])
        weighted = sum(_WEIGHTED * seconds for name, seconds in planned.items() if name in self.weighted)
        return sum(planned.values()) + weighted + self.after_regressors(folds, left)

    def _rounds(self, fits: int) -> int:
        return math.ceil(fits / self.processes)


def fewer_folds(forecast: Forecast, folds: int, repeats: int, left: float, *, last_fits: bool) -> tuple[int, int]:
    """Return the largest number of folds, and of divisions of the rows, that there is time for.

    With fewer folds, all rows still have out-of-fold predictions, by models of fewer rows.

    Examples
    --------
    >>> forecast = Forecast({"a": FitTime(1.0, rows=100, growth=0.0)}, {"b": FitTime(0.0, 100, 1.0)}, rows=100)
    >>> [fewer_folds(forecast, 8, 2, seconds, last_fits=True) for seconds in (12, 11, 5, 1)]
    [(8, 2), (8, 1), (5, 1), (3, 1)]
    """
    options: Sequence[tuple[int, int]] = [(folds, repeats), (folds, 1), *((few, 1) for few in _FOLDS if few < folds)]
    for option in options:
        if forecast.total(*option, left, last_fits=last_fits) <= left:
            return option
    return options[-1]


def divisions_in_time(
    divisions: list[list[Split]],
    rows: Rows,
    forecast: Forecast,
    left: float,
    last_fits: bool,
    random: np.random.RandomState,
) -> list[list[Split]]:
    """Return the divisions of the rows, or if the time is too short for them, fewer or with fewer folds."""
    given = len(divisions[0]), len(divisions)
    folds, repeats = fewer_folds(forecast, *given, left, last_fits=last_fits)
    return divisions[:repeats] if folds == given[0] else [folds_of(rows, folds, random)]


def _time_of_blend(residuals: Sample) -> float:
    """Predict the seconds of a forest of all rows, from one of a quarter of them."""
    rows, random = len(residuals.target), np.random.RandomState(0)
    some = residuals.take(random.choice(rows, rows // 4 + 2, replace=rows < 4))
    start = time.monotonic()
    with one_thread():
        out_of_bag_prediction(*some, 5, random)
    growth = 1 + 3 * min(1.0, residuals.inputs.size / _CELLS)  # most of the time of a small table is overhead
    return growth * (time.monotonic() - start)
