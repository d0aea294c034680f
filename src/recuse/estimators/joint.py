"""RcRRegressor: the paper's method - a regressor and a rejector trained together on a surrogate loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse import surrogates
from recuse.costs import Cost, is_constant, needs_rows
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.parameters import is_count, require
from recuse.estimators.stream import Stream
from recuse.estimators.translation import Rows, Translation
from recuse.estimators.trials import (
    best_trials,
    check_trial_parameters,
    check_validation,
    divide,
    draw_seeds,
    in_validation,
    learning_rates,
    report_diverged,
)
from recuse.networks import LoopedModules, NetworkFactory, Stack, StackedMLP, outputs
from recuse.progress import progress_bar
from recuse.surrogates import Surrogate
from recuse.training.best import Trained
from recuse.training.stacked import Networks, Plan, train_pairs
from recuse.training.trainer import Member

__all__ = ["RcRRegressor"]

Floats = NDArray[np.float64]


class RcRRegressor(RejectingRegressor):
    """Regression with cost-based rejection by a surrogate loss and Slow-Start.

    A regressor h and a rejector r of the same shape are trained together on
    ``(h - y)^2 * l(r, -1) + c * l(r, +1)``, after a while in which h is trained alone. The method is that of
    Cheng et al., "Regression with Cost-based Rejection", NeurIPS 2023.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        What a rejection costs, in squared units of the target: a number, a callable of `X`, the name of a
        column of `X` (which is then no feature), or, given to `fit`, one value per row. Where the cost
        varies by row it is also an input of the rejector, and any cost can be asked for in `decide`.
    surrogate : str, Surrogate or callable, default="mae"
        The binary loss: "mae", "hinge", "square", "logistic", "sigmoid", or your own; see
        `recuse.surrogates`.
    network : {"mlp", "linear"} or callable, default="mlp"
        A callable gets the number of inputs and returns a ``torch.nn.Module`` with one output.
    hidden : tuple of int, default=(20, 30, 10)
        Widths of the hidden layers of "mlp".
    epochs : int, default=1000
    slow_start : int or "auto", default=200
        Epochs in which the regressor trains alone, at most half of them; "auto" waits until its validation error
        stops improving.
    batch_size : int, default=1024
    learning_rate : float or sequence of float, default=(0.1, 0.01, 0.001)
        All are tried side by side; the validation loss chooses.
    n_members : int, default=1
        Members of the ensemble. They differ in their initial weights; predictions and clipped scores are averaged.
    validation_fraction : float, default=0.25
        Share of the rows given to `fit` that choose epoch and learning rate, unless `fit` is given others.
    scale_target : bool, default=True
        Standardise the target (and the cost with it) inside; the results stay in the user's units.
    warm_start : bool, default=False
        Let another `fit` go on from the present networks, as many as there are, without Slow-Start.
    random_state : int, RandomState or None, default=None
    device : str, default="cpu"
        Where to train; networks this small are usually fastest on the CPU.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    cost_ : the cost fitted for
    validation_loss_ : float
        RcR loss on the validation rows, in the user's units, mean over the members.
    learning_rate_ : list of float
        The learning rate chosen for each member.
    best_epoch_ : list of int
        The epoch chosen for each member.
    history_ : ndarray of shape (n_epochs, n_members)
        Validation RcR loss of each member by epoch, from the end of Slow-Start.
    diverged_ : list of tuple
        (member, learning rate, epoch) of every training that met infinite values and was dropped.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Examples
    --------
    >>> from recuse import RcRRegressor, datasets
    >>> cars = datasets.load("auto_mpg")
    >>> (X, y), _, (X_test, y_test) = datasets.split(cars, repeat=0)
    >>> model = RcRRegressor(cost=6.0, epochs=100, random_state=0).fit(X, y)
    >>> decision = model.decide(X_test)
    >>> measures = decision.evaluate(y_test)
    >>> measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
    True
    """

    def __init__(
        self,
        cost: Cost = 1.0,
        surrogate: str | Surrogate = "mae",
        network: Literal["mlp", "linear"] | NetworkFactory = "mlp",
        hidden: Sequence[int] = (20, 30, 10),
        epochs: int = 1000,
        slow_start: int | Literal["auto"] = 200,
        batch_size: int = 1024,
        learning_rate: float | Sequence[float] = (1e-1, 1e-2, 1e-3),
        n_members: int = 1,
        validation_fraction: float = 0.25,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        *,
        scale_target: bool = True,
        warm_start: bool = False,
        device: str = "cpu",
    ) -> None:
        self.cost = cost
        self.surrogate = surrogate
        self.network = network
        self.hidden = hidden
        self.epochs = epochs
        self.slow_start = slow_start
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_members = n_members
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        self.scale_target = scale_target
        self.warm_start = warm_start
        self.device = device

    _stream: Stream | None = None

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Any, ...] | None = None,
    ) -> Self:
        """Train the pair.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,)
        cost : float, array-like, callable or str, optional
            Takes the place of the parameter `cost`.
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y) or (X, y, cost), optional
            Rows that choose epoch and learning rate; the third is needed where `cost` has one value per row.

        Returns
        -------
        RcRRegressor
        """
        with self._all_or_nothing():
            self._check_parameters()
            going_on = self.warm_start and hasattr(self, "regressor_")
            chosen_cost = self.cost if cost is None else cost
            rows = self._training_rows(X, y, chosen_cost, sample_weight, reset=not going_on)
            random = check_random_state(self.random_state)
            seeds = draw_seeds(random, self._count_members(going_on) + 1)
            train, held_out = self._divide(rows, validation, chosen_cost, random)
            self._learn_translation(train, rows, chosen_cost, going_on)
            members = self._members(seeds[1:])
            trained = self._train(train, held_out, members, shuffle=seeds[0], going_on=going_on)
            self._keep(trained, members)
            self._stream = None
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on these rows, and keep what was learned before, here or in `fit`.

        Unless the model comes from `fit`, the first `slow_start` calls train the regressor alone. Each call but the
        first measures the present networks on the new rows before it trains, which chooses among the learning rates;
        there is no other validation.

        Parameters
        ----------
        X, y, cost, sample_weight : as in `fit`
            Columns, categories and scales are learned from the first call, and a constant cost stays what it was.

        Returns
        -------
        RcRRegressor
        """
        with self._all_or_nothing():
            going_on = hasattr(self, "regressor_")
            chosen_cost = self.cost if cost is None else cost
            if self._stream is None:
                self._check_parameters()
            rows = self._training_rows(X, y, chosen_cost, sample_weight, reset=not going_on)
            self._learn_translation(rows, rows, chosen_cost, going_on)
            if self._stream is None:
                self._stream = self._new_stream(going_on)
            self._stream.learn(self._translation.table(rows), self.batch_size)
            self._choose(self._stream.regressor, self._stream.rejector, self._stream.loss)
        return self

    def predict(self, X: Any) -> Floats:
        """Give h(x) for every row, accepted or not; the mean over the members.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._check_new_rows(X)
        features = self._translation.features(rows)
        return self._translation.prediction(outputs(self.regressor_, features).mean(axis=0))

    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Give the rejector's score for every row, > 0 to accept; the mean of the clipped scores of the members.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Needed where the model was fitted with one cost per row.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._check_new_rows(X)
        features = self._translation.features(rows)
        seen = self._translation.rejector_features(features, self._cost_of_rows(rows, cost))
        score: Floats = outputs(self.rejector_, seen)  # (member, row)
        if len(score) > 1:
            # beyond +-1 a surrogate no longer says how sure its rejector is; clip, so that no member shouts
            score = score.clip(-1, 1)
        return np.asarray(score.mean(axis=0))

    @property
    def serves_any_cost(self) -> bool:
        """Whether any cost can be asked for: only where the cost varied by row in training."""
        check_is_fitted(self)
        return self._translation.log_cost is not None

    def _check_parameters(self) -> None:
        surrogates.get(self.surrogate)
        check_trial_parameters(self)
        waits = self.slow_start == "auto" or is_count(self.slow_start, least=0)
        require(waits, "slow_start", "an int >= 0 or 'auto'", self.slow_start)
        known = callable(self.network) or self.network in ("mlp", "linear")
        require(known, "network", "'mlp', 'linear' or a callable", self.network)

    def _count_members(self, going_on: bool) -> int:
        return len(self.regressor_) if going_on else self.n_members

    def _learn_translation(self, train: Rows, everything: Rows, cost: Cost, going_on: bool) -> None:
        """Learn scales and columns, or check that the cost suits what was learned before."""
        if not going_on:
            self._translation = Translation.learn(train, everything, cost, scale_target=self.scale_target)
        elif not self.serves_any_cost and not is_constant(cost):
            raise ValueError(
                f"{type(self).__name__} was first fitted for the constant cost {self.cost_}, "
                "so it cannot go on with a cost that varies by row: fit it afresh"
            )
        elif self._stream is not None and not self.serves_any_cost and cost != self.cost_:
            raise ValueError(f"partial_fit goes on at the cost of its first call, {self.cost_}, got {cost!r}")
        self.cost_ = cost

    def _new_stream(self, going_on: bool) -> Stream:
        seeds = draw_seeds(check_random_state(self.random_state), self._count_members(going_on))
        if going_on:
            return Stream(self._members(seeds), self._present_networks(), slow_start=0)
        return Stream(self._members(seeds), self._new_networks(), self._solo_calls())

    def _solo_calls(self) -> int:
        if self.slow_start == "auto":
            raise ValueError("partial_fit has no validation rows to watch: slow_start must be an int, got 'auto'")
        return self.slow_start

    def _learning_rates(self) -> list[float]:
        return learning_rates(self.learning_rate)

    def _divide(
        self, rows: Rows, validation: tuple[Any, ...] | None, cost: Cost, random: np.random.RandomState
    ) -> tuple[Rows, Rows]:
        """Give the rows to train on and the rows to choose by."""
        if validation is not None:
            return rows, self._validation_rows(validation, cost)
        return divide(rows, self.validation_fraction, random)

    def _validation_rows(self, validation: tuple[Any, ...], cost: Cost) -> Rows:
        check_validation(validation, {2: "(X, y)", 3: "(X, y, cost)"})
        if len(validation) == 2 and needs_rows(cost):
            raise ValueError("cost has one value per row, so validation needs its own: pass (X, y, cost)")
        with in_validation():
            X, y = self._check_training_rows(validation[0], validation[1], reset=False, min_rows=1)
            return Rows.check(X, y, cost if len(validation) == 2 else validation[2], None)

    def _members(self, seeds: Sequence[int]) -> list[Member]:
        """Every learning rate for every seed; the rates of one seed stand together."""
        constant = np.asarray(self.cost_, dtype=np.float64) if is_constant(self.cost_) else np.ones(())
        cost = float(self._translation.cost(constant))
        return [Member(seed, rate, cost, self.surrogate) for seed in seeds for rate in self._learning_rates()]

    def _new_networks(self) -> Networks:
        inputs = self._translation.encoder.n_features
        return Networks(self._builder(inputs), self._builder(inputs + (self._translation.log_cost is not None)))

    def _builder(self, inputs: int) -> Callable[[Sequence[int]], Stack]:
        if callable(self.network):
            return partial(LoopedModules, inputs=inputs, factory=self.network, device=self.device)
        hidden = tuple(self.hidden) if self.network == "mlp" else ()
        return partial(StackedMLP, inputs=inputs, hidden=hidden, device=self.device)

    def _present_networks(self) -> Networks:
        """The networks of the last fit, once for each learning rate."""
        rates = len(self._learning_rates())
        again = [member for member in range(len(self.regressor_)) for _ in range(rates)]

        def builder(stack: Stack) -> Callable[[Sequence[int]], Stack]:
            return lambda _: stack.to(torch.float32, self.device).take(again)

        return Networks(builder(self.regressor_), builder(self.rejector_))

    def _train(self, train: Rows, held_out: Rows, members: list[Member], *, shuffle: int, going_on: bool) -> Trained:
        networks = self._present_networks() if going_on else self._new_networks()
        tables = [self._translation.table(train, shuffle)], [self._translation.table(held_out)]
        with progress_bar("training", self.epochs, show=self.verbose) as tell:
            plan = Plan(
                epochs=self.epochs,
                slow_start=0 if going_on else self.slow_start,
                batch_size=self.batch_size,
                device=self.device,
                on_epoch=tell,
            )
            return train_pairs(*tables, members, networks, plan)

    def _keep(self, trained: Trained, members: list[Member]) -> None:
        """Choose a learning rate for each member and keep what a user may want to look at."""
        self.diverged_ = report_diverged(trained, members, len(self._learning_rates()))
        assert trained.rejector is not None
        chosen = self._choose(trained.regressor, trained.rejector, trained.loss.cpu())
        self.best_epoch_ = trained.epoch[chosen].tolist()
        self.history_ = self._translation.loss(trained.history[:, chosen].cpu().double().numpy())

    def _choose(self, regressor: Stack, rejector: Stack, loss: torch.Tensor) -> list[int]:
        """Keep, for each member, the networks of its best learning rate."""
        rates = self._learning_rates()
        chosen = best_trials(loss, rates)
        # double precision from here on: the same row gives the same answer in any batch
        self.regressor_ = regressor.take(chosen).to(torch.float64)
        self.rejector_ = rejector.take(chosen).to(torch.float64)
        self.learning_rate_ = [rates[trial % len(rates)] for trial in chosen]
        self.validation_loss_ = float(self._translation.loss(loss[chosen].double().numpy()).mean())
        return chosen
