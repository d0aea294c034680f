"""The steps of a fit of AutoRejector, on rows, folds and settings that they share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.blending import BlendPrediction, blend_regressors
from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.models.out_of_bag import out_of_bag_prediction
from recuse.estimators.auto.race import Race, RaceResult
from recuse.estimators.auto.time_budget import OutOfTime, TimeBudget, measured_time
from recuse.estimators.auto.trials import Setting, Trial, run_trials
from recuse.estimators.crossfitting import CrossFitted, FoldFits, RepeatedFits, Sample, refit
from recuse.estimators.risk.model import CrossFittedRisk, learn_risk, refit_risks
from recuse.losses import TargetLoss
from recuse.progress import Report
from recuse.tabular.folds import Split
from recuse.tabular.rows import Rows
from recuse.threads import one_thread

__all__ = ["FitProgress", "FitSteps"]

Floats = NDArray[np.float64]


class FitProgress:
    """Counts the fits and shows what is running; `encoding` and the like are not counted."""

    def __init__(self, show: Report) -> None:
        self._show, self._done = show, 0

    def on_fit(self) -> None:
        """Count a fit."""
        self._done += 1
        self._show(self._done)

    def name(self, running: str, leading: str = "") -> None:
        """Show the name of the model that runs, and of the one that leads."""
        self._show(self._done, f"fitting {running}" + (f", {leading} leads" if leading else ""))


@dataclass(frozen=True)
class FitSteps:
    """The rows and settings that all steps of one fit share."""

    rows: Rows
    features: Floats
    divisions: list[list[Split]]
    budget: TimeBudget
    random: np.random.RandomState
    processes: int | None
    loss: TargetLoss
    progress: FitProgress
    interrupts: Interrupts
    encoding: float
    ready: list[str] = field(default_factory=list)  # one entry for each fit of a regressor

    @property
    def sample(self) -> Sample:
        """The features, targets and weights of all rows."""
        return Sample(self.features, self.rows.y, self.rows.weight)

    @property
    def n_jobs(self) -> int | None:
        """Number of processes; one after an interrupt, which may have ended the others."""
        return None if self.interrupts.seen else self.processes

    def _setting(self, n_rows: int, folds: int) -> Setting:
        return Setting(n_rows, folds + 1, self.loss, self.budget, self.n_jobs)

    def try_regressors(
        self, learners: dict[str, Learner], weighted: dict[str, Learner], risk_models: dict[str, Learner]
    ) -> RaceResult:
        """Cross-fit the regressors."""
        race = Race(
            self._start,
            self.sample,
            len(self.divisions[0]),
            self.loss,
            self.budget,
            self._reserve(risk_models) if self.budget.limited else 0.0,
            self.n_jobs,
            self.interrupts,
            self.progress.name,
        )
        return race.run(learners, weighted)

    def _start(self, estimator: Any, most: int | None) -> FoldFits | RepeatedFits:
        fits = [
            FoldFits(
                estimator,
                self.sample,
                splits,
                self.random,
                n_jobs=self.n_jobs,
                most_rows=most,
                on_fit=self._on_regressor,
            )
            for splits in self.divisions
        ]
        return fits[0] if len(fits) == 1 else RepeatedFits(fits)

    def _on_regressor(self) -> None:
        """Count a fit; stop after it if the time for the regressors is over and there is a model."""
        self.progress.on_fit()
        self.ready.append("fit")
        if len(self.ready) > 2 and self.budget.until(0.75) < 0:
            raise OutOfTime

    def _reserve(self, risk_models: dict[str, Learner]) -> float:
        """Predict the seconds of the steps after the regressors, from fits to some of the rows."""
        loss = np.square(self.rows.y - self.rows.y.mean(axis=0)).reshape(len(self.rows), -1).mean(axis=1)
        sample, folds, left = self.sample._replace(target=loss), len(self.divisions[0]), self.budget.until(1.0)
        setting = self._setting(len(self.rows), folds)
        risks = [
            setting.rounds
            * measured_time(
                learner.build(len(self.rows), self.loss), learner.growth, sample, len(self.rows), left / 10
            ).of(len(self.rows))
            for learner in risk_models.values()
        ]
        some, start = (
            self.random.choice(len(self.rows), len(self.rows) // 4 + 2, replace=len(self.rows) < 4),
            time.monotonic(),
        )
        with one_thread():
            out_of_bag_prediction(
                self.features[some], loss[some] / (loss.mean() or 1.0), self.rows.weight[some], 5, self.random
            )
        growth = 1 + 3 * min(1.0, len(self.rows) / 5000)  # to all rows; of few rows, most of the time is overhead
        blend = growth * (folds + 1) * (time.monotonic() - start)
        return min(sum(risks), max(0.25 * left, min(risks))) + blend + self._closing

    @property
    def _closing(self) -> float:
        """Seconds for the corrections and the report."""
        return 0.03 * self.budget.limit + 2 * self.encoding

    def blend(
        self, trials: list[Trial[CrossFitted]], splits: list[Split], inputs: Floats
    ) -> tuple[Floats, BlendPrediction]:
        """Return the weights of the regressors, and the out-of-fold predictions."""
        self.progress.name("the blend")
        fitted = [trial.fitted for trial in trials if trial.fitted is not None]
        with one_thread():
            return blend_regressors(fitted, self.rows, inputs, [test for _, test in splits], self.loss, self.random)

    def try_risk_models(
        self, learners: dict[str, Learner], residuals: Sample, folds: list[Split], last_fits: float
    ) -> list[Trial[CrossFittedRisk]]:
        """Cross-fit the risk models to the out-of-fold errors; `last_fits` are the seconds of the last regressors."""
        reserve = last_fits + self._closing if self.budget.limited else 0.0
        done: list[CrossFittedRisk] = []

        def on_fit() -> None:
            self.progress.on_fit()
            if done and self.budget.until(1.0) < reserve:
                raise OutOfTime

        def fit(part: Any, sample: Sample, most: int | None) -> CrossFittedRisk:
            done.append(learn_risk(part, sample, folds, self.random, self.n_jobs, most_rows=most, on_fit=on_fit))
            return done[-1]

        return run_trials(
            learners,
            residuals,
            fit,
            self._setting(len(residuals.target), len(folds)),
            reserve=reserve,
            interrupts=self.interrupts,
            report=lambda running, leading: self.progress.name(f"risk model {running}"),
        )

    def refit_regressors(self, trials: list[Trial[CrossFitted]]) -> list[Any]:
        """Fit regressors to all rows, or to as many as in their trials."""
        chosen = [(trial.fitted.estimator, trial.most_rows) for trial in trials if trial.fitted]
        return refit(chosen, self.sample, self.random, n_jobs=self.n_jobs, on_fit=self.progress.on_fit)

    def refit_risks(self, trials: list[Trial[CrossFittedRisk]], residuals: Sample) -> list[CrossFittedRisk]:
        """Fit risk models to all out-of-fold errors, or to as many as in their trials."""
        chosen = [(trial.fitted, trial.most_rows) for trial in trials if trial.fitted]
        return refit_risks(chosen, residuals, self.random, self.n_jobs, on_fit=self.progress.on_fit)
