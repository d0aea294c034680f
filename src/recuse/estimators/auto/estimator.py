"""AutoRejector: blended regressors and risk models, chosen by cross-fitting."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

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
from recuse.estimators.auto.candidates import LEARNERS, RISK_MODELS, Learner, choose, with_weighted
from recuse.estimators.auto.models.novelty import Novelty, out_of_fold_novelty
from recuse.estimators.auto.report import Entry, leaderboard, trial_entries
from recuse.estimators.auto.time_budget import TimeBudget
from recuse.estimators.auto.trials import Setting, Trial, run_trials
from recuse.estimators.crossfitting import CrossFitted, Sample, cross_fit, refit
from recuse.estimators.risk.base import FoldModels, RiskBasedRegressor
from recuse.estimators.risk.model import CrossFittedRisk, learn_risk, refit_risks
from recuse.losses import LossLike, TargetLoss
from recuse.progress import progress_bar
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

    Boosted trees, small networks, extremely randomised trees, a Gaussian process and support vectors are cross-fitted.
    From 2000 rows on, networks and boosted trees are also fitted with weights inverse to the noise of the rows. The
    regressor h is the weighted mean with the lowest out-of-fold loss of the rows that are likely to be accepted at
    costs near the given one. Risk models are fitted to its out-of-fold errors. Their inputs are the features, the
    distance to the nearest training rows, the prediction and the disagreement among the regressors. The blend of the
    risk models has the lowest out-of-fold RcR loss, averaged over costs from a quarter to four times the given cost.
    The regressors and risk models with a weight are then fitted again to all rows. The fitted model decides at any
    cost.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, in squared units of the target or those of `loss`: a number, a callable of `X`, the name of
        a column of `X` (which is then not a feature), or, passed to `fit`, one value per row.
    time_limit : float, optional
        Time limit of `fit` in seconds. Learners that need more time are fitted to fewer rows or left out; see
        `leaderboard_`. The results then depend on the speed of the machine.
    learners : list of str or mapping of str to estimator, optional
        Regressors to try: names among "boosting", "networks", "extra_trees", "process" and "support_vectors", custom
        regressors, or both: ``{"ridge": Ridge(), "boosting": "boosting"}``. By default all that suit the table.
    risk_models : list of str or mapping of str to estimator, optional
        Risk models to try: "extra_trees", "boosting", "network", or custom regressors.
    cv : int, splitter or iterable of (train, test), optional
        The folds. A number splits the rows at random; rows with equal features share a fold. By default 10 for fewer
        than 600 distinct rows, 5 up to 50,000, and 3 for more. The test parts of a splitter must not overlap. Rows in
        none of them, as with ``TimeSeriesSplit``, are used for training only.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. With several
        targets, its mean over them.
    random_state : int, RandomState or None, default=None
    n_jobs : int, optional
        Processes, as in joblib; each uses one thread. Without `time_limit` the results do not depend on it.
    verbose : bool, default=False
        Show a progress bar.
    unseen : {"novel", "error", "keep"}, default="novel"
        With "novel", a category or a missing value that did not occur in training, or a number far outside the training
        range, adds to the expected loss what blanking the column adds to the loss of held-out rows. With "error", the
        first two raise an error. "keep" uses all cells as they are; see `recuse.tabular.encoder.TableEncoder`.

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
    the variance around it (Krogh and Vedelsby, 1995), and the regressors of all rows are assumed to be as good. The
    ratio of the two risks is estimated on interpolated rows, and the expected losses of new rows and of `out_of_fold_`
    are multiplied by it. The risks of `out_of_fold_` are also mapped to the distribution of the risks of new rows.

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
            self._encoder = TableEncoder(self.unseen).fit(rows.X, rows.weight)
            self._target_scale = target_moments(rows.y, rows.weight)[1]
            self._fit_rows(rows, self._encoder.transform(rows.X), budget)
        assert rows.origin is not None
        self._advise(rows.origin.weight)
        return self

    def _check_parameters(self) -> None:
        limit = self.time_limit
        require(limit is None or is_rate(limit), "time_limit", "None or a number of seconds > 0", limit)
        self._candidates()
        losses.get(self.loss)
        if self.cv is not None:
            check_folds(self.cv)

    def _candidates(self) -> tuple[dict[str, Learner], dict[str, Learner]]:
        """Return the regressors and the risk models to try."""
        return choose(self.learners, LEARNERS, "learners"), choose(self.risk_models, RISK_MODELS, "risk_models")

    def _fit_rows(self, rows: Rows, features: Floats, budget: TimeBudget) -> None:
        random = check_random_state(self.random_state)
        splits = folds_of(rows, _default_folds(len(rows)) if self.cv is None else self.cv, random)
        if len(splits) == 1:
            raise ValueError("cv must have at least 2 test parts, so that the risk can be cross-fitted, got 1")
        learners, risk_models = self._candidates()
        learners = with_weighted(learners, len(rows))
        fits = (len(splits) + 1) * (len(learners) + len(risk_models))
        with progress_bar("fitting", fits, show=self.verbose) as show:
            run = _Run(rows, features, splits, budget, random, self.n_jobs, self.loss_, _counter(show))
            trials = run.try_regressors(learners)
            novelty = out_of_fold_novelty(features, splits, random)
            weights, blended = run.blend(trials, np.column_stack([features, novelty]))
            used = np.flatnonzero(weights)
            tested, folds = splits_of_tested(splits)
            inputs = risk_inputs(
                features[tested], novelty[tested], blended.of_models(used).take(tested), self._target_scale
            )
            error = self.loss_.of_rows(blended.prediction[tested] - rows.y[tested])
            residuals = Sample(inputs, error, rows.weight[tested])
            risk_trials = run.try_risk_models(risk_models, residuals, folds)
            cross_fitted = [trial.fitted for trial in risk_trials if trial.fitted is not None]
            risk_shares, risk = blend_risks(cross_fitted, error, rows.cost[tested], residuals.weight, folds)
            of_folds = self._adopt(run, trials, weights, risk_trials, risk_shares, residuals)
        self._learn_corrections(rows, features, splits, of_folds, random)
        expected = self._out_of_fold_surcharge(rows, splits)
        expected[tested] += self._fold_mean.out_of_fold(risk)
        shares = weights, risk_shares
        self._report(trials, blended.take(tested), risk_trials, shares, expected[tested], rows.take(tested))
        self.out_of_fold_ = self._out_of_fold_table(rows, blended.prediction, expected)

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
        return FoldModels(
            lambda fold, features: folds.of_copy(fold, features).prediction,
            lambda features: self._estimates(folds, risks, features),
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
        risks = [self._fold_mean.out_of_fold(each.out_of_fold) for each in fitted]
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


@dataclass(frozen=True)
class _Run:
    """The rows and settings that all steps of one fit share.

    The shares of the time limit: 60% for the folds of the regressors, 90% for all but the last fits.
    """

    rows: Rows
    features: Floats
    splits: list[Split]
    budget: TimeBudget
    random: np.random.RandomState
    n_jobs: int | None
    loss: TargetLoss
    on_fit: Callable[[], None]

    @property
    def sample(self) -> Sample:
        return Sample(self.features, self.rows.y, self.rows.weight)

    def _setting(self, n_rows: int) -> Setting:
        return Setting(n_rows, len(self.splits) + 1, self.loss, self.budget, self.n_jobs)

    def try_regressors(self, learners: dict[str, Learner]) -> list[Trial[CrossFitted]]:
        """Cross-fit the regressors."""
        fit = partial(self._cross_fit, self.splits)
        return run_trials(learners, self.sample, fit, self._setting(len(self.rows)), until=0.6)

    def _cross_fit(self, splits: list[Split], part: Any, sample: Sample, most: int | None) -> CrossFitted:
        return cross_fit(part, sample, splits, self.random, n_jobs=self.n_jobs, most_rows=most, on_fit=self.on_fit)

    def blend(self, trials: list[Trial[CrossFitted]], inputs: Floats) -> tuple[Floats, BlendPrediction]:
        """Return the weights of the regressors, and the out-of-fold predictions."""
        fitted = [trial.fitted for trial in trials if trial.fitted is not None]
        with one_thread():
            tests = [test for _, test in self.splits]
            return blend_regressors(fitted, self.rows, inputs, tests, self.loss, self.random)

    def try_risk_models(
        self, learners: dict[str, Learner], residuals: Sample, folds: list[Split]
    ) -> list[Trial[CrossFittedRisk]]:
        """Cross-fit the risk models to the out-of-fold errors."""

        def fit(part: Any, sample: Sample, most: int | None) -> CrossFittedRisk:
            return learn_risk(part, sample, folds, self.random, self.n_jobs, most_rows=most, on_fit=self.on_fit)

        return run_trials(learners, residuals, fit, self._setting(len(residuals.target)), until=0.9)

    def refit_regressors(self, trials: list[Trial[CrossFitted]]) -> list[Any]:
        """Fit regressors to all rows, or to as many as in their trials."""
        chosen = [(trial.fitted.estimator, trial.most_rows) for trial in trials if trial.fitted]
        return refit(chosen, self.sample, self.random, n_jobs=self.n_jobs, on_fit=self.on_fit)

    def refit_risks(self, trials: list[Trial[CrossFittedRisk]], residuals: Sample) -> list[CrossFittedRisk]:
        """Fit risk models to all out-of-fold errors, or to as many as in their trials."""
        chosen = [(trial.fitted, trial.most_rows) for trial in trials if trial.fitted]
        return refit_risks(chosen, residuals, self.random, self.n_jobs, on_fit=self.on_fit)


def _used(trials: list[Trial[Fitted]], weights: Floats) -> list[Trial[Fitted]]:
    """Return the trials with a weight > 0; `weights` are those of the fitted ones."""
    fitted = [trial for trial in trials if trial.fitted is not None]
    return [trial for trial, weight in zip(fitted, weights, strict=True) if weight > 0]


def _default_folds(rows: int) -> int:
    return 10 if rows < 600 else 5 if rows <= 50_000 else 3


def _counter(show: Callable[[int], None]) -> Callable[[], None]:
    done = itertools.count(1)
    return lambda: show(next(done))
