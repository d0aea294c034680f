"""StackedMLPRegressor: an ensemble of small networks trained together, without rejection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recuse import losses
from recuse.engine.best_epoch import Trained
from recuse.engine.loop import train_regressors
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Networks, Plan
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
    report_diverged,
)
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.tabular.encoder import Unseen
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units

__all__ = ["StackedMLPRegressor"]

Floats = NDArray[np.float64]

_COST = 1.0  # not used by a regressor without rejection


class StackedMLPRegressor(CheckedRegressor):
    """An ensemble of small ReLU networks, trained on the squared error or another loss.

    All members are trained at once, with every learning rate. The validation loss chooses the epoch of each training
    and the learning rate of each member. The prediction is the mean over the members. With several targets, each
    network has one output for each target.

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
    device : str, default="cpu"
    verbose : bool, default=False
        Show a progress bar.
    loss : str or TargetLoss, default="squared"
        Loss to minimise: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. For several
        targets, its unweighted mean over them.

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

    _several_targets = True

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
        device: str = "cpu",
        verbose: bool = False,
        loss: LossLike = "squared",
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
        self.device = device
        self.verbose = verbose
        self.loss = loss

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
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y), optional
            Rows that choose epoch and learning rate.

        Returns
        -------
        StackedMLPRegressor
        """
        with self._all_or_nothing():
            check_trial_parameters(self.get_params(deep=False))
            self.loss_ = losses.get(self.loss)
            rows = self._training_rows(X, y, _COST, sample_weight, sort=self.sort_rows)
            shuffle, seeds, random = member_seeds(self.random_state, self.n_members)
            train, held_out = self._divide(rows, validation, random)
            self._units = Units.learn(
                train, rows, _COST, scale_target=self.scale_target, loss=self.loss_, unseen=self.unseen
            )
            members = [Member(seed, rate) for seed in seeds for rate in learning_rates(self.learning_rate)]
            self._keep(self._train(train, held_out, members, shuffle), members)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict every row by the mean over the members.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return np.asarray(self.predict_members(X).mean(axis=0))

    def predict_members(self, X: Any) -> Floats:
        """Predict every row by each member; their spread measures the uncertainty of the ensemble.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_members, n_rows) or (n_members, n_rows, n_outputs)
        """
        rows = self._check_new_rows(X)
        features = self._units.features(rows)
        return self._units.prediction(outputs(self.regressor_, features))

    def _divide(
        self, rows: Rows, validation: tuple[Any, Any] | None, random: np.random.RandomState
    ) -> tuple[Rows, Rows]:
        """Return training rows and validation rows."""
        if validation is None:
            return divide(rows, self.validation_fraction, random)
        return rows, self._validation_rows(validation, _COST, with_cost=False, sort=self.sort_rows)

    def _train(self, train: Rows, held_out: Rows, members: list[Member], shuffle: int) -> Trained:
        units, hidden = self._units, tuple(self.hidden)
        inputs, n_outputs = units.encoder.n_features, units.n_outputs
        build = partial(StackedMLP, inputs=inputs, hidden=hidden, outputs=n_outputs, device=self.device)
        tables = [engine_table(units, train, shuffle)], [engine_table(units, held_out)]
        with progress_bar("training", self.epochs, show=self.verbose) as report:
            plan = Plan(epochs=self.epochs, batch_size=self.batch_size, device=self.device, on_epoch=report)
            return train_regressors(*tables, members, Networks(build, build), plan, units.engine_loss)

    def _keep(self, trained: Trained, members: list[Member]) -> None:
        """Choose a learning rate for each member, and set the fitted attributes."""
        rates = learning_rates(self.learning_rate)
        self.diverged_ = report_diverged(trained, members, len(rates))
        loss = trained.loss.cpu()
        chosen = best_trials(loss, rates)
        # double precision from here on: the same row gives the same answer in any batch
        self.regressor_ = trained.regressor.take(chosen).to(torch.float64)
        self.learning_rate_ = [members[trial].learning_rate for trial in chosen]
        self.best_epoch_ = trained.epoch[chosen].tolist()
        self.validation_loss_ = float(self._units.loss(loss[chosen].double().numpy()).mean())
