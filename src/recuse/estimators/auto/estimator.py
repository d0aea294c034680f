"""AutoRejector: blended regressors and risk models, chosen by cross-fitting."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from recuse import losses
from recuse.costs import Cost
from recuse.estimators.auto.blending import (
    BlendedRegressor,
    BlendedRisk,
    BlendPrediction,
    blend_regressors,
    blend_risks,
    risk_inputs,
)
from recuse.estimators.auto.candidates import (
    LEARNERS,
    RISK_MODELS,
    Learner,
    choose,
    weighted_variants,
    with_members,
)
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.models.novelty import Novelty, out_of_fold_novelty
from recuse.estimators.auto.models.out_of_bag import out_of_bag_prediction
from recuse.estimators.auto.presets import PRESETS, Preset
from recuse.estimators.auto.race import Race, RaceResult
from recuse.estimators.auto.report import Entry, leaderboard, trial_entries
from recuse.estimators.auto.time_budget import OutOfTime, TimeBudget, measured_time
from recuse.estimators.auto.trials import Setting, Trial, run_trials
from recuse.estimators.crossfitting import CrossFitted, FoldFits, MeanOfRepeats, RepeatedFits, Sample, refit
from recuse.estimators.risk.base import FoldModels, RiskBasedRegressor
from recuse.estimators.risk.model import CrossFittedRisk, learn_risk, refit_risks
from recuse.losses import LossLike, TargetLoss
from recuse.progress import Report, progress_bar
from recuse.tabular.encoder import TableEncoder, Unseen
from recuse.tabular.folds import Split, check_folds, folds_of, splits_of_tested
from recuse.tabular.rows import Rows
from recuse.tabular.units import target_moments
from recuse.threads import one_thread
from recuse.validation import is_rate, require

__all__ = ["AutoRejector"]

Floats = NDArray[np.float64]
Fitted = TypeVar("Fitted")


class AutoRejector(RiskBasedRegressor):
    """Regression with rejection by a blend of several methods.

    Boosted trees, small networks, extremely randomised trees, a Gaussian process and support vectors are cross-fitted:
    first on some of the folds, then on all folds those that improve a blend there. From 2000 rows on, networks and
    boosted trees among these are also fitted with weights inverse to the noise of the rows. The regressor h is the
    weighted mean with the lowest out-of-fold loss of the rows that are likely to be accepted at costs near the given
    one. Risk models are fitted to its out-of-fold errors. Their inputs are the features, the distance to the nearest
    training rows, the prediction and the disagreement among the regressors. The blend of the risk models has the lowest
    out-of-fold RcR loss, averaged over costs from a quarter to four times the given cost. The regressors and risk
    models with a weight are then fitted again to all rows. The fitted model decides at any cost.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, in squared units of the target or those of `loss`: a number, a callable of `X`, the name of
        a column of `X` (which is then not a feature), or, passed to `fit`, one value per row.
    time_limit : float, optional
        Time limit of `fit` in seconds. Learners that need more time are fitted to fewer rows or folds, or left out; see
        `leaderboard_`. The results then depend on the speed of the machine.
    learners : list of str or mapping of str to estimator, optional
        Regressors to try: names among "boosting", "networks", "extra_trees", "process" and "support_vectors", custom
        regressors, or both: ``{"ridge": Ridge(), "boosting": "boosting"}``. By default all that suit the table.
    risk_models : list of str or mapping of str to estimator, optional
        Risk models to try: "extra_trees", "boosting", "network", or custom regressors.
    cv : int, splitter or iterable of (train, test), optional
        The folds. A number splits the rows at random; rows with equal features share a fold. By default 8 for fewer
        than 600 distinct rows, 5 up to 50,000, and 3 for more. The test parts of a splitter must not overlap. Rows in
        none of them, as with ``TimeSeriesSplit``, are used for training only.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. With several
        targets, its mean over them.
    random_state : int, RandomState or None, default=None
    n_jobs : int, optional
        Processes, as in joblib; each uses one thread. Without `time_limit` the results do not depend on it.
    verbose : bool, default=False
        Show a progress bar with the model that runs, the regressor that leads so far and the remaining time.
    unseen : {"novel", "error", "keep"}, default="novel"
        With "novel", a category or a missing value that did not occur in training, or a number far outside the training
        range, adds to the expected loss what blanking the column adds to the loss of held-out rows. With "error", the
        first two raise an error. "keep" uses all cells as they are; see `recuse.tabular.encoder.TableEncoder`.
    preset : {"fast", "balanced", "best"}, default="balanced"
        "fast" takes about a second per thousand rows, with three folds and fewer models. "best" has ten folds, larger
        ensembles of networks and, for tables of less than 1,000 rows, several divisions into folds, whose predictions
        are averaged. The parameters `learners`, `risk_models` and `cv` replace those of the preset.
    on_interrupt : {"raise", "keep"}, default="raise"
        With "keep", Ctrl-C ends the search: the models that are finished are blended, with a warning that names the
        missing ones. A second Ctrl-C, or one before any regressor was fitted to two folds, ends `fit`.

    Attributes
    ----------
    leaderboard_ : DataFrame
        One line for each regressor and each risk model, with its weight, its out-of-fold loss, the RcR loss if only it
        is used, the number of rows it was fitted to and the time in seconds. Other lines are for the blend, whose
        weights are fitted without the fold, and for accepting or rejecting all rows. The out-of-fold losses are those
        of one fold, multiplied by the factor of the last fit to all rows; see Notes.
    out_of_fold_ : DataFrame
        One line for each row passed to `fit`, with its index: target(s), prediction(s), expected_loss, cost and score =
        cost - expected_loss, each by models that were not fitted to the row; NaN for rows in no test part. Thresholds
        can be chosen with it, since its scores are comparable to those of `decide` on new rows.
    cost_ : the cost of `fit`
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    The risk models learn from the errors of the folds, but new rows are predicted by regressors fitted to all rows,
    which have a lower loss. With the squared error, the mean over the folds is better than each of them on average, by
    the variance around it (Krogh and Vedelsby, 1995), and the regressors of all rows are better still. The ratio of the
    two risks is estimated on interpolated rows, as a function of the risk, and the expected losses of new rows and of
    `out_of_fold_` are lowered by it. The risks of `out_of_fold_` are also mapped to the distribution of those of new
    rows. A power law from the risks to the expected losses is fitted to the out-of-fold losses, as in `RiskRejector`.

    Examples
    --------
    >>> from recuse import AutoRejector, datasets
    >>> (X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = AutoRejector(cost=6.0, learners=["extra_trees", "support_vectors"], random_state=0).fit(X, y)
    >>> sorted(model.leaderboard_.query("part == 'regressor'")["name"])
    ['extra_trees', 'support_vectors']
    >>> measures = model.decide(X_test).evaluate(y_test)
    >>> measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
    True
    """

    def __init__(
        self,
        cost: Cost = 1.0,
        time_limit: float | None = None,
        *,
        learners: Any = None,
        risk_models: Any = None,
        cv: Any = None,
        loss: LossLike = "squared",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        unseen: Unseen = "novel",
        preset: Literal["fast", "balanced", "best"] = "balanced",
        on_interrupt: Literal["raise", "keep"] = "raise",
    ) -> None:
        self.cost = cost
        self.time_limit = time_limit
        self.learners = learners
        self.risk_models = risk_models
        self.cv = cv
        self.loss = loss
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.unseen = unseen
        self.preset = preset
        self.on_interrupt = on_interrupt

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the learners, blend them, and fit the risk models of the blend.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        cost : float, array-like, callable or str, optional
            Replaces the parameter `cost`. The weights of the risk models are optimised for costs around it.
        sample_weight : array-like of shape (n_rows,), optional
        groups : array-like of shape (n_rows,), optional
            Rows of one group share a fold. By default rows with equal features are a group.

        Returns
        -------
        AutoRejector
        """
        with self._all_or_nothing():
            budget = TimeBudget(self.time_limit)
            self._check_parameters()
            self.cost_, self.loss_ = self.cost if cost is None else cost, losses.get(self.loss)
            rows = self._training_rows(X, y, self.cost_, sample_weight, groups=groups, cv=self.cv)
            start = time.monotonic()
            self._encoder = TableEncoder(self.unseen).fit(rows.X, rows.weight)
            self._target_scale = target_moments(rows.y, rows.weight)[1]
            features = self._encoder.transform(rows.X)
            missing = self._fit_rows(rows, features, budget, time.monotonic() - start)
        if missing:
            warnings.warn(f"fit was interrupted; the model lacks {missing}", stacklevel=2)
        assert rows.origin is not None
        self._advise(rows.origin.weight)
        return self

    def _check_parameters(self) -> None:
        limit = self.time_limit
        require(limit is None or is_rate(limit), "time_limit", "None or a number of seconds > 0", limit)
        require(self.preset in PRESETS, "preset", f"one of {list(PRESETS)}", self.preset)
        modes = ("raise", "keep")
        require(self.on_interrupt in modes, "on_interrupt", f"one of {list(modes)}", self.on_interrupt)
        self._candidates()
        losses.get(self.loss)
        if self.cv is not None:
            check_folds(self.cv)

    def _candidates(self) -> tuple[dict[str, Learner], dict[str, Learner]]:
        """Return the regressors and the risk models to try."""
        preset = PRESETS[self.preset]
        learners = choose(preset.learners if self.learners is None else self.learners, LEARNERS, "learners")
        risk_models = preset.risk_models if self.risk_models is None else self.risk_models
        learners = {name: with_members(learner, preset.members) for name, learner in learners.items()}
        return learners, choose(risk_models, RISK_MODELS, "risk_models")

    def _divisions(self, rows: Rows, preset: Preset, random: np.random.RandomState) -> list[list[Split]]:
        """Return the division of the rows into folds, or several of them."""
        cv = preset.n_folds(len(rows)) if self.cv is None else self.cv
        repeats = preset.n_repeats(len(rows)) if self.cv is None else 1
        divisions = [folds_of(rows, cv, random) for _ in range(repeats)]
        if len(divisions[0]) == 1:
            raise ValueError("cv must have at least 2 test parts, so that the risk can be cross-fitted, got 1")
        return divisions

    def _fit_rows(self, rows: Rows, features: Floats, budget: TimeBudget, encoding: float) -> str:
        """Fit to checked rows, and return what is missing after an interrupt.

        Parameters
        ----------
        rows : Rows
        features : ndarray of shape (row, feature)
        budget : TimeBudget
        encoding : float
            Seconds that encoding the rows took.
        """
        random, preset = check_random_state(self.random_state), PRESETS[self.preset]
        divisions = self._divisions(rows, preset, random)
        learners, risk_models = self._candidates()
        weighted = weighted_variants(learners, len(rows)) if preset.weighted else {}
        interrupts = Interrupts(self.on_interrupt)
        steps = (len(divisions[0]) * len(divisions) + 1) * (len(learners) + len(weighted))
        with progress_bar("fitting", steps + (len(divisions[0]) + 1) * len(risk_models), show=self.verbose) as show:
            run = _Run(
                rows,
                features,
                divisions,
                budget,
                random,
                self.n_jobs,
                self.loss_,
                _Progress(show),
                interrupts,
                encoding,
            )
            novelty = interrupts.repeat(lambda: out_of_fold_novelty(features, divisions[0], random))
            race = run.try_regressors(learners, weighted, risk_models)
            trials, splits = race.trials, [divisions[0][fold] for fold in race.folds]
            weights, blended = interrupts.repeat(
                lambda: run.blend(trials, splits, np.column_stack([features, novelty]))
            )
            used = np.flatnonzero(weights)
            tested, folds = splits_of_tested(splits)
            inputs = risk_inputs(
                features[tested], novelty[tested], blended.of_models(used).take(tested), self._target_scale
            )
            error = self.loss_.of_rows(blended.prediction[tested] - rows.y[tested])
            residuals = Sample(inputs, error, rows.weight[tested])
            last_fits = sum(trial.last_fit for trial in _used(trials, weights))
            risk_trials = run.try_risk_models(risk_models, residuals, folds, last_fits)
            cross_fitted = [trial.fitted for trial in risk_trials if trial.fitted is not None]
            risk_shares, risk = blend_risks(cross_fitted, error, rows.cost[tested], residuals.weight, folds)
            of_folds = interrupts.repeat(lambda: self._adopt(run, trials, weights, risk_trials, risk_shares, residuals))
        interrupts.repeat(lambda: self._learn_corrections(rows, features, splits, of_folds, random))
        expected = np.full(len(rows), np.nan)
        expected[tested] = 0.0
        if budget.until(1.0) > 2 * encoding * len(splits):  # the encoders of all folds take this long
            expected = self._out_of_fold_surcharge(rows, splits)
        expected[tested] = self._calibrate(risk, error, residuals.weight, expected[tested])
        shares = weights, risk_shares
        self._report(trials, blended.take(tested), risk_trials, shares, expected[tested], rows.take(tested))
        self.out_of_fold_ = self._out_of_fold_table(rows, blended.prediction, expected)
        return _missing([*trials, *risk_trials], len(splits), len(divisions[0])) if interrupts.seen else ""

    def _adopt(
        self,
        run: _Run,
        trials: list[Trial[CrossFitted]],
        weights: Floats,
        risk_trials: list[Trial[CrossFittedRisk]],
        risk_weights: Floats,
        residuals: Sample,
    ) -> FoldModels:
        """Fit the models with a weight to all rows, keep these, and return those of the folds."""
        used, used_risks = _used(trials, weights), _used(risk_trials, risk_weights)
        outputs, weights, risk_weights = self._n_targets, weights[weights > 0], risk_weights[risk_weights > 0]
        self._novelty = Novelty.learn(run.features, run.random)
        self._regressor = BlendedRegressor([(model,) for model in run.refit_regressors(used)], weights, outputs)
        self._risk = BlendedRisk(run.refit_risks(used_risks, residuals), risk_weights)
        folds = BlendedRegressor([trial.fitted.models for trial in used if trial.fitted], weights, outputs)
        risks = BlendedRisk([trial.fitted for trial in used_risks if trial.fitted], risk_weights)
        first = BlendedRegressor([_first_division(copies) for copies in folds.models], weights, outputs)
        return FoldModels(
            lambda fold, features: first.of_copy(fold, features).prediction,
            lambda features: self._estimates(folds, risks, features),
            refitted=True,
        )

    def _report(
        self,
        trials: list[Trial[CrossFitted]],
        blended: BlendPrediction,
        risk_trials: list[Trial[CrossFittedRisk]],
        weights: tuple[Floats, Floats],
        risk: Floats,
        rows: Rows,
    ) -> None:
        """Build the leaderboard from out-of-fold results; `weights` are those of the regressors and the risks."""
        factor = self._fold_mean.factor  # loss of the model of new rows, relative to one fold
        error = factor * self.loss_.of_rows(blended.prediction - rows.y)
        errors = [factor * self.loss_.of_rows(each - rows.y) for each in blended.each]
        fitted = [trial.fitted for trial in risk_trials if trial.fitted is not None]
        risks = [self._calibration(self._fold_mean.out_of_fold(each.out_of_fold)) for each in fitted]
        entries = [
            Entry("blend", "blend", error, risk, 1.0),
            *trial_entries("regressor", trials, weights[0], [(own, risk) for own in errors]),
            *trial_entries("risk", risk_trials, weights[1], [(error, own) for own in risks]),
            Entry("yardstick", "always_accept", error, np.full_like(risk, -np.inf)),
            Entry("yardstick", "always_reject", error, np.full_like(risk, np.inf)),
        ]
        self.leaderboard_ = leaderboard(entries, rows.cost, rows.weight)

    def _model_predictions(self, rows: Any, features: Floats) -> Floats:
        return np.array([blended.prediction for blended in self._regressor.by_copy(features)])

    def _model_estimates(self, rows: Any, features: Floats) -> tuple[Floats, Floats]:
        return self._estimates(self._regressor, self._risk, features)

    def _estimates(self, regressor: BlendedRegressor, risk: BlendedRisk, features: Floats) -> tuple[Floats, Floats]:
        """Return predictions and risks (copy, row) of a blend."""
        copies, novelty = regressor.by_copy(features), self._novelty(features)
        inputs = [risk_inputs(features, novelty, blended, self._target_scale) for blended in copies]
        return np.array([blended.prediction for blended in copies]), risk.by_fold(inputs)


class _Progress:
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
class _Run:
    """The rows and settings that all steps of one fit share."""

    rows: Rows
    features: Floats
    divisions: list[list[Split]]
    budget: TimeBudget
    random: np.random.RandomState
    processes: int | None
    loss: TargetLoss
    progress: _Progress
    interrupts: Interrupts
    encoding: float
    ready: list[str] = field(default_factory=list)  # one entry for each fit of a regressor

    @property
    def sample(self) -> Sample:
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


def _used(trials: list[Trial[Fitted]], weights: Floats) -> list[Trial[Fitted]]:
    """Return the trials with a weight > 0; `weights` are those of the fitted ones."""
    fitted = [trial for trial in trials if trial.fitted is not None]
    return [trial for trial, weight in zip(fitted, weights, strict=True) if weight > 0]


def _first_division(copies: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the models of the first division of the rows, whose folds the results refer to."""
    return tuple(copy.first if isinstance(copy, MeanOfRepeats) else copy for copy in copies)


def _missing(trials: list[Trial[Any]], folds: int, all_folds: int) -> str:
    """Name the models that were not finished, and the folds that were not used."""
    names = [trial.name for trial in trials if trial.note == "left out: interrupted"]
    parts = [", ".join(names)] if names else []
    if folds < all_folds:
        parts.append(f"{all_folds - folds} of {all_folds} folds")
    return " and ".join(parts) or "nothing"
