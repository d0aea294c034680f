"""AutoRejector: blended regressors and risk models, chosen by cross-fitting."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from recuse import losses
from recuse.costs import Cost, row_values
from recuse.dataframes import aligned, row_index
from recuse.estimators.auto.blending import (
    BlendPrediction,
    blend_risks,
    few_enough_to_keep_folds,
    keeps_folds,
    smaller,
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
from recuse.estimators.auto.models.novelty import learn_novelty, out_of_fold_novelty
from recuse.estimators.auto.presets import PRESETS, Preset
from recuse.estimators.auto.report import Entry, leaderboard, trial_entries
from recuse.estimators.auto.steps import FitProgress, FitSteps
from recuse.estimators.auto.time_budget import TimeBudget
from recuse.estimators.auto.time_plan import Forecast, divisions_in_time
from recuse.estimators.auto.trials import Trial, missing_parts, used_trials
from recuse.estimators.crossfitting import CrossFitted, Sample, first_division
from recuse.estimators.risk.base import Corrections, FoldModels, RiskBasedRegressor
from recuse.estimators.risk.model import CrossFittedRisk
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.rules.risk import Prediction, RiskInputs, RiskModels
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import Split, check_folds, folds_of, is_partition, splits_of_tested
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import moments
from recuse.validation import is_count, is_rate, require

Floats = NDArray[np.float64]


class AutoRejector(RiskBasedRegressor):
    """Regression with rejection by a blend of several methods.

    Boosted trees, small networks, extremely randomised trees, Gaussian processes, a linear model and support vectors
    are cross-fitted: first on some of the folds, then on all folds those that improve a blend there. From 2000 rows on,
    networks, boosted trees and processes are also fitted with weights inverse to the noise of the rows. Networks of
    5,000 to 100,000 rows leave out features without effect. The regressor h is the weighted mean with the lowest
    out-of-fold loss of the rows that are likely to be accepted at costs near the given one. Risk models (forests,
    boosted trees, networks, a Gaussian process and a log-linear model) are fitted to its out-of-fold errors. Their
    inputs are the features, the distance to the nearest training rows and the prediction. The blend of the risk models
    has the lowest out-of-fold RcR loss, averaged over costs from a quarter to four times the given cost. The regressors
    and risk models with a weight are then fitted again to all rows; for noisy tables of less than 5,000 rows, the mean
    over the models of the folds is used instead. The fitted model decides at any cost.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, in squared units of the target or those of `loss`: a number, a callable of `X`, the name of
        a column of `X` (which is then not a feature), or, passed to `fit`, one value per row.
    time_limit : float, optional
        Time limit of `fit` in seconds. With too little time there are fewer folds, and learners are left out or fitted
        to fewer rows; see `leaderboard_`. The results then depend on the speed of the machine. A limit that is not
        reached changes nothing.
    learners : list of str or mapping of str to estimator, optional
        Regressors to try: names among "boosting", "networks", "extra_trees", "process", "process_of_pieces",
        "log_process", "linear" and "support_vectors", custom regressors, or both: ``{"ridge": Ridge(), "boosting":
        "boosting"}``. By default all that suit the table.
    risk_models : list of str or mapping of str to estimator, optional
        Risk models to try: "extra_trees", "boosting", "network", "network_of_squares" (5,000 to 100,000 rows),
        "process" (500 to 100,000 rows), "linear" (up to 2,000 rows), or custom regressors.
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
        "fast" takes about a second per thousand rows, with three folds and fewer models, all fitted again to all rows,
        so that decisions are fast too. "best" has ten folds, larger ensembles of networks and, for tables of less than
        1,000 rows, several divisions into folds, whose predictions are averaged. It takes three to seven times as long
        as "balanced". Of the tables where both were tried, only those with few rows had a lower loss. The parameters
        `learners`, `risk_models` and `cv` replace those of the preset.
    on_interrupt : {"raise", "keep"}, default="raise"
        With "keep", Ctrl-C ends the search: the models that are finished are blended, with a warning that names the
        missing ones. A second Ctrl-C, or one before any regressor was fitted to two folds, ends `fit`.
    max_rows : int or None, default=2_000_000
        Of a larger table, this many rows are drawn at random and the others are not used, which bounds the memory. X
        can be a ``numpy.memmap``. None uses all rows.

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
    rule_ : RiskRule
        The fitted rule that decides, as in ``recuse.rules.risk``.
    cost_ : the cost of `fit`
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    The risk models learn from the errors of the folds, but new rows are predicted by regressors fitted to all rows, or
    by the mean over the folds. Both have a lower loss. With the squared error, the mean over the folds is better than
    each of them on average, by the variance around it (Krogh and Vedelsby, 1995), and the regressors of all rows are
    better still where there is little noise. The ratio of the two risks is estimated on interpolated rows, as a
    function of the risk, and the expected losses of new rows and of `out_of_fold_` are lowered by it. The risks of
    `out_of_fold_` are also mapped to the distribution of those of new rows. A power law from the risks to the expected
    losses is fitted to the out-of-fold losses, as in `RiskRejector`.

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
        max_rows: int | None = 2_000_000,
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
        self.max_rows = max_rows

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
            random = check_random_state(self.random_state)
            weight = self._weight_of_drawn(X, sample_weight, random)
            rows = self._training_rows(X, y, self.cost_, weight, groups=groups, cv=self.cv)
            start = time.monotonic()
            encoder = TableEncoder(self.unseen).fit(rows.X, rows.weight, rows.schema)
            features = encoder.transform(rows.X)
            missing = self._fit_rows(rows, encoder, features, budget, time.monotonic() - start, random)
        if missing:
            warnings.warn(f"fit was interrupted; the model lacks {missing}", stacklevel=2)
        assert rows.origin is not None
        self._advise(rows.origin.weight)
        return self

    def _check_parameters(self) -> None:
        limit = self.time_limit
        require(limit is None or is_rate(limit), "time_limit", "None or a number of seconds > 0", limit)
        rows = self.max_rows
        require(rows is None or is_count(rows, 2), "max_rows", "None or an integer >= 2", rows)
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

    def _weight_of_drawn(self, X: Any, sample_weight: ArrayLike | None, random: np.random.RandomState) -> Any:
        """Return the weights, with zero for rows of a table beyond `max_rows` that are not drawn."""
        count = _num_samples(X)
        if self.max_rows is None or count <= self.max_rows:
            return sample_weight
        given = aligned(sample_weight, row_index(X), "sample_weight")
        weight = row_values(1.0 if given is None else given, "sample_weight", count)
        present = np.flatnonzero(weight > 0)
        drawn = random.choice(present, min(self.max_rows, len(present)), replace=False)
        kept = np.zeros(count)
        kept[drawn] = weight[drawn]
        return kept

    def _fit_rows(
        self,
        rows: Rows,
        encoder: TableEncoder,
        features: Floats,
        budget: TimeBudget,
        encoding: float,
        random: np.random.RandomState,
    ) -> str:
        """Fit to checked rows, and return what is missing after an interrupt.

        Parameters
        ----------
        rows : Rows
        encoder : TableEncoder
        features : ndarray of shape (row, feature)
        budget : TimeBudget
        encoding : float
            Seconds that encoding the rows took.
        random : RandomState
        """
        preset = PRESETS[self.preset]
        divisions = self._divisions(rows, preset, random)
        learners, risk_models = self._candidates()
        weighted = weighted_variants(learners, len(rows)) if preset.weighted else {}
        may_keep = preset.may_keep_folds and is_partition(divisions[0], len(rows))
        last_fits = not (may_keep and few_enough_to_keep_folds(len(rows)))
        forecast = None
        if budget.limited:
            measured = learners, weighted, risk_models, Sample(features, rows.y, rows.weight)
            forecast = Forecast.measure(*measured, self.loss_, budget, encoding, self.n_jobs)
            if self.cv is None:
                divisions = divisions_in_time(divisions, rows, forecast, budget.until(1.0), last_fits, random)
        interrupts = Interrupts(self.on_interrupt)
        steps = (len(divisions[0]) * len(divisions) + 1) * (len(learners) + len(weighted))
        with progress_bar("fitting", steps + (len(divisions[0]) + 1) * len(risk_models), show=self.verbose) as show:
            shared = rows, features, divisions, budget, random, self.n_jobs, self.loss_
            run = FitSteps(*shared, FitProgress(show), interrupts, forecast, last_fits)
            novelty = interrupts.repeat(lambda: out_of_fold_novelty(features, divisions[0], random))
            race = run.try_regressors(learners, weighted)
            trials, splits = race.trials, [divisions[0][fold] for fold in race.folds]
            weights, blended = interrupts.repeat(
                lambda: run.blend(trials, splits, np.column_stack([features, novelty]))
            )
            tested, folds = splits_of_tested(splits)
            inputs = RiskInputs(0.0, moments(rows.y, rows.weight)[1])
            predicted = Prediction(blended.prediction[tested], np.zeros(len(tested)))
            seen = inputs(features[tested], predicted, novelty[tested])
            error = self.loss_(blended.prediction[tested] - rows.y[tested])
            residuals = Sample(seen, error, rows.weight[tested])
            used = used_trials(trials, weights)
            risk_trials = run.try_risk_models(risk_models, residuals, folds, used)
            cross_fitted = [trial.fitted for trial in risk_trials if trial.fitted is not None]
            keep = may_keep and is_partition(splits, len(rows))
            noisy = keep and keeps_folds(blended.prediction, rows, self.loss_)
            of_risks = cross_fitted, error, rows.cost[tested], residuals.weight, folds
            risk_shares, risk = blend_risks(*of_risks, sparse=not noisy)
            # without time for the last fits, the mean over the folds is used; its loss is not much higher
            keep = keep and (noisy or not run.has_time([*used, *used_trials(risk_trials, risk_shares)]))
            if keep and not noisy:
                risk_shares, risk = blend_risks(*of_risks)
            chosen = trials, weights, risk_trials, risk_shares
            of_folds = interrupts.repeat(lambda: self._models(run, *chosen, residuals, inputs, keep))
        corrections = interrupts.repeat(
            lambda: Corrections.learn(encoder, rows, features, splits, of_folds, self.loss_, random)
        )
        expected = np.full(len(rows), np.nan)
        expected[tested] = 0.0
        if budget.until(1.0) > 2 * encoding * len(splits):  # the encoders of all folds take this long
            expected = corrections.out_of_fold_surcharge(rows, splits)
        calibration, expected[tested] = corrections.calibrate(risk, error, residuals.weight, expected[tested])
        self.rule_ = corrections.rule(of_folds.new, calibration)
        risks = [calibration(corrections.fold_mean.out_of_fold(each.out_of_fold)) for each in cross_fitted]
        shares = weights, risk_shares
        self._report(trials, blended.take(tested), risk_trials, shares, risks, expected[tested], rows.take(tested))
        self.out_of_fold_ = self._out_of_fold_table(rows, blended.prediction, expected)
        return missing_parts([*trials, *risk_trials], len(splits), len(divisions[0])) if interrupts.seen else ""

    def _models(
        self,
        run: FitSteps,
        trials: list[Trial[CrossFitted]],
        weights: Floats,
        risk_trials: list[Trial[CrossFittedRisk]],
        risk_weights: Floats,
        residuals: Sample,
        inputs: RiskInputs,
        keep: bool,
    ) -> FoldModels:
        """Return the models of the folds, and those of new rows: the same, or those with a weight fitted to all."""
        used, used_risks = used_trials(trials, weights), used_trials(risk_trials, risk_weights)
        folds = RiskModels(
            tuple(trial.fitted.models for trial in used if trial.fitted),
            weights[weights > 0],
            tuple(trial.fitted.risk for trial in used_risks if trial.fitted),
            risk_weights[risk_weights > 0],
            inputs,
            learn_novelty(run.features, run.random),
        )
        new = folds
        if not keep:
            regressors = tuple((model,) for model in run.refit_regressors(used))
            new = replace(folds, regressors=regressors, risks=tuple(run.refit_risks(used_risks, residuals)))
        first = replace(folds, regressors=tuple(first_division(copies) for copies in folds.regressors))
        return FoldModels(smaller(new), folds, first, refitted=not keep)

    def _report(
        self,
        trials: list[Trial[CrossFitted]],
        blended: BlendPrediction,
        risk_trials: list[Trial[CrossFittedRisk]],
        weights: tuple[Floats, Floats],
        risks: list[Floats],
        risk: Floats,
        rows: Rows,
    ) -> None:
        """Build the leaderboard from out-of-fold results.

        `weights` are those of the regressors and the risk models, `risks` are by each risk model and `risk` by all.
        """
        factor = self.rule_.factor  # loss of the model of new rows, relative to one fold
        error = factor * self.loss_(blended.prediction - rows.y)
        errors = [factor * self.loss_(each - rows.y) for each in blended.each]
        entries = [
            Entry("blend", "blend", error, risk, 1.0),
            *trial_entries("regressor", trials, weights[0], [(own, risk) for own in errors]),
            *trial_entries("risk", risk_trials, weights[1], [(error, own) for own in risks]),
            Entry("yardstick", "always_accept", error, np.full_like(risk, -np.inf)),
            Entry("yardstick", "always_reject", error, np.full_like(risk, np.inf)),
        ]
        self.leaderboard_ = leaderboard(entries, rows.cost, rows.weight)
