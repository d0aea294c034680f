"""Trials: learners, rows and a clock in, what was cross-fitted and a note on each out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.time_budget import Clock, affordable_rows
from recuse.estimators.subestimators import Sample, answers, fit_part, for_targets, seeded
from recuse.losses import TargetLoss
from recuse.tabular.folds import Split

__all__ = ["Setting", "Trial", "cross_fit", "fit_to_all", "run_trials"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_FEWEST_ROWS = 500  # what one learner is fitted to if there is no time for anything


@dataclass(frozen=True)
class Setting:
    """What all trials of one fit have in common.

    Attributes
    ----------
    splits : sequence of (train, test)
        With every row in one test part.
    loss : TargetLoss
    random : RandomState
    clock : Clock
    n_jobs : int, optional
    on_fit : callable
        Told of each fit that is done.
    """

    splits: Sequence[Split]
    loss: TargetLoss
    random: np.random.RandomState
    clock: Clock
    n_jobs: int | None
    on_fit: Callable[[], None]

    @property
    def rows(self) -> int:
        """Rows of the largest training part."""
        return max(len(train) for train, _ in self.splits)

    @property
    def rounds(self) -> int:
        """Fits that run one after another when every fold has its turn."""
        return int(np.ceil(len(self.splits) / effective_n_jobs(self.n_jobs)))


@dataclass(frozen=True)
class Trial:
    """One learner, cross-fitted or left out.

    Attributes
    ----------
    name : str
    said : ndarray of shape (row,) or (row, output)
        About each row, by the model that has not seen it.
    models : tuple
        One for each fold; none if it was left out.
    part : estimator, optional
        Unfitted.
    rows : int
        Rows that each model was fitted to, at most.
    seconds : float
    note : str
        Why it was left out, or not fitted to all rows.
    """

    name: str
    said: Floats
    models: tuple[Any, ...] = ()
    part: Any = None
    rows: int = 0
    seconds: float = 0.0
    note: str = ""

    @property
    def tried(self) -> bool:
        """Whether there is a result."""
        return bool(self.models)


def run_trials(learners: Mapping[str, Learner], sample: Sample, setting: Setting, until: float) -> list[Trial]:
    """Cross-fit one learner after the other, each in its share of the time that is left.

    Parameters
    ----------
    learners : mapping of str to Learner
    sample : tuple (inputs, targets, weights)
    setting : Setting
    until : float
        Share of the time limit that may be over when all are done.
    """
    suited = [name for name, learner in learners.items() if learner.suits(setting.rows, setting.loss)]
    trials = [_left_out(name, sample, "not for this many rows or this loss") for name in learners if name not in suited]
    for turn, name in enumerate(suited):
        share = setting.clock.until(until) / (len(suited) - turn)
        last_resort = turn == len(suited) - 1 and not any(trial.tried for trial in trials)
        trials.append(_try(name, learners[name], sample, setting, share, last_resort=last_resort))
    return trials


def _try(name: str, learner: Learner, sample: Sample, setting: Setting, seconds: float, *, last_resort: bool) -> Trial:
    start, rows = time.monotonic(), setting.rows
    part = learner.build(rows, setting.loss)
    if setting.clock.ticks:
        rows = affordable_rows(part, learner.growth, sample, setting.rounds, rows, seconds)
    if rows == 0 and last_resort:
        rows = min(setting.rows, _FEWEST_ROWS)
    if rows == 0:
        return _left_out(name, sample, "no time", time.monotonic() - start)
    said, models = cross_fit(part, sample, setting, rows)
    note = "" if rows == setting.rows else f"fitted to {rows} of {setting.rows} rows, for lack of time"
    return Trial(name, said, models, part, rows, time.monotonic() - start, note)


def _left_out(name: str, sample: Sample, why: str, seconds: float = 0.0) -> Trial:
    return Trial(name, np.full_like(sample[1], np.nan), seconds=seconds, note=f"left out: {why}")


def cross_fit(part: Any, sample: Sample, setting: Setting, most_rows: int) -> tuple[Floats, tuple[Any, ...]]:
    """Fit a copy of the part without each fold and ask it about that fold.

    Returns
    -------
    said : ndarray of shape (row,) or (row, output)
    models : tuple
    """
    target = sample[1]
    whole = for_targets(part, _outputs(target))
    work = [
        (seeded(whole, setting.random), _drawn(train, most_rows, setting.random), test)
        for train, test in setting.splits
    ]
    fits = (delayed(_fit_and_ask)(copy, sample, train, test) for copy, train, test in work)
    said, models = np.empty_like(target), []
    finished = Parallel(n_jobs=setting.n_jobs, return_as="generator")(fits)
    for (model, answer), (_, _, test) in zip(finished, work, strict=True):
        said[test] = answer
        models.append(model)
        setting.on_fit()
    return said, tuple(models)


def fit_to_all(trial: Trial, sample: Sample, setting: Setting) -> Any:
    """Fit one more copy of what was tried, to the rows of all folds, as many as it could take."""
    inputs, target, weight = sample
    copy = seeded(for_targets(trial.part, _outputs(target)), setting.random)
    everything = np.arange(len(target))
    rows = everything if trial.rows == setting.rows else _drawn(everything, trial.rows, setting.random)
    return fit_part(copy, inputs[rows], target[rows], weight[rows])


def _drawn(rows: Indices, most: int, random: np.random.RandomState) -> Indices:
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def _fit_and_ask(part: Any, sample: Sample, train: Indices, test: Indices) -> tuple[Any, Floats]:
    inputs, target, weight = sample
    model = fit_part(part, inputs[train], target[train], weight[train])
    return model, answers([model], inputs[test], _outputs(target)).prediction


def _outputs(target: Floats) -> int:
    return 1 if target.ndim == 1 else target.shape[1]
