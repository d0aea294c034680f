"""Cross-fitting of the regressors of AutoRejector, with early elimination and within the time limit.

Every regressor is first fitted to a sample of the folds. Regressors with hardly any weight in a blend on these folds
are left out, and the others are fitted to the other folds. Where the time is too short for all folds, fewer are
used. So the sample of folds is both the selection and the measurement of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.time_budget import FitTime, OutOfTime, TimeBudget, measured_time
from recuse.estimators.auto.trials import Trial, suited
from recuse.estimators.auto.weights import regressor_weights
from recuse.estimators.crossfitting import CrossFitted, FoldFits, RepeatedFits, Sample
from recuse.losses import TargetLoss

__all__ = ["Race", "RaceResult", "sample_folds"]

Floats = NDArray[np.float64]

_SAMPLE = 0.4  # share of the folds that regressors are selected on
_MIN_ROWS = 2000  # a fit to fewer rows of a larger table is worse than none
_TRIALS = 0.1  # share of the time for trial fits
_NEGLIGIBLE = 0.02  # weight in a blend of all, below which a regressor is left out
_MARGIN = 0.9  # share of the remaining time that is planned


def sample_folds(folds: int) -> int:
    """Return the number of folds that regressors are selected on; at least two, so that the risk can be cross-fitted.

    Examples
    --------
    >>> [sample_folds(folds) for folds in (2, 3, 5, 10)]
    [2, 2, 2, 4]
    """
    return min(folds, max(2, round(_SAMPLE * folds)))


@dataclass(frozen=True)
class RaceResult:
    """The regressors, and the folds that all those with models were fitted to."""

    trials: list[Trial[CrossFitted]]
    folds: list[int]


@dataclass
class _Entrant:
    """A regressor in the race."""

    name: str
    learner: Learner
    fits: FoldFits | RepeatedFits | None = None
    rows: int = 0
    most_rows: int | None = None
    spent: float = 0.0
    per_fit: float = 0.0  # seconds, predicted or measured
    timing: FitTime = field(default_factory=lambda: FitTime(0.0, 1, 1.0))  # of the trial fits
    note: str = ""
    late: bool = False

    @property
    def runs(self) -> bool:
        return self.fits is not None and not self.note.startswith("left out")


@dataclass
class Race:
    """Cross-fits regressors; `run` returns those that are worth it.

    Attributes
    ----------
    start : callable
        Function from an estimator and a maximum number of rows to its `FoldFits`.
    sample : Sample
    folds : int
    loss : TargetLoss
    budget : TimeBudget
    reserve : float
        Seconds for all later steps but the last fits of the regressors.
    n_jobs : int, optional
    interrupts : Interrupts
    report : callable
        Called with the name of the regressor that runs, and that of the leading one.
    """

    start: Callable[[Any, int | None], FoldFits | RepeatedFits]
    sample: Sample
    folds: int
    loss: TargetLoss
    budget: TimeBudget
    reserve: float = 0.0
    n_jobs: int | None = None
    interrupts: Interrupts = field(default_factory=lambda: Interrupts("raise"))
    report: Callable[[str, str], None] = lambda running, leading: None
    entrants: list[_Entrant] = field(default_factory=list)

    def run(self, learners: Mapping[str, Learner], weighted: Mapping[str, Learner]) -> RaceResult:
        """Select regressors on a sample of the folds, and fit these to all folds.

        Parameters
        ----------
        learners : mapping of str to Learner
        weighted : mapping of str to Learner
            Weighted variants, by the name of the learner; tried if that one is selected.
        """
        left_out, names = suited(learners, len(self.sample.target), self.loss)
        self.entrants = [_Entrant(name, learners[name]) for name in names]
        interrupted = False
        try:
            self._select(self.entrants)
            variants = [
                _Entrant(f"{entrant.name}_weighted", weighted[entrant.name])
                for entrant in self.entrants
                if entrant.runs and entrant.name in weighted
            ]
            if variants:
                self.entrants += variants
                self._select(variants)
            self._complete()
        except KeyboardInterrupt:
            interrupted = True
            if not any(self._done(entrant) >= 2 for entrant in self.entrants) or not self.interrupts.goes_on():
                raise
        return self._result(left_out, interrupted=interrupted)

    def _select(self, entrants: Sequence[_Entrant]) -> None:
        """Fit regressors to the sample of folds, the fastest first, then drop those without a weight."""
        for turn, entrant in enumerate(self._prepared(entrants)):
            count = sample_folds(self.folds)
            if self.budget.limited and not self._fit_into_time(entrant, len(entrants) - turn, count):
                entrant.note = "left out: no time"
                continue
            if entrant.fits is None:
                entrant.fits = self.start(self._build(entrant), entrant.most_rows)
            self._fit(entrant, range(1 if self.budget.limited else count))
            if not self.budget.limited or (not entrant.late and self._seconds(count - 1, entrant) <= self._left()):
                self._fit(entrant, entrant.fits.missing[: count - self._done(entrant)])
            elif any(self._done(other) == count for other in self.entrants):
                entrant.note = "left out: no time"
            else:  # the first regressor: there must be a model
                self._fit(entrant, entrant.fits.missing[: count - 1])
            if self._done(entrant) < 2:
                entrant.note = "left out: no time"
        self._drop_needless()

    def _prepared(self, entrants: Sequence[_Entrant]) -> Iterator[_Entrant]:
        """Yield the entrants: in the order given, or the fastest first if the time is limited."""
        for entrant in entrants:
            entrant.rows = len(self.sample.target)
        if not self.budget.limited:
            yield from entrants
            return
        seconds = self._left()
        for entrant in entrants:
            start = time.monotonic()
            available = _TRIALS * seconds / len(entrants)
            entrant.timing = measured_time(
                self._build(entrant), entrant.learner.growth, self.sample, entrant.rows, 10 * available
            )
            entrant.spent = time.monotonic() - start
        yield from sorted(entrants, key=lambda entrant: entrant.timing.of(entrant.rows))

    def _fit_into_time(self, entrant: _Entrant, remaining: int, count: int) -> bool:
        """Set the number of rows that can be fitted to in a fair share of the time; return False if it is too small."""
        timing = entrant.timing
        rounds = math.ceil(count / self._processes) + 1  # the sample of folds and the last fit
        left = self._left()
        first = not any(self._done(other) for other in self.entrants)
        allowed = left / rounds / (remaining if timing.of(entrant.rows) * rounds > left / remaining else 1)
        rows = timing.affordable(allowed, entrant.rows)
        if rows < entrant.rows:
            if rows < _MIN_ROWS and not first:
                return False
            rows = min(max(rows, _MIN_ROWS), entrant.rows)
            entrant.most_rows = None if rows == entrant.rows else rows
            if rows < entrant.rows:
                entrant.note = f"fitted to {rows} of {entrant.rows} rows, for lack of time"
        entrant.rows, entrant.per_fit = rows, timing.of(rows)
        return True

    def _complete(self) -> None:
        """Fit the selected regressors to the other folds, or to as many as there is time for."""
        running = [entrant for entrant in self.entrants if entrant.runs]
        for place, entrant in enumerate(running):
            missing = entrant.fits.missing if entrant.fits is not None and not entrant.late else []
            if self.budget.limited:
                later = sum(other.per_fit for other in running[place:])
                rounds = int(self._left() / later) if later > 0 else len(missing)
                missing = missing[: max(rounds, 0) * self._processes]
            if missing:
                self._fit(entrant, missing)

    def _fit(self, entrant: _Entrant, folds: Sequence[int]) -> None:
        if not len(folds) or entrant.fits is None:
            return
        self.report(entrant.name, self._leader())
        start, before = time.monotonic(), self._done(entrant)
        try:
            entrant.fits.fit(folds)
        except OutOfTime:
            entrant.late = True
        seconds = time.monotonic() - start
        entrant.spent += seconds
        entrant.per_fit = seconds / math.ceil(max(self._done(entrant) - before, 1) / self._processes)

    def _drop_needless(self) -> None:
        """Leave out those with hardly any weight in a blend of all regressors, on the folds that all were fitted to."""
        running = [entrant for entrant in self.entrants if entrant.runs]
        if len(running) < 2:
            return
        predictions = np.array([entrant.fits.result().out_of_fold.mean for entrant in running if entrant.fits])
        common = np.isfinite(predictions.reshape(len(running), len(self.sample.target), -1)).all(axis=(0, 2))
        weights = regressor_weights(
            predictions[:, common], self.sample.target[common], self.sample.weight[common], self.loss
        )
        for entrant, weight in zip(running, weights, strict=True):
            if weight < _NEGLIGIBLE:
                entrant.note = f"left out: no weight on {self._done(entrant)} of {self.folds} folds"

    def _result(self, left_out: list[Trial[CrossFitted]], *, interrupted: bool) -> RaceResult:
        """Keep the regressors with the most folds, and use the folds that all of these have."""
        running = [entrant for entrant in self.entrants if entrant.runs and self._done(entrant) >= 2]
        if interrupted and any(self._done(entrant) == self.folds for entrant in running):
            running = [entrant for entrant in running if self._done(entrant) == self.folds]
        count = min(self._done(entrant) for entrant in running)
        trials = []
        for entrant in self.entrants:
            kept = entrant in running
            fitted = entrant.fits.of_first(count) if kept and entrant.fits is not None else None
            reason = "interrupted" if interrupted else "no time"
            note = entrant.note if kept or entrant.note.startswith("left out") else f"left out: {reason}"
            trials.append(
                Trial(entrant.name, fitted, entrant.rows, entrant.spent, note, entrant.most_rows, entrant.per_fit)
            )
        return RaceResult([*left_out, *trials], list(range(count)))

    def _build(self, entrant: _Entrant) -> Any:
        return entrant.learner.build(len(self.sample.target), self.loss)

    def _done(self, entrant: _Entrant) -> int:
        return 0 if entrant.fits is None else self.folds - len(entrant.fits.missing)

    def _leader(self) -> str:
        """Return the name of the regressor with the lowest loss on the folds so far."""
        losses = {}
        for entrant in self.entrants:
            if entrant.fits is not None and self._done(entrant):
                predicted = entrant.fits.result().out_of_fold.mean
                there = np.isfinite(predicted.reshape(len(predicted), -1)).all(axis=1)
                losses[entrant.name] = self.loss.of_rows(predicted[there] - self.sample.target[there]).mean()
        return min(losses, key=lambda name: float(losses[name]), default="")

    def _left(self) -> float:
        """Return the seconds for further folds: without the reserve and the last fits of the regressors."""
        refits = sum(entrant.per_fit for entrant in self.entrants if entrant.runs) / self._processes
        return _MARGIN * (self.budget.until(1.0) - self.reserve) - refits

    def _seconds(self, fits: int, entrant: _Entrant) -> float:
        return math.ceil(fits / self._processes) * entrant.per_fit

    @property
    def _processes(self) -> int:
        return int(effective_n_jobs(self.n_jobs))
