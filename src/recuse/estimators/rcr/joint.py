"""RcRRegressor: the paper's method - rows and costs in, a regressor and a rejector trained on a surrogate loss out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse import losses
from recuse.costs import Cost
from recuse.engine.best_epoch import Trained
from recuse.engine.cost_range import CostRange
from recuse.engine.loop import train_pairs
from recuse.engine.members import Member
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import Stack, outputs
from recuse.engine.user_modules import NetworkFactory
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.rate_search import best_trials, divide, draw_seeds, engine_table, learning_rates, report_diverged
from recuse.estimators.rcr.crossfit import CrossFit, FoldRegressors
from recuse.estimators.rcr.members import PairMaker, check_going_on, check_pair_parameters, joint_only
from recuse.estimators.rcr.online import Stream
from recuse.estimators.rcr.rejector_inputs import Sight, costs_within, read_range
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.surrogates import CarriesSurrogates, Surrogate
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units

__all__ = ["RcRRegressor"]

Floats = NDArray[np.float64]


class RcRRegressor(CarriesSurrogates, RejectingRegressor):
    """Regression with cost-based rejection by a surrogate loss and Slow-Start.

    A regressor h and a rejector r of the same shape are trained together on
    ``(h - y)^2 * l(r, -1) + c * l(r, +1)``, after a while in which h is trained alone. The method is that of
    Cheng et al., "Regression with Cost-based Rejection", NeurIPS 2023. Another loss may take the place of the squared
    error, and there may be several targets; `recuse.losses` says what of the theory then still holds.

    Parameters
    ----------
    cost : float, array-like, callable, str or tuple (low, high), default=1.0
        What a rejection costs, in squared units of the target or those of `loss`: a number, a callable of `X`, the name
        of a column of `X` (which is then no feature), or, given to `fit`, one value per row. Where the cost
        varies by row it is also an input of the rejector, and any cost can be asked for in `decide`. A tuple of two
        numbers is a range: one training, with ``residuals="crossfit"``, serves every cost from low to high.
    surrogate : str, Surrogate or callable, default="mae"
        The binary loss: "mae", "hinge", "square", "logistic", "sigmoid", or your own; see
        `recuse.surrogates`.
    network : {"mlp", "linear"} or callable, default="mlp"
        A callable gets the number of inputs and returns a ``torch.nn.Module`` with one output; for several targets the
        regressor's gets their number as well and returns one with so many.
    hidden : tuple of int, default=(20, 30, 10)
        Widths of the hidden layers of "mlp".
    epochs : int, default=1000
    slow_start : int or "auto", default=200
        Epochs in which the regressor trains alone, at most half of them; "auto" waits until its validation error
        stops improving. Of no effect with "crossfit", where regressors and then rejectors train for all epochs.
    batch_size : int, default=1024
    learning_rate : float or sequence of float, default=(0.1, 0.01, 0.001)
        All are tried side by side; the validation loss chooses.
    n_members : int, default=1
        Members of the ensemble; by "crossfit", regressors of each fold and rejectors of all folds, rounded up to
        equally many of each. They differ in their initial weights; predictions and clipped scores are averaged.
    validation_fraction : float, default=0.25
        Share of the rows given to `fit` that choose epoch and learning rate, unless `fit` is given others. By
        "crossfit", each fold sets such a share of its own rows aside, to choose its regressors.
    scale_target : bool, default=True
        Standardise the target (and the cost with it) inside; the results stay in the user's units.
    warm_start : bool, default=False
        Let another `fit` go on from the present networks, as many as there are, without Slow-Start.
    random_state : int, RandomState or None, default=None
    device : str, default="cpu"
        Where to train; networks this small are usually fastest on the CPU.
    residuals : {"train", "crossfit"}, default="train"
        The errors a rejector learns from. "train" is the paper's joint training: the errors are those of the rows h is
        fitted to, which are too small where h overfits. "crossfit" trains regressors without each fold, with h their
        mean, then rejectors on the errors on rows left out: of all folds but one, which they are tried on, and of the
        validation rows given to `fit`. All of a learning rate stop at the epoch that is best over all folds.
        They see h(x) and, with several members, the logarithm of their disagreement besides the features.
    cv : int, splitter or iterable of (train, test), default=5
        The folds of "crossfit", with every row in one test part. A number divides the distinct rows to train on at
        random.
    verbose : bool, default=False
        Show a progress bar.
    loss : str or TargetLoss, default="squared"
        Of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. With several
        targets, its mean over them; they are not weighted, so bring them to units in which errors count alike.

    Attributes
    ----------
    cost_ : the cost fitted for
    loss_ : TargetLoss
    validation_loss_ : float
        RcR loss on the validation rows or, by "crossfit", of rejectors on their own fold; mean over the members, in the
        user's units or, for a range of costs, in units of the cost and averaged over the range.
    learning_rate_, best_epoch_ : list
        Chosen for each member; by "crossfit", where all choose together, of each rejector, fold by fold.
    history_ : ndarray of shape (n_epochs, n_members), by "crossfit" (n_epochs, n_rejectors)
        The loss that chooses, by epoch, from the end of Slow-Start.
    diverged_ : list of tuple
        (member, learning rate, epoch) of every training that met infinite values and was dropped. By "crossfit", the
        regressors count first, fold by fold, then the rejectors likewise.
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
        residuals: Literal["train", "crossfit"] = "train",
        cv: Any = 5,
        loss: LossLike = "squared",
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
        self.residuals = residuals
        self.cv = cv
        self.loss = loss

    _several_targets = True
    _stream: Stream | None = None
    _sight: Sight | None = None  # what rejectors see, if it is more than the regressors
    _folds: FoldRegressors | None = None  # handed from cost to cost by `fit_costs`, while it fits
    _hands_on_folds = False

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Any, ...] | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train the pair.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        cost : float, array-like, callable, str or tuple (low, high), optional
            Takes the place of the parameter `cost`.
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y) or (X, y, cost), optional
            Rows that take the place of `validation_fraction`; the third is needed where `cost` has one value per row.
        groups : array-like of shape (n_rows,), optional
            Rows of one group stay together when rows are split into folds or held out for validation. By default rows
            with equal features are a group.
        """
        with self._all_or_nothing():
            check_pair_parameters(self)
            going_on = self.warm_start and hasattr(self, "regressor_")
            chosen_cost = self.cost if cost is None else cost
            costs = read_range(chosen_cost, self.residuals)
            row_cost = chosen_cost if costs is None else costs.low  # within a range, rows meet their costs in training
            cv = self.cv if self.residuals == "crossfit" else None
            rows = self._training_rows(X, y, row_cost, sample_weight, groups=groups, cv=cv, reset=not going_on)
            random = check_random_state(self.random_state)
            seeds = draw_seeds(random, self._count_members(going_on) + 1)
            train, held_out = self._divide(rows, validation, row_cost, random, ranged=costs is not None)
            self._learn_translation(train, rows, row_cost, going_on)
            self.cost_, self._stream = chosen_cost, None
            trained, members = self._train(train, held_out, seeds, costs, going_on=going_on)
            self._keep(trained, members)
        return self

    @joint_only
    def partial_fit(
        self, X: Any, y: ArrayLike, cost: Cost | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one epoch on these rows, and keep what was learned before, here or in `fit`.

        Unless the model comes from `fit`, the first `slow_start` calls train the regressor alone. Each call but the
        first measures the present networks on the new rows before it trains, which chooses among the learning rates;
        there is no other validation.

        Parameters
        ----------
        X, y, cost, sample_weight : as in `fit`
            Columns, categories and scales are learned from the first call, and a constant cost stays what it was.
        """
        with self._all_or_nothing():
            going_on = hasattr(self, "regressor_")
            chosen_cost = self.cost if cost is None else cost
            if self._stream is None:
                check_pair_parameters(self)
            read_range(chosen_cost, self.residuals)
            rows = self._training_rows(X, y, chosen_cost, sample_weight, reset=not going_on)
            self._learn_translation(rows, rows, chosen_cost, going_on)
            if self._stream is None:
                self._stream = self._new_stream(going_on)
            self._stream.learn(engine_table(self._units, rows), self.batch_size)
            chosen = self._choose(self._stream.loss)
            self._adopt(self._stream.regressor.take(chosen), self._stream.rejector.take(chosen))
        return self

    def _predictions(self, rows: Any) -> Floats:
        """Give h(x), the mean over the members."""
        return self._units.prediction(outputs(self.regressor_, self._units.features(rows)).mean(axis=0))

    def _judge(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Give h(x) and the mean of the clipped scores of the members."""
        features = self._units.features(rows)
        predictions = outputs(self.regressor_, features)  # (member, row)
        score: Floats = outputs(self.rejector_, self._rejector_inputs(features, predictions, cost))
        if self._costs is not None:
            score = score + self._costs.offset(torch.as_tensor(cost)).numpy()
        if len(score) > 1:
            # beyond +-1 a surrogate no longer measures confidence; clip, so that no member dominates the mean
            score = score.clip(-1, 1)
        return self._units.prediction(predictions.mean(axis=0)), np.asarray(score.mean(axis=0))

    @property
    def serves_any_cost(self) -> bool:
        """Whether any cost, or any within the range of `fit`, can be asked for: where it varied in training."""
        check_is_fitted(self)
        return self._units.log_cost is not None or self._costs is not None

    @property
    def _costs(self) -> CostRange | None:
        """The range of costs fitted for, if there is one."""
        return None if self._sight is None else self._sight.costs

    def _cost_of_rows(self, cost: Cost | None, X: Any, rows: Any) -> Floats:
        if self._costs is None:
            return super()._cost_of_rows(cost, X, rows)
        return costs_within(self._costs, cost, X, len(rows))

    def _rejector_inputs(self, features: Floats, predictions: Floats, cost: Floats) -> Floats:
        """Give the inputs of the rejectors (row, input)."""
        if self._sight is None:
            return self._units.rejector_features(features, cost)
        return self._sight.of_new_rows(features, predictions, cost)

    def _count_members(self, going_on: bool) -> int:
        return len(self.regressor_) if going_on else self.n_members

    def _learn_translation(self, train: Rows, everything: Rows, cost: Cost, going_on: bool) -> None:
        """Learn scales and columns, or check that what was learned before will do."""
        if going_on:
            check_going_on(self, cost, streaming=self._stream is not None, crossfitted=self._sight is not None)
        else:
            self.loss_, scaled = losses.get(self.loss), self.scale_target
            self._units = Units.learn(train, everything, cost, scale_target=scaled, loss=self.loss_)
        self.cost_ = cost

    def _new_stream(self, going_on: bool) -> Stream:
        seeds = draw_seeds(check_random_state(self.random_state), self._count_members(going_on))
        slow_start = 0 if going_on else self.slow_start
        if slow_start == "auto":
            raise ValueError("partial_fit has no validation rows to watch: slow_start must be an int, got 'auto'")
        members, loss = self._maker().members(seeds, self.cost_), self._units.engine_loss
        return Stream(members, self._networks(going_on), slow_start, loss)

    def _divide(
        self, rows: Rows, validation: tuple[Any, ...] | None, cost: Cost, random: np.random.RandomState, *, ranged: bool
    ) -> tuple[Rows, Rows | None]:
        """Give the rows to train on and the rows to choose by; in cross-fitting each fold may set its own aside."""
        if validation is None and self.residuals == "crossfit":
            return rows, None
        if validation is None:
            return divide(rows, self.validation_fraction, random)
        rows = replace(rows, weight=rows.weight / rows.weight.mean())  # a validation row counts as the mean of them
        return rows, self._validation_rows(validation, cost, with_cost=not ranged)

    def _maker(self) -> PairMaker:
        rates = learning_rates(self.learning_rate)
        return PairMaker(self._units, self.network, self.hidden, self.device, self.surrogate, rates)

    def _networks(self, going_on: bool) -> Networks:
        return self._maker().again(self.regressor_, self.rejector_) if going_on else self._maker().new()

    def _train(
        self, train: Rows, held_out: Rows | None, seeds: Sequence[int], costs: CostRange | None, *, going_on: bool
    ) -> tuple[Trained, list[Member]]:
        """Give the outcome of all trainings, and what was trained."""
        members, crossfit = self._maker().members(seeds[1:], self.cost_), self.residuals == "crossfit"
        stages = 2 if crossfit else 1  # regressors, then rejectors
        self._sight = None
        with progress_bar("training", stages * self.epochs, show=self.verbose) as tell:
            slow_start = 0 if going_on else self.slow_start
            plan = Plan(self.epochs, slow_start, self.batch_size, device=self.device, on_epoch=tell)
            if crossfit:
                way = CrossFit(self._maker(), self.cv, plan, self.validation_fraction, costs, self._folds)
                fitted = way.train(train, held_out, members, seeds[0])
                self._sight, self._folds = fitted.sight, fitted.folds if self._hands_on_folds else None
                return fitted.trained, fitted.members
            assert held_out is not None
            tables = [engine_table(self._units, train, seeds[0])], [engine_table(self._units, held_out)]
            return train_pairs(*tables, members, self._networks(going_on), plan, self._units.engine_loss), members

    def _keep(self, trained: Trained, members: list[Member]) -> None:
        """Choose a learning rate for each member and keep what a user may want to look at."""
        self.diverged_ = report_diverged(trained, members, len(learning_rates(self.learning_rate)))
        assert trained.rejector is not None
        chosen = self._choose(trained.loss)
        regressor = trained.regressor.take(chosen) if self._sight is None else trained.regressor
        self._adopt(regressor, trained.rejector.take(chosen))
        self.best_epoch_ = trained.epoch[chosen].tolist()
        self.history_ = self._in_units(trained.history[:, chosen])

    def _choose(self, loss: torch.Tensor) -> list[int]:
        """Find, for each member, the training of its best learning rate."""
        rates = learning_rates(self.learning_rate)
        chosen = best_trials(loss.cpu(), rates)
        self.learning_rate_ = [rates[trial % len(rates)] for trial in chosen]
        self.validation_loss_ = float(self._in_units(loss[chosen]).mean())
        return chosen

    def _adopt(self, regressor: Stack, rejector: Stack) -> None:
        # double precision from here on: the same row gives the same answer in any batch
        self.regressor_, self.rejector_ = regressor.to(torch.float64), rejector.to(torch.float64)

    def _in_units(self, loss: torch.Tensor) -> Floats:
        """Give losses in the user's units; for a range of costs, they stay in units of the cost."""
        values: Floats = loss.cpu().double().numpy()
        return values if self._costs is not None else self._units.loss(values)
