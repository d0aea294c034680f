"""The steps of a fit of AutoRejector, on rows, folds and settings that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.blending import BlendPrediction, blend_regressors, likely_accepted
from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.comparison import Comparison, Emphasis
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.models.gaussian_process import with_scales_of
from recuse.estimators.auto.race import Race, RaceResult
from recuse.estimators.auto.time_budget import OutOfTime, TimeBudget
from recuse.estimators.auto.time_plan import Forecast
from recuse.estimators.auto.trials import Setting, Trial, run_trials
from recuse.estimators.crossfitting import CrossFitted, FoldFits, RepeatedFits, Sample, refit
from recuse.estimators.joint_fits import fits_together
from recuse.estimators.risk.model import CrossFittedRisk, learn_risk, refit_risks
from recuse.losses import TargetLoss
from recuse.progress import Report
from recuse.rules.risk import ScaledRisk
from recuse.tabular.folds import Split
from recuse.tabular.rows import Rows
from recuse.threads import one_thread

Floats = NDArray[np.float64]


_MIN_ROWS_EMPHASIS = 2_000  # with fewer rows, all count alike where regressors are selected on some folds
_MOST_RESERVED = 0.9  # share of the remaining time for the steps after the regressors


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
    forecast: Forecast | None = None  # where the time is limited
    last_fits: bool = True  # whether the models are fitted to all rows even if there is little time for it
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

    def try_regressors(self, learners: dict[str, Learner], weighted: dict[str, Learner]) -> RaceResult:
        """Cross-fit the regressors."""
        folds, reserve = len(self.divisions[0]), 0.0
        if self.forecast is not None:
            left = self.budget.until(1.0)
            reserve = min(self.forecast.after_regressors(folds, left), _MOST_RESERVED * left)
        race = Race(
            lambda estimator, most: self._start(estimator, most, reserve),
            self.sample,
            folds,
            self.loss,
            self.budget,
            Comparison(self.sample, self.loss, self._emphasis() if len(self.rows) >= _MIN_ROWS_EMPHASIS else None),
            reserve,
            self.last_fits,
            {} if self.forecast is None else self.forecast.regressors,
            self.n_jobs,
            self.interrupts,
            self.progress.name,
        )
        return race.run(learners, weighted)

    def _emphasis(self) -> Emphasis:
        seed = int(self.random.randint(2**31 - 1))

        def emphasis(prediction: Floats, rows: NDArray[np.intp]) -> Floats:
            with one_thread():
                return likely_accepted(prediction, self.rows.take(rows), self.features[rows], self.loss, seed)

        return emphasis

    def _start(self, estimator: Any, most: int | None, reserve: float) -> FoldFits | RepeatedFits:
        def on_fit() -> None:
            """Count a fit; stop after it if the time for the regressors is over and there is a model."""
            self.progress.on_fit()
            self.ready.append("fit")
            if len(self.ready) > 2 and self.budget.until(1.0) < reserve:
                raise OutOfTime

        fits = [
            FoldFits(estimator, self.sample, splits, self.random, n_jobs=self.n_jobs, most_rows=most, on_fit=on_fit)
            for splits in self.divisions
        ]
        return fits[0] if len(fits) == 1 else RepeatedFits(fits)

    @property
    def _closing(self) -> float:
        return 0.0 if self.forecast is None else self.forecast.closing

    def has_time(self, trials: Sequence[Trial[Any]]) -> bool:
        """Whether there is time to fit these to all rows."""
        return self.budget.until(1.0) >= sum(trial.last_fit for trial in trials) + self._closing

    def blend(
        self, trials: list[Trial[CrossFitted]], splits: list[Split], inputs: Floats
    ) -> tuple[Floats, BlendPrediction]:
        """Return the weights of the regressors, and the out-of-fold predictions."""
        self.progress.name("the blend")
        fitted = [trial.fitted for trial in trials if trial.fitted is not None]
        with one_thread():
            return blend_regressors(fitted, self.rows, inputs, [test for _, test in splits], self.loss, self.random)

    def try_risk_models(
        self, learners: dict[str, Learner], residuals: Sample, folds: list[Split], used: Sequence[Trial[CrossFitted]]
    ) -> list[Trial[CrossFittedRisk]]:
        """Cross-fit the risk models to the out-of-fold errors; `used` are the regressors with a weight."""
        reserve = self._closing + (sum(trial.last_fit for trial in used) if self.last_fits else 0.0)
        done: list[CrossFittedRisk] = []

        def fit(part: Any, sample: Sample, most: int | None) -> CrossFittedRisk:
            missing = [] if fits_together(part) else list(folds)

            def on_fit() -> None:
                """Count a fit; stop if the time is over, there is a risk model, and this one lacks folds."""
                self.progress.on_fit()
                del missing[:1]
                if done and missing and self.budget.until(1.0) < reserve:
                    raise OutOfTime

            done.append(learn_risk(part, sample, folds, self.random, self.n_jobs, most_rows=most, on_fit=on_fit))
            return done[-1]

        return run_trials(
            learners,
            residuals,
            fit,
            self._setting(len(residuals.target), len(folds)),
            reserve=reserve,
            timings=None if self.forecast is None else self.forecast.risks,
            interrupts=self.interrupts,
            report=lambda running, leading: self.progress.name(f"risk model {running}"),
        )

    def refit_regressors(self, trials: list[Trial[CrossFitted]]) -> list[Any]:
        """Fit regressors to all rows, or to as many as in their trials; processes start from the scales of a fold."""
        fitted = [(trial.fitted, trial.most_rows) for trial in trials if trial.fitted]
        chosen = [(with_scales_of(each.models[0], each.estimator), most) for each, most in fitted]
        return refit(chosen, self.sample, self.random, n_jobs=self.n_jobs, on_fit=self.progress.on_fit)

    def refit_risks(self, trials: list[Trial[CrossFittedRisk]], residuals: Sample) -> list[ScaledRisk]:
        """Fit risk models to all out-of-fold errors, or to as many as in their trials."""
        chosen = [(trial.fitted, trial.most_rows) for trial in trials if trial.fitted]
        return refit_risks(chosen, residuals, self.random, self.n_jobs, on_fit=self.progress.on_fit)
