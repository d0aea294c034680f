"""Candidates of AutoRejector, fitted or left out, and the fits of the risk models within the time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.time_budget import FitTime, OutOfTime, TimeBudget, measured_time
from recuse.estimators.crossfitting import Sample
from recuse.losses import TargetLoss

Fitted = TypeVar("Fitted")
Fit = Callable[[Any, Sample, int | None], Fitted]  # fits an estimator to a sample, with a maximum number of rows

_MIN_ROWS = 200  # a fit to fewer rows of a larger table is useless
_FEWEST_ROWS = 50  # fewest rows of the last resort, for a table with many columns
_LAST_RESORT_ROWS = 500  # the fastest learner is fitted to these rows if there was no time for any


@dataclass(frozen=True)
class Setting:
    """Settings that all trials of a fit share.

    Attributes
    ----------
    rows : int
        Number of rows of the last fit, which uses all rows.
    fits : int
        Number of fits of one candidate: one for each fold, and the last one to all rows.
    loss : TargetLoss
    budget : TimeBudget
    n_jobs : int, optional
    """

    rows: int
    fits: int
    loss: TargetLoss
    budget: TimeBudget
    n_jobs: int | None

    @property
    def rounds(self) -> int:
        """Number of fits of one candidate that run one after another."""
        return math.ceil(self.fits / int(effective_n_jobs(self.n_jobs)))


@dataclass(frozen=True)
class Trial(Generic[Fitted]):
    """One candidate, fitted or left out.

    Attributes
    ----------
    name : str
    fitted : CrossFitted, CrossFittedRisk or None
        None if it was left out.
    rows : int
        Maximum number of rows that a model was fitted to.
    most_rows : int or None
        The limit of the number of rows, if there was one.
    seconds : float
    note : str
        Why it was left out, or not fitted to all rows.
    last_fit : float
        Predicted seconds of a fit to all rows, where the time is limited.
    """

    name: str
    fitted: Fitted | None = None
    rows: int = 0
    seconds: float = 0.0
    note: str = ""
    most_rows: int | None = None
    last_fit: float = 0.0


def suited(learners: Mapping[str, Learner], sample: Sample, loss: TargetLoss) -> tuple[list[Trial[Any]], list[str]]:
    """Return trials of the candidates that do not suit the rows or the loss, and the names of the others.

    Raises
    ------
    ValueError
        If no candidate suits them.
    """
    names = [name for name, learner in learners.items() if learner.suits(sample, loss)]
    if not names:
        raise ValueError(
            f"at least one learner must suit {len(sample.target)} rows of {sample.inputs.shape[1]} features, this "
            f"target and the {loss.name} loss, got none among {list(learners)}: pass other learners"
        )
    note = "left out: not for this many rows or columns, this target or this loss"
    return [Trial(name, note=note) for name in learners if name not in names], names


def run_trials(
    learners: Mapping[str, Learner],
    sample: Sample,
    fit: Fit[Fitted],
    setting: Setting,
    *,
    reserve: float = 0.0,
    timings: Mapping[str, FitTime] | None = None,
    interrupts: Interrupts | None = None,
    report: Callable[[str, str], None] = lambda running, leading: None,
) -> list[Trial[Fitted]]:
    """Fit all candidates, each within the time that the later ones are predicted to leave, or else an equal share.

    If the time is predicted to be too short for all, the fastest ones come first.

    Parameters
    ----------
    learners : mapping of str to Learner
    sample : Sample
    fit : callable
    setting : Setting
    reserve : float
        Seconds for later steps.
    timings : mapping of str to FitTime, optional
        Predicted times of the fits, by the name of the candidate; others are measured.
    interrupts : Interrupts, optional
        After an interrupt, the trials end as soon as one candidate is fitted.
    report : callable
        Called with the name of the candidate that runs, and an empty text.

    Raises
    ------
    ValueError
        If no candidate suits the number of rows and the loss.
    """
    trials, names = suited(learners, sample, setting.loss)
    tried: list[Trial[Fitted]] = []
    stop = Interrupts("raise") if interrupts is None else interrupts
    known = {} if timings is None else timings
    if all(name in known for name in names):
        predicted = {name: setting.rounds * known[name].of(setting.rows) for name in names}
        if sum(predicted.values()) > setting.budget.until(1.0) - reserve:
            names = sorted(names, key=lambda name: predicted[name])
    for turn, name in enumerate(names):
        left, later = setting.budget.until(1.0) - reserve, names[turn + 1 :]
        seconds = left / (1 + len(later))
        if all(other in known for other in later):
            seconds = max(seconds, left - setting.rounds * sum(known[other].of(setting.rows) for other in later))
        report(name, "")
        try:
            if stop.seen and any(trial.fitted for trial in tried):
                tried.append(Trial(name, note="left out: interrupted"))
            else:
                tried.append(_try(name, learners[name], sample, fit, setting, seconds, known.get(name)))
        except OutOfTime:
            tried.append(Trial(name, note="left out: no time"))
        except KeyboardInterrupt:
            if not stop.goes_on():
                raise
            tried.append(Trial(name, note="left out: interrupted"))
    if not any(trial.fitted for trial in tried):
        time_of = {trial.name: trial.seconds for trial in tried}
        if all(name in known for name in names):
            time_of = {name: known[name].of(setting.rows) for name in names}
        place = min(range(len(tried)), key=lambda each: time_of[tried[each].name])
        name = tried[place].name
        left = setting.budget.until(1.0) - reserve
        tried[place] = _try(name, learners[name], sample, fit, setting, left, known.get(name), last_resort=True)
    order = list(learners)
    return [*trials, *sorted(tried, key=lambda trial: order.index(trial.name))]


def _try(
    name: str,
    learner: Learner,
    sample: Sample,
    fit: Fit[Fitted],
    setting: Setting,
    seconds: float,
    timing: FitTime | None = None,
    *,
    last_resort: bool = False,
) -> Trial[Fitted]:
    start, rows = time.monotonic(), setting.rows
    estimator = learner.build(rows, setting.loss)
    if last_resort:
        rows = min(setting.rows, _LAST_RESORT_ROWS)
        if timing is not None:
            rows = min(rows, max(timing.affordable(seconds / setting.rounds, rows), _FEWEST_ROWS))
    elif setting.budget.limited:
        each = seconds / setting.rounds
        timing = timing or measured_time(estimator, learner.growth, sample, rows, each)
        rows = timing.affordable(each, rows)
        rows = rows if rows == setting.rows or rows >= _MIN_ROWS else 0
    if rows == 0:
        return Trial(name, seconds=time.monotonic() - start, note="left out: no time")
    most = None if rows == setting.rows else rows
    fitted = fit(estimator, sample, most)
    note = "" if most is None else f"fitted to {rows} of {setting.rows} rows, for lack of time"
    taken = time.monotonic() - start
    return Trial(name, fitted, rows, taken, note, most, taken / max(setting.rounds - 1, 1))


def used_trials(trials: list[Trial[Fitted]], weights: NDArray[np.float64]) -> list[Trial[Fitted]]:
    """Return the trials with a weight > 0; `weights` are those of the fitted ones."""
    fitted = [trial for trial in trials if trial.fitted is not None]
    return [trial for trial, weight in zip(fitted, weights, strict=True) if weight > 0]


def missing_parts(trials: list[Trial[Any]], folds: int, all_folds: int) -> str:
    """Name the models that were not finished, and the folds that were not used."""
    names = [trial.name for trial in trials if trial.note == "left out: interrupted"]
    parts = [", ".join(names)] if names else []
    if folds < all_folds:
        parts.append(f"{all_folds - folds} of {all_folds} folds")
    return " and ".join(parts) or "nothing"
