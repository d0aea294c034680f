"""StackedMLPRegressor: an ensemble of small networks trained together, without rejection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from recuse import losses
from recuse.engine.batches import Table
from recuse.engine.best_epoch import Trained
from recuse.engine.members import Member
from recuse.engine.regressors import train_regressors
from recuse.engine.schedule import TrainingPlan
from recuse.engine.stack import outputs
from recuse.estimators.base import CheckedRegressor
from recuse.estimators.rate_search import (
    RandomStateLike,
    best_trials,
    check_trial_parameters,
    divide,
    engine_table,
    learning_rates,
    member_seeds,
    of_equal_length,
    warn_of_diverged,
    without_outliers,
)
from recuse.losses import LossLike, TargetLoss
from recuse.progress import progress_bar
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import Units
from recuse.threads import one_thread

Floats = NDArray[np.float64]

_COST = 1.0  # not used by a regressor without rejection


class StackedMLPRegressor(CheckedRegressor):
    """An ensemble of small ReLU networks, trained on the squared error or another loss.

    All members are trained at once, with every learning rate. The validation loss chooses the epoch of each training
    and the learning rate of each member. The prediction is the mean over the members.

    Parameters
    ----------
    hidden : tuple of int, default=(20, 30, 10)
        Widths of the hidden layers; an empty tuple makes the regressor linear.
    epochs : int, default=1000
    batch_size : int, default=1024
    learning_rate : float or sequence of float, default=(0.1, 0.01, 0.001)
        Rates to try; the validation loss chooses one for each member.
    n_members : int, default=1
        Members of the ensemble, which differ in their initial weights.
    validation_fraction : float, default=0.25
        Share of the rows that choose epoch and learning rate, unless `fit` gets validation rows.
    random_state : int, RandomState, None or sequence of int, default=None
        A sequence has one seed for each member; the first also seeds the minibatches and the rows held out.
    scale_target : bool or "centre", default=True
        Train on the standardised target (True), the target minus its mean ("centre"), or the target as it is (False).
        All results are in the units of the user.
    sort_rows : bool, default=True
        Merge equal rows and sort all rows before training. The order of the rows then does not matter, and a weight of
        two equals two copies. False keeps the order given.
    unseen : {"novel", "error", "keep"}, default="novel"
        Treatment of unseen categories, new missing values and numbers far outside the training range: encode the
        first two as missing and clip the last, raise a ValueError for the first two, or use cells as they are.
    verbose : bool, default=False
        Show a progress bar.
    decay : bool, default=False
        Lower the learning rates to zero, along half a cosine over the epochs; fewer epochs are then enough.
    loss : str or TargetLoss, default="squared"
        Loss to minimise: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`.
    drop_outliers : bool, default=False
        Leave out members whose validation loss is further above the median than the lowest is below it. High learning
        rates ruin a network now and then.

    Attributes
    ----------
    loss_ : TargetLoss
    regressor_ : stack of trained networks
    validation_loss_ : float
        Mean loss on the validation rows, in the user's units, averaged over the members.
    learning_rate_, best_epoch_ : list
        The learning rate and the epoch chosen for each member.
    diverged_ : list of tuple
        (member, learning rate, epoch) of every training that diverged and was dropped.
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from recuse import datasets
    >>> from recuse.estimators import StackedMLPRegressor
    >>> (X, y), validation, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = StackedMLPRegressor(epochs=100, n_members=3, random_state=0).fit(X, y, validation=validation)
    >>> model.score(X_test, y_test) > 0.7
    True
    >>> model.predict_members(X_test).shape == (3, len(y_test))
    True
    >>> upper = StackedMLPRegressor(epochs=100, loss="pinball:0.9", random_state=0).fit(X, y)
    >>> bool(np.mean(y_test < upper.predict(X_test)) > 0.75)
    True
    """

    def __init__(
        self,
        hidden: Sequence[int] = (20, 30, 10),
        epochs: int = 1000,
        batch_size: int = 1024,
        learning_rate: float | Sequence[float] = (1e-1, 1e-2, 1e-3),
        n_members: int = 1,
        validation_fraction: float = 0.25,
        random_state: RandomStateLike = None,
        *,
        scale_target: bool | Literal["centre"] = True,
        sort_rows: bool = True,
        unseen: Unseen = "novel",
        verbose: bool = False,
        decay: bool = False,
        loss: LossLike = "squared",
        drop_outliers: bool = False,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_members = n_members
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.scale_target = scale_target
        self.sort_rows = sort_rows
        self.unseen = unseen
        self.verbose = verbose
        self.decay = decay
        self.loss = loss
        self.drop_outliers = drop_outliers

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Any, Any] | None = None,
    ) -> Self:
        """Train the networks.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y), optional
            Rows that choose epoch and learning rate.

        Returns
        -------
        StackedMLPRegressor
        """
        with self._all_or_nothing():
            _train_together([self], [self._prepare(X, y, sample_weight, validation)])
        return self

    @staticmethod
    def fit_together(
        estimators: Sequence[StackedMLPRegressor],
        tables: Sequence[tuple[Any, Any, Any]],
        n_jobs: int | None = None,
    ) -> None:
        """Fit several estimators, each to its own table, in one stack of networks.

        Parameters
        ----------
        estimators : sequence of StackedMLPRegressor
            They may differ in `random_state` only.
        tables : sequence of (X, y, sample_weight or None)
        n_jobs : int, optional
            Processes that the estimators are divided among; the results do not depend on it.
        """
        prepared = [
            estimator._prepare(X, y, weight) for estimator, (X, y, weight) in zip(estimators, tables, strict=True)
        ]
        _train_together(estimators, prepared, n_jobs)

    def predict(self, X: Any) -> Floats:
        """Predict every row by the mean over the members.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return np.asarray(self.predict_members(X).mean(axis=0))

    def predict_members(self, X: Any) -> Floats:
        """Predict every row by each member; their spread measures the uncertainty of the ensemble.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_members, n_rows)
        """
        rows = self._check_new_rows(X)
        features = self.units_.features(rows)
        return self.units_.prediction(outputs(self.regressor_, features))

    def _prepare(self, X: Any, y: Any, sample_weight: Any, validation: tuple[Any, Any] | None = None) -> _Prepared:
        """Check parameters and rows, learn the units, and hold out validation rows."""
        check_trial_parameters(self.get_params(deep=False))
        self.loss_ = losses.get(self.loss)
        rows = self._training_rows(X, y, _COST, sample_weight, sort=self.sort_rows)
        shuffle, seeds, random = member_seeds(self.random_state, self.n_members)
        train, held_out = self._divide(rows, validation, random)
        units = Units.learn(train, rows, _COST, scale_target=self.scale_target, loss=self.loss_, unseen=self.unseen)
        return _Prepared(units, train, held_out, shuffle, seeds)

    def _divide(
        self, rows: Rows, validation: tuple[Any, Any] | None, random: np.random.RandomState
    ) -> tuple[Rows, Rows]:
        """Return training rows and validation rows."""
        if validation is None:
            return divide(rows, self.validation_fraction, random)
        return rows, self._validation_rows(validation, _COST, with_cost=False, sort=self.sort_rows)

    def _keep(self, units: Units, trained: Trained, members: Sequence[Member]) -> None:
        """Choose a learning rate for each member, and set the fitted attributes."""
        self.units_, rates = units, learning_rates(self.learning_rate)
        self.diverged_ = [
            (trial // len(rates), members[trial].learning_rate, epoch)
            for trial, epoch in sorted(trained.diverged.items())
        ]
        warn_of_diverged(self.diverged_, len(members), stacklevel=6)
        chosen = best_trials(trained.loss, rates)
        if self.drop_outliers:
            chosen = without_outliers(trained.loss, chosen)
        # double precision from here on: the same row gives the same answer in any batch
        self.regressor_ = trained.regressor.take(chosen).to(np.float64)
        self.learning_rate_ = [members[trial].learning_rate for trial in chosen]
        self.best_epoch_ = trained.epoch[chosen].tolist()
        self.validation_loss_ = float(units.loss(trained.loss[chosen]).mean())


@dataclass(frozen=True)
class _Prepared:
    """The rows, units and seeds of one estimator."""

    units: Units
    train: Rows
    held_out: Rows
    shuffle: int
    seeds: list[int]


@dataclass(frozen=True)
class _Training:
    """A training of networks of one shape.

    Attributes
    ----------
    hidden : tuple of int
    rates : sequence of float
    plan : TrainingPlan
    loss : TargetLoss
        Loss of predictions in the units of the tables.
    """

    hidden: tuple[int, ...]
    rates: Sequence[float]
    plan: TrainingPlan
    loss: TargetLoss

    def __call__(self, jobs: Sequence[tuple[Table, Table, Sequence[int]]]) -> list[tuple[Trained, list[Member]]]:
        """Train the members of each job (training table, validation table, seeds); return them by job."""
        members = [
            Member(seed, rate, table=place)
            for place, (_, _, seeds) in enumerate(jobs)
            for seed in seeds
            for rate in self.rates
        ]
        tables, validation = [job[0] for job in jobs], [job[1] for job in jobs]
        trained = train_regressors(tables, validation, members, self.hidden, self.plan, self.loss)
        own = len(members) // len(jobs)
        return [
            (_of_members(trained, range(start, start + own)), members[start : start + own])
            for start in range(0, len(members), own)
        ]


def _train_together(
    estimators: Sequence[StackedMLPRegressor], prepared: Sequence[_Prepared], n_jobs: int | None = None
) -> None:
    """Train estimators that differ in their rows and seeds only. Those with as many features share a stack."""
    features = [each.units.encoder.n_features for each in prepared]
    for count in dict.fromkeys(features):
        places = [place for place, each in enumerate(features) if each == count]
        _train_stack([estimators[place] for place in places], [prepared[place] for place in places], n_jobs)


def _train_stack(estimators: Sequence[StackedMLPRegressor], prepared: Sequence[_Prepared], n_jobs: int | None) -> None:
    first = estimators[0]
    # the loss in the units of the engine is one for the stack, so all need the same scale of the target
    scale = float(np.mean([each.units.target_scale for each in prepared]))
    units = [replace(each.units, target_scale=scale) for each in prepared]
    tables = [engine_table(unit, each.train, each.shuffle) for unit, each in zip(units, prepared, strict=True)]
    validation = [engine_table(unit, each.held_out) for unit, each in zip(units, prepared, strict=True)]
    jobs = list(zip(of_equal_length(tables), of_equal_length(validation), [e.seeds for e in prepared], strict=True))
    rates = learning_rates(first.learning_rate)
    processes = min(int(effective_n_jobs(n_jobs)), len(jobs))
    with progress_bar("training", first.epochs, show=first.verbose) as report:
        on_epoch = report if processes == 1 else None  # a callable of another process could not show anything
        plan = TrainingPlan(first.epochs, batch_size=first.batch_size, decay=first.decay, on_epoch=on_epoch)
        train = _Training(tuple(first.hidden), rates, plan, units[0].engine_loss)
        chunks = [jobs[len(jobs) * i // processes : len(jobs) * (i + 1) // processes] for i in range(processes)]
        parts = [train(jobs)] if processes == 1 else Parallel(processes)(delayed(_in_process)(train, c) for c in chunks)
    results = [result for part in parts for result in part]
    for estimator, unit, (trained, members) in zip(estimators, units, results, strict=True):
        estimator._keep(unit, trained, members)


def _in_process(train: _Training, jobs: Sequence[tuple[Table, Table, Sequence[int]]]) -> Any:
    with one_thread():
        return train(jobs)


def _of_members(trained: Trained, members: range) -> Trained:
    """Return the results of consecutive members, without the history."""
    some = slice(members.start, members.stop)
    diverged = {member - members.start: epoch for member, epoch in trained.diverged.items() if member in members}
    regressor = trained.regressor.take(members)
    return Trained(regressor, None, trained.loss[some], trained.epoch[some], trained.history[:0], diverged)
