"""Cross-fitting of the regressors of AutoRejector, with early elimination and within the time limit.

Every regressor is first fitted to a sample of the folds. From 2,000 rows on, errors count there by how likely a row is
accepted, as in the blend later. Regressors with hardly any weight in a blend on these folds are left out, with many
rows also those that the blend hardly needs, and the others are fitted to the other folds. Where the time is too short
for all of them, those are left out that improve the blend the least for the time they take. So the sample of folds is
both the selection and the measurement of the time. With enough time, the fits are the same as without a limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.comparison import Comparison
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.time_budget import FitTime, OutOfTime, TimeBudget, measured_time
from recuse.estimators.auto.trials import Trial, suited
from recuse.estimators.crossfitting import CrossFitted, FoldFits, RepeatedFits, Sample
from recuse.losses import TargetLoss

Floats = NDArray[np.float64]

_SAMPLE = 0.4  # share of the folds that regressors are selected on
_MIN_ROWS, _MIN_SHARE = 2000, 0.3  # a fit to fewer rows of a larger table, or to a smaller share, is worse than none
_NEGLIGIBLE = 0.02  # weight in a blend of all, below which a regressor is left out
_NEEDED = 0.002  # relative increase of the loss of the blend without a regressor, below which it is left out
_MIN_ROWS_NEEDED = 2000  # with fewer rows, such differences on a sample of the folds are mostly luck
_MARGIN = 0.95  # share of the remaining time that is planned
_NO_TIME = "left out: no time"
_SAFE = 0.5  # share of the time that a stack of folds may be predicted to take without a fit of one fold before


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
    folds: int
    fits: FoldFits | RepeatedFits
    rows: int
    timing: FitTime | None = None  # measured by trial fits, where the time is limited
    most_rows: int | None = None
    spent: float = 0.0
    per_round: float = 0.0  # seconds of the fits that run at the same time, predicted or measured
    note: str = ""
    late: bool = False

    @property
    def done(self) -> int:
        """Number of folds with a model."""
        return self.folds - len(self.fits.missing)

    @property
    def runs(self) -> bool:
        return self.done > 0 and not self.note.startswith("left out")


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
    comparison : Comparison
    reserve : float
        Seconds for all later steps but the last fits of the regressors.
    last_fits : bool
        Whether time for the last fits of the regressors, to all rows, is reserved too.
    timings : mapping of str to FitTime
        Predicted times of the fits, by the name of the regressor; others are measured.
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
    comparison: Comparison
    reserve: float = 0.0
    last_fits: bool = True
    timings: Mapping[str, FitTime] = field(default_factory=dict)
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
        left_out, names = suited(learners, self.sample, self.loss)
        interrupted = False
        try:
            self._select({name: learners[name] for name in names})
            selected = [entrant.name for entrant in self.entrants if entrant.runs and entrant.name in weighted]
            if selected:
                self._select({f"{name}_weighted": weighted[name] for name in selected})
            if len(self.sample.target) >= _MIN_ROWS_NEEDED:
                self._drop_unneeded()
            self._complete()
        except KeyboardInterrupt:
            interrupted = True
            if not any(entrant.done >= 2 for entrant in self.entrants) or not self.interrupts.goes_on():
                raise
        return self._result(left_out, interrupted=interrupted)

    def _select(self, learners: Mapping[str, Learner]) -> None:
        """Fit regressors to the sample of folds, then drop those without a weight."""
        rows, count = len(self.sample.target), sample_folds(self.folds)
        # all random choices are made here, so they do not depend on the order of the fits
        new = [
            _Entrant(name, learner, self.folds, self.start(learner.build(rows, self.loss), None), rows)
            for name, learner in learners.items()
        ]
        self.entrants += new
        if self.budget.limited:
            self._select_in_time(new, count)
        else:
            for entrant in new:
                self._fit(entrant, range(count))
        self._drop_needless()

    def _select_in_time(self, entrants: Sequence[_Entrant], count: int) -> None:
        """Fit regressors to the sample of folds, the fastest first, and leave out those that there is no time for."""
        for entrant in entrants:
            self._predict_time(entrant, len(entrants))
        for turn, entrant in enumerate(sorted(entrants, key=lambda entrant: entrant.per_round)):
            needed = not any(other.done >= 2 for other in self.entrants)  # there must be a model
            if not self._fit_into_time(entrant, len(entrants) - turn, needed=needed):
                entrant.note = _NO_TIME
                continue
            together = entrant.fits.together and self._seconds(entrant, count) < _SAFE * self._left()
            self._fit(entrant, range(count if together else min(count, self._processes)))
            if needed or (not entrant.late and self._fits_beside_leader(entrant)):
                self._fit(entrant, entrant.fits.missing[: max(count - entrant.done, 0)])
            if entrant.done < count:
                entrant.note = _NO_TIME

    def _predict_time(self, entrant: _Entrant, entrants: int) -> None:
        """Set the predicted time of a fit, by trial fits where it is not known."""
        timing = self.timings.get(entrant.name)
        if timing is None:
            estimator, growth = entrant.learner.build(entrant.rows, self.loss), entrant.learner.growth
            timing = measured_time(estimator, growth, self.sample, entrant.rows, self._left() / entrants)
        entrant.spent, entrant.timing = timing.trials, timing
        entrant.per_round = self._predicted(entrant, self._training_rows(entrant.rows))

    def _fit_into_time(self, entrant: _Entrant, remaining: int, *, needed: bool) -> bool:
        """Set the number of rows that there is time to fit to in all folds; return False if it is too small."""
        assert entrant.timing is not None
        time_for_all = self._seconds(entrant) + (self._last_fit(entrant) if self.last_fits else 0.0)
        left = self._left() - self._completing(time_for_all)
        if time_for_all <= left:
            return True
        if entrant.rows < _MIN_ROWS:
            return needed or self._fits_beside_leader(entrant)
        fits = max(time_for_all, 1e-9) / max(entrant.per_round, 1e-9)  # one after another
        of_fold = entrant.timing.affordable(left / remaining / fits / entrant.fits.repeats, entrant.rows)
        rows = entrant.rows if of_fold >= self._training_rows(entrant.rows) else of_fold
        rows = min(max(rows, _MIN_ROWS), entrant.rows) if needed else rows
        if rows < max(_MIN_ROWS, _MIN_SHARE * entrant.rows) and rows < entrant.rows and not needed:
            return False
        if rows < entrant.rows:
            entrant.note = f"fitted to {rows} of {entrant.rows} rows, for lack of time"
            entrant.fits = self.start(entrant.learner.build(entrant.rows, self.loss), rows)
            entrant.rows = entrant.most_rows = rows
            entrant.per_round = self._predicted(entrant, rows)
        return True

    def _fits_beside_leader(self, entrant: _Entrant) -> bool:
        """Whether there is time for all folds of a regressor and of the leading one, if all others were left out."""
        leader = next((other for other in self.entrants if other.runs and other.name == self._leader()), entrant)
        both = [entrant] if leader is entrant else [entrant, leader]
        return sum(self._seconds(each) for each in both) <= self._left(both)

    def _predicted(self, entrant: _Entrant, rows: int) -> float:
        assert entrant.timing is not None
        return entrant.fits.repeats * entrant.timing.of(rows)

    def _complete(self) -> None:
        """Fit the selected regressors to the other folds; if the time is too short, the most useful of them."""
        while True:
            chosen = self._affordable()
            entrant = next((entrant for entrant in chosen if entrant.fits.missing), None)
            if entrant is None:
                break
            missing = entrant.fits.missing
            if self.budget.limited and len(chosen) == 1:  # the last one: as many folds as possible
                rounds = self._left() / entrant.per_round if entrant.per_round > 0 else self.folds
                missing = missing[: max(int(rounds), 0) * self._processes]
            if not missing:
                break
            self._fit(entrant, missing)
        self._use_remaining_time()

    def _affordable(self) -> list[_Entrant]:
        """Leave out regressors until there is time for all folds of the others.

        The first to be left out is the one without which the loss of the blend rises the least, for the time it takes.
        """
        chosen = [entrant for entrant in self.entrants if entrant.runs and not (entrant.late and entrant.fits.missing)]
        while len(chosen) > 1 and sum(self._seconds(entrant) for entrant in chosen) > self._left(chosen):
            pending = [entrant for entrant in chosen if self._seconds(entrant) > 0]
            if not pending:
                break
            loss = self._blend_loss(chosen)
            rises = [
                self._blend_loss([other for other in chosen if other is not entrant]) - loss for entrant in pending
            ]
            prices = [rise / self._seconds(entrant) for rise, entrant in zip(rises, pending, strict=True)]
            chosen.remove(pending[int(np.argmin(prices))])
        return chosen

    def _use_remaining_time(self) -> None:
        """Fit regressors that were left out for lack of time, the fastest first, if there is time after all."""
        left_out = [entrant for entrant in self.entrants if entrant.note == _NO_TIME and not entrant.late]
        for entrant in sorted(left_out, key=lambda entrant: entrant.per_round):
            entrant.note = ""
            for folds in (self._processes, self.folds):  # the first fits show whether there is time for the others
                if self._seconds(entrant) + (self._last_fit(entrant) if self.last_fits else 0.0) <= self._left():
                    self._fit(entrant, entrant.fits.missing[:folds])
            if entrant.fits.missing:
                entrant.note = _NO_TIME

    def _completing(self, further: float) -> float:
        """Return the seconds of the missing folds; without time for further fits, only of regressors with a weight."""
        running = [entrant for entrant in self.entrants if entrant.runs and entrant.done >= 2]
        seconds = sum(self._seconds(entrant) for entrant in running)
        if seconds + further <= self._left() or len(running) < 2:
            return seconds
        weights = self.comparison.weights(self._predictions(running))
        pairs = zip(running, weights, strict=True)
        return sum(self._seconds(entrant) for entrant, weight in pairs if weight >= _NEGLIGIBLE)

    def _fit(self, entrant: _Entrant, folds: Sequence[int]) -> None:
        if not len(folds):
            return
        self.report(entrant.name, self._leader())
        start, before = time.monotonic(), entrant.done
        try:
            entrant.fits.fit(folds)
        except OutOfTime:
            entrant.late = True
        seconds = time.monotonic() - start
        entrant.spent += seconds
        entrant.per_round = seconds / self._rounds(max(entrant.done - before, 1))

    def _predictions(self, running: Sequence[_Entrant]) -> Floats:
        return np.array([entrant.fits.result().out_of_fold.mean for entrant in running])

    def _blend_loss(self, running: Sequence[_Entrant]) -> float:
        return self.comparison.loss_of_blend(self._predictions(running))

    def _drop_needless(self) -> None:
        """Leave out those with hardly any weight in a blend of all regressors, on the folds that all were fitted to."""
        running = [entrant for entrant in self.entrants if entrant.runs]
        if len(running) < 2:
            return
        predictions = self._predictions(running)
        self.comparison.emphasise(predictions)
        weights = self.comparison.weights(predictions)
        self._leave_out([entrant for entrant, weight in zip(running, weights, strict=True) if weight < _NEGLIGIBLE])

    def _drop_unneeded(self) -> None:
        """Leave out those without which the loss of the blend on these folds is hardly higher."""
        running = [entrant for entrant in self.entrants if entrant.runs]
        if len(running) < 2:
            return
        weights = self.comparison.sparse_weights(self._predictions(running), _NEEDED)
        self._leave_out([entrant for entrant, weight in zip(running, weights, strict=True) if weight == 0])

    def _leave_out(self, entrants: Sequence[_Entrant]) -> None:
        for entrant in entrants:
            entrant.note = f"left out: no weight on {entrant.done} of {self.folds} folds"

    def _result(self, left_out: list[Trial[CrossFitted]], *, interrupted: bool) -> RaceResult:
        """Keep the regressors of all folds, or else those with the most folds, and use the folds that they share."""
        running = [entrant for entrant in self.entrants if entrant.runs and entrant.done >= 2]
        most = max(entrant.done for entrant in running)
        if most == self.folds or not interrupted:
            running = [entrant for entrant in running if entrant.done == most]
        count = min(entrant.done for entrant in running)
        trials = []
        for entrant in self.entrants:
            kept = entrant in running
            fitted = entrant.fits.result(count) if kept else None
            reason = "interrupted" if interrupted else "no time"
            note = entrant.note if kept or entrant.note.startswith("left out") else f"left out: {reason}"
            last_fit = self._last_fit(entrant)
            trials.append(Trial(entrant.name, fitted, entrant.rows, entrant.spent, note, entrant.most_rows, last_fit))
        return RaceResult([*left_out, *trials], list(range(count)))

    def _leader(self) -> str:
        """Return the name of the regressor with the lowest loss on the folds so far."""
        losses = {}
        for entrant in self.entrants:
            if entrant.done:
                predicted = entrant.fits.result().out_of_fold.mean
                there = np.isfinite(predicted.reshape(len(predicted), -1)).all(axis=1)
                losses[entrant.name] = self.loss(predicted[there] - self.sample.target[there]).mean()
        return min(losses, key=lambda name: float(losses[name]), default="")

    def _left(self, kept: Sequence[_Entrant] | None = None) -> float:
        """Return the seconds for further folds: without the reserve and the last fits, by default of all that run."""
        if not self.budget.limited:
            return math.inf
        last = 0.0
        if self.last_fits:
            running = [entrant for entrant in self.entrants if entrant.runs] if kept is None else kept
            last = sum(self._last_fit(entrant) for entrant in running) / self._processes
        return _MARGIN * self.budget.until(1.0) - self.reserve - last

    def _seconds(self, entrant: _Entrant, folds: int | None = None) -> float:
        """Return the seconds of the fits of this number of folds, by default of the missing ones."""
        missing = len(entrant.fits.missing) if folds is None else folds
        return self._rounds(missing) * entrant.per_round if missing else 0.0

    def _rounds(self, folds: int) -> int:
        """Return the number of fits one after another; the processes also divide the folds of a stack."""
        return math.ceil(folds / self._processes)

    def _last_fit(self, entrant: _Entrant) -> float:
        """Predict the seconds of a fit to all rows."""
        more = 1.0 if entrant.most_rows is not None else entrant.rows / self._training_rows(entrant.rows)
        return more * entrant.per_round / entrant.fits.repeats

    def _training_rows(self, rows: int) -> int:
        return max(round(rows * (1 - 1 / self.folds)), 1)

    @property
    def _processes(self) -> int:
        return int(effective_n_jobs(self.n_jobs))
