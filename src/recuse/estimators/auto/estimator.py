"""AutoRejector: blended regressors and risk models, chosen by cross-fitting."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from recuse import losses
from recuse.costs import Cost
from recuse.estimators.auto.blending import BlendPrediction, blend_regressors, blend_risks, risk_inputs
from recuse.estimators.auto.candidates import LEARNERS, RISK_MODELS, Learner, choose, with_weighted
from recuse.estimators.auto.models.novelty import Novelty, out_of_fold_novelty
from recuse.estimators.auto.report import Entry, leaderboard, trial_entries
from recuse.estimators.auto.time_budget import TimeBudget
from recuse.estimators.auto.trials import Setting, Trial, run_trials
from recuse.estimators.crossfitting import CrossFitted, Sample, cross_fit, fit_count
from recuse.estimators.risk.base import RiskBasedRegressor
from recuse.estimators.risk.model import CrossFittedRisk, learn_risk
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.tabular.encoder import TableEncoder, Unseen
from recuse.tabular.folds import Split, check_folds, folds_of, splits_of_tested
from recuse.tabular.rows import Rows
from recuse.tabular.units import target_moments
from recuse.threads import one_thread
from recuse.validation import is_rate, require

__all__ = ["AutoRejector"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class AutoRejector(RiskBasedRegressor):
    """Regression with rejection by a blend of several methods.

    Boosted trees, small networks, extremely randomised trees, a Gaussian process and support vectors are cross-fitted.
    From 2000 rows on, networks and boosted trees are also fitted with weights inverse to the noise of the rows. The
    regressor h is the weighted mean with the lowest out-of-fold loss of the rows that are likely to be accepted at
    costs near the given one. Risk models are fitted to its out-of-fold errors. Their inputs are the features, the
    distance to the nearest training rows, the prediction and the disagreement among the regressors. The blend of the
    risk models has the lowest out-of-fold RcR loss, averaged over costs from a quarter to four times the given cost.
    The fitted model decides at any cost.

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
        none of them, as with ``TimeSeriesSplit``, are used for training only, and h is fitted again to all rows.
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
        of one fold, multiplied by the factor of the mean over the folds; see Notes.
    out_of_fold_ : DataFrame
        One line for each row passed to `fit`, with its index: target(s), prediction(s), expected_loss, cost and score =
        cost - expected_loss, each by models that were not fitted to the row; NaN for rows in no test part. Thresholds
        can be chosen with it, since its scores are comparable to those of `decide` on new rows.
    cost_ : the cost of `fit`
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    h and the risk are means over the folds. With the squared error, the mean over the folds is better than each of them
    on average, by the variance around it (Krogh and Vedelsby, 1995). The ratio of the two risks is estimated on
    interpolated rows, and the expected losses of new rows and of `out_of_fold_` are multiplied by it. The risks of
    `out_of_fold_` come from one fold each and are also mapped to the distribution of the mean over the folds.

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
        learners, risk_models = self._candidates()
        learners, fits = with_weighted(learners, len(rows)), fit_count(splits, len(rows))
        with progress_bar("fitting", fits * len(learners) + len(splits) * len(risk_models), show=self.verbose) as show:
            on_fit = _counter(show)
            largest = max(len(train) for train, _ in splits)
            setting = Setting(largest, fits, self.loss_, budget, self.n_jobs)
            trials = run_trials(
                learners,
                Sample(features, rows.y, rows.weight),
                lambda part, sample, most: cross_fit(
                    part, sample, splits, random, n_jobs=self.n_jobs, most_rows=most, on_fit=on_fit
                ),
                setting,
                until=0.7,
            )
            novelty = out_of_fold_novelty(features, splits, random)
            blended = self._blend_regressors(trials, rows, np.column_stack([features, novelty]), splits, random)
            tested, residuals, folds = self._residuals(rows, features, novelty, blended, splits)
            risk_trials = run_trials(
                risk_models,
                residuals,
                lambda part, sample, most: learn_risk(
                    part, sample, folds, random, self.n_jobs, most_rows=most, on_fit=on_fit
                ),
                replace(setting, rows=max(len(train) for train, _ in folds), fits=len(folds)),
                until=0.95,
            )
        fitted = [trial.fitted for trial in risk_trials if trial.fitted is not None]
        self._risk, risk = blend_risks(fitted, residuals.target, rows.cost[tested], residuals.weight, folds)
        self._novelty = Novelty.learn(features, random)
        self._learn_corrections(rows, features, splits, random)
        expected = self._out_of_fold_surcharge(rows, splits)
        expected[tested] += self._fold_mean.out_of_fold(risk)
        self._report(trials, blended.take(tested), risk_trials, expected[tested], rows.take(tested))
        self.out_of_fold_ = self._out_of_fold_table(rows, blended.prediction, expected)

    def _blend_regressors(
        self,
        trials: list[Trial[CrossFitted]],
        rows: Rows,
        inputs: Floats,
        splits: list[Split],
        random: np.random.RandomState,
    ) -> BlendPrediction:
        """Blend the regressors, and return their out-of-fold predictions."""
        fitted = [trial.fitted for trial in trials if trial.fitted is not None]
        parts = [test for _, test in splits]
        with one_thread():
            self._regressor, blended = blend_regressors(fitted, rows, inputs, parts, self.loss_, random)
        return blended

    def _residuals(
        self, rows: Rows, features: Floats, novelty: Floats, blended: BlendPrediction, splits: list[Split]
    ) -> tuple[Indices, Sample, list[Split]]:
        """Return the rows with out-of-fold errors, the sample for the risk models, and its folds."""
        if len(splits) == 1:
            raise ValueError("cv must have at least 2 test parts, so that the risk can be cross-fitted, got 1")
        tested, folds = splits_of_tested(splits)
        inputs = risk_inputs(features[tested], novelty[tested], blended.take(tested), self._target_scale)
        error = self.loss_.of_rows(blended.prediction[tested] - rows.y[tested])
        return tested, Sample(inputs, error, rows.weight[tested]), folds

    def _report(
        self,
        trials: list[Trial[CrossFitted]],
        blended: BlendPrediction,
        risk_trials: list[Trial[CrossFittedRisk]],
        risk: Floats,
        rows: Rows,
    ) -> None:
        """Build the leaderboard from out-of-fold results."""
        factor = self._fold_mean.factor  # loss of the mean over the folds, relative to one fold
        error = factor * self.loss_.of_rows(blended.prediction - rows.y)
        errors = [factor * self.loss_.of_rows(each - rows.y) for each in blended.each]
        fitted = [trial.fitted for trial in risk_trials if trial.fitted is not None]
        risks = [self._fold_mean.out_of_fold(each.out_of_fold) for each in fitted]
        entries = [
            Entry("blend", "blend", error, risk, 1.0),
            *trial_entries("regressor", trials, self._regressor.weights, [(own, risk) for own in errors]),
            *trial_entries("risk", risk_trials, self._risk.weights, [(error, own) for own in risks]),
            Entry("yardstick", "always_accept", error, np.full_like(risk, -np.inf)),
            Entry("yardstick", "always_reject", error, np.full_like(risk, np.inf)),
        ]
        self.leaderboard_ = leaderboard(entries, rows.cost, rows.weight)

    def _predict_fold(self, fold: int, features: Floats) -> Floats:
        return self._regressor.of_fold(fold, features).prediction

    def _fold_predictions(self, rows: Any, features: Floats) -> Floats:
        return np.array([blended.prediction for blended in self._regressor.by_fold(features)])

    def _fold_estimates(self, rows: Any, features: Floats) -> tuple[Floats, Floats]:
        folds, novelty = self._regressor.by_fold(features), self._novelty(features)
        inputs = [risk_inputs(features, novelty, blended, self._target_scale) for blended in folds]
        return np.array([blended.prediction for blended in folds]), self._risk.by_fold(inputs)


def _default_folds(rows: int) -> int:
    return 10 if rows < 600 else 5 if rows <= 50_000 else 3


def _counter(show: Callable[[int], None]) -> Callable[[], None]:
    done = itertools.count(1)
    return lambda: show(next(done))
