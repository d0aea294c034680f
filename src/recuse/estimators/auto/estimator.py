"""AutoRejector: rows in; the blend of regressors and the blend of risk models of the lowest RcR loss out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from recuse import losses
from recuse.costs import Cost
from recuse.estimators.auto.blending import (
    Opinion,
    blend_regressors,
    blend_risks,
    precision,
    risk_inputs,
    share_accepted,
)
from recuse.estimators.auto.candidates import LEARNERS, RISK_MODELS, Learner, chosen
from recuse.estimators.auto.crossfit import Setting, Trial, run_trials
from recuse.estimators.auto.models.novelty import Novelty
from recuse.estimators.auto.report import Entry, leaderboard
from recuse.estimators.auto.time_budget import Clock
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.subestimators import Sample
from recuse.losses import SQUARED, LossLike
from recuse.progress import progress_bar
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import check_folds, folds_of
from recuse.tabular.rows import Rows
from recuse.tabular.units import target_moments
from recuse.validation import is_rate, require

__all__ = ["AutoRejector"]

Floats = NDArray[np.float64]

_ROWS_TO_FIT_AGAIN = 2000  # with fewer, the noise of single rows is too little known to weigh them by


class AutoRejector(RejectingRegressor):
    """The lowest cost on your data, without choosing a method.

    Boosted trees, small networks, extremely randomised trees, a Gaussian process and support vectors are cross-fitted;
    from 2000 rows on, networks and boosted trees once more, with weights by which rows of little noise count more.
    Their blend is h. Models of its risk learn from its out-of-fold errors, and see the features, how far the row is
    from others, the prediction and the disagreement among the regressors; they are blended too. All weights are those
    of the lowest out-of-fold RcR loss over the costs from a quarter to four times the given one. The fitted model
    decides at any cost.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        What a rejection costs, in squared units of the target or those of `loss`: a number, a callable of `X`, the name
        of a column of `X` (which is then no feature), or, given to `fit`, one value per row.
    time_limit : float, optional
        Seconds that `fit` may take. Learners that need more are fitted to fewer rows or left out, as `leaderboard_`
        says; the results then depend on the speed of the machine.
    learners : list of str or mapping of str to estimator, optional
        What to try: names among "boosting", "networks", "extra_trees", "process" and "support_vectors", or regressors
        of your own, or both: ``{"mine": Mine(), "boosting": "boosting"}``. By default all that suit the table.
    risk_models : list of str or mapping of str to estimator, optional
        The same for the models of the risk: "extra_trees", "boosting", "network", or regressors of your own.
    cv : int, splitter or iterable of (train, test), optional
        The folds, with every row in one test part. By default 10 for less than 600 distinct rows, 5 up to 50,000, and 3
        for more.
    loss : str or TargetLoss, default="squared"
        Of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. With several
        targets, its mean over them.
    random_state : int, RandomState or None, default=None
    n_jobs : int, optional
        Processes, as in joblib; without `time_limit` the results do not depend on it.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    leaderboard_ : DataFrame
        What was tried: each regressor and each model of the risk with its weight, its out-of-fold loss, the RcR loss
        with it alone, the rows it was fitted to and its seconds; beside the blend, and accepting or rejecting all.
    out_of_fold_ : DataFrame
        Target(s), prediction(s), expected_loss, cost and weight of every distinct training row, by models that have not
        seen it: what thresholds may be chosen on.
    cost_ : the cost of `fit`
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    h is the mean over the folds. By the squared error it is better than the models of one fold by the variance round
    it (Krogh and Vedelsby, 1995), which is subtracted from the risk, up to half of it.

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

    _several_targets = True

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Try the learners, blend them, and learn the risk of the blend.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        cost : float, array-like, callable or str, optional
            Takes the place of the parameter `cost`. The weights of the blends are best near it.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        AutoRejector
        """
        with self._all_or_nothing():
            clock = Clock(self.time_limit)
            self._check_parameters()
            self.cost_, self.loss_ = self.cost if cost is None else cost, losses.get(self.loss)
            rows = self._training_rows(X, y, self.cost_, sample_weight, cv=self.cv)
            self._encoder = TableEncoder().fit(rows.X, rows.weight)
            self._target = target_moments(rows.y, rows.weight)
            self._learn(rows, clock)
        return self

    def expected_loss(self, X: Any) -> Floats:
        """Give the estimated risk E[(h(x) - y)^2 | x] of every row, in squared units of the target, or that of `loss`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._ask(self._check_new_rows(X))[1]

    @property
    def serves_any_cost(self) -> bool:
        """True: the models know nothing of the cost, but for their weights."""
        return True

    def _check_parameters(self) -> None:
        limit = self.time_limit
        require(limit is None or is_rate(limit), "time_limit", "None or a number of seconds > 0", limit)
        self._chosen()
        losses.get(self.loss)
        if self.cv is not None:
            check_folds(self.cv)

    def _chosen(self) -> tuple[dict[str, Learner], dict[str, Learner]]:
        """Give the regressors and the models of the risk to try."""
        return chosen(self.learners, LEARNERS, "learners"), chosen(self.risk_models, RISK_MODELS, "risk_models")

    def _learn(self, rows: Rows, clock: Clock) -> None:
        features, random = self._encoder.transform(rows.X), check_random_state(self.random_state)
        self._novelty, novelty = Novelty.learn(features, random)
        splits = folds_of(rows, _folds_for(len(rows)) if self.cv is None else self.cv, random)
        learners, risk_models = self._chosen()
        again = {f"{name}_again": learner for name, learner in learners.items() if learner.again}
        if len(rows) < _ROWS_TO_FIT_AGAIN:
            again = {}
        fits = len(splits) * (len(learners) + 1 + len(again) + len(risk_models))
        with progress_bar("fitting", fits, show=self.verbose) as tell:
            setting = Setting(splits, self.loss_, random, clock, self.n_jobs, _counter(tell))
            trials = run_trials(learners, (features, rows.y, rows.weight), setting, until=0.5 if again else 0.7)
            seen = np.column_stack([features, novelty])
            risk = self._first_risk(trials, seen, rows, setting)
            trials += run_trials(again, (features, rows.y, rows.weight * precision(risk)), setting, until=0.7)
            counts = rows.weight * share_accepted(risk, rows.cost)
            self._regressor, said = blend_regressors(
                trials, rows.y, counts if counts.any() else rows.weight, self.loss_
            )
            sample = self._risk_sample(seen, said, rows)
            risk_trials = run_trials(risk_models, sample, setting, until=0.95)
            self._risk, risks = blend_risks(risk_trials, sample, rows.cost, setting)
        self._report(trials, said, risk_trials, risks, rows)

    def _first_risk(self, trials: list[Trial], seen: Floats, rows: Rows, setting: Setting) -> Floats:
        """Give a first out-of-fold risk of every row, by equal weights and one model of the risk."""
        _, said = blend_regressors(trials, rows.y, rows.weight, self.loss_)
        name, model = next(iter(self._chosen()[1].items()))
        (trial,) = run_trials({name: model}, self._risk_sample(seen, said, rows), setting, until=0.6)
        return np.maximum(trial.said, 0.0)

    def _risk_sample(self, seen: Floats, said: Opinion, rows: Rows) -> Sample:
        error = self.loss_.of_rows(said.prediction - rows.y)
        return risk_inputs(seen, said, self._target[1]), error, rows.weight

    def _report(self, trials: list[Trial], said: Opinion, risk_trials: list[Trial], risks: Floats, rows: Rows) -> None:
        """Keep what a user may want to look at."""
        error, risk = self.loss_.of_rows(said.prediction - rows.y), self._risk.weights @ risks
        errors = [self.loss_.of_rows(each - rows.y) for each in said.each]
        entries = [
            Entry("blend", "blend", error, risk, 1.0),
            *_entries("regressor", trials, self._regressor.weights, [(own, risk) for own in errors]),
            *_entries("risk", risk_trials, self._risk.weights, [(error, own) for own in risks]),
            Entry("yardstick", "always_accept", error, np.zeros_like(risk) - np.inf),
            Entry("yardstick", "always_reject", error, np.zeros_like(risk) + np.inf),
        ]
        self.leaderboard_ = leaderboard(entries, rows.cost, rows.weight)
        columns = {**_by_target("target", rows.y), **_by_target("prediction", said.prediction)}
        self.out_of_fold_ = pd.DataFrame({**columns, "expected_loss": risk, "cost": rows.cost, "weight": rows.weight})

    def _predictions(self, rows: Any) -> Floats:
        folds = self._regressor.by_fold(self._encoder.transform(rows))
        return np.asarray(np.mean([fold.prediction for fold in folds], axis=0))

    def _judge(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        prediction, risk = self._ask(rows)
        return prediction, cost - risk

    def _ask(self, rows: Any) -> tuple[Floats, Floats]:
        """Give predictions and expected losses."""
        features = self._encoder.transform(rows)
        folds = self._regressor.by_fold(features)
        prediction = np.mean([said.prediction for said in folds], axis=0)
        seen = np.column_stack([features, self._novelty(features)])
        risk = np.mean([self._risk(risk_inputs(seen, said, self._target[1])) for said in folds], axis=0)
        if self.loss_ != SQUARED:
            return prediction, risk
        # the mean over the folds is better than they are by the variance round it
        apart = np.square([said.prediction - prediction for said in folds])
        ambiguity = apart.reshape(len(folds), len(features), -1).mean(axis=(0, 2))
        return prediction, np.maximum(risk - ambiguity, risk / 2)


def _folds_for(rows: int) -> int:
    return 10 if rows < 600 else 5 if rows <= 50_000 else 3


def _counter(tell: Callable[[int], None]) -> Callable[[], None]:
    done = itertools.count(1)
    return lambda: tell(next(done))


def _entries(part: str, trials: list[Trial], weights: Floats, used: list[tuple[Floats, Floats]]) -> Iterator[Entry]:
    """Give a line for each trial; `weights` and `used`, errors and risks, are of those that were tried."""
    tried = zip(weights, used, strict=True)
    for trial in trials:
        if trial.tried:
            weight, (error, risk) = next(tried)
            yield Entry(part, trial.name, error, risk, float(weight), trial)
        else:
            yield Entry(part, trial.name, None, None, 0.0, trial)


def _by_target(name: str, values: Floats) -> dict[str, Floats]:
    return {name: values} if values.ndim == 1 else {f"{name}_{i}": column for i, column in enumerate(values.T)}
