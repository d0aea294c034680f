"""RcRRegressor: regression with cost-based rejection by a surrogate loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from recuse import losses
from recuse.costs import Cost
from recuse.engine.plan import Plan
from recuse.engine.stack import Stack
from recuse.engine.user_modules import NetworkFactory
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.rate_search import RandomStateLike, divide, engine_table, learning_rates, member_seeds
from recuse.estimators.rcr.crossfit import CrossfitTraining
from recuse.estimators.rcr.joint import JointTraining
from recuse.estimators.rcr.networks import Aim, NetworkMaker
from recuse.estimators.rcr.online import OnlineTraining, online_seeds
from recuse.estimators.rcr.outcome import Outcome
from recuse.estimators.rcr.parameters import (
    CV,
    HIDDEN,
    Continuation,
    FitData,
    Recipe,
    check_continuation,
    check_parameters,
    choose_recipe,
    read_cost_range,
    trains_jointly,
)
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.rules.networks import RcRRule
from recuse.surrogates import CarriesSurrogates, SurrogateLike
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import Units

__all__ = ["RcRRegressor"]

Floats = NDArray[np.float64]

_COST = 1.0


class RcRRegressor(CarriesSurrogates, RejectingRegressor):
    """Regression with cost-based rejection by a surrogate loss.

    A regressor h predicts, and a rejector r decides which predictions to accept: those with r(x) > 0. Both are
    trained on ``(h - y)^2 * l(r, -1) + c * l(r, +1)``, where c is the cost of a rejection and l a binary loss. The
    regressor is first trained alone (Slow-Start). The method is that of Cheng et al., "Regression with
    Cost-based Rejection", NeurIPS 2023. With ``residuals="crossfit"`` the rejectors are trained on out-of-fold errors
    instead. By default, joint training is steadier than in the paper; see `recipe`. Other losses than the squared error
    and several targets are possible; see `recuse.losses`. `fit` warns if rejection does not pay on the validation rows,
    or if the cost is out of the range of the losses there.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, in squared units of the target or in the units of `loss`: a number, a callable of `X`, the
        name of a column of `X` (which is then not a feature), or, passed to `fit`, one value per row. A cost that
        varies by row is also an input of the rejector. `decide` then accepts any cost: a cost above those of
        the training rows is treated like the highest of them, and at cost 0 every row is rejected. A row that is
        accepted at one cost is accepted at every higher one.
    surrogate : str, Surrogate or callable, default="mae"
        The binary loss: "mae", "hinge", "square", "logistic", "sigmoid" or a custom one; see `recuse.surrogates`.
    network : {"mlp", "linear"} or callable, default="mlp"
        A callable takes the number of inputs and returns a ``torch.nn.Module`` with one output. For several targets it
        must also take the number of outputs, which is passed for regressors only: ``def f(inputs, outputs=1)``.
    hidden : tuple of int, default=(20, 30, 10)
        Widths of the hidden layers of "mlp".
    epochs : int, default=1000
        Number of epochs; in the recipe "steady" the maximum.
    slow_start : int or "auto", optional
        Epochs in which the regressor is trained on its own loss, at most half of all. "auto" waits until its validation
        error stops improving. By default "auto" in the recipe "steady", which also limits it to 1,500 steps, and
        otherwise 200. Only with ``residuals="train"``.
    batch_size : int, optional
        By default 128 in the recipe "steady", otherwise 1024.
    learning_rate : float or sequence of float, optional
        Rates to try; the validation loss chooses. By default (0.01, 0.003) if "steady", otherwise (0.1, 0.01, 0.001).
    n_members : int, default=5
        Size of the ensemble. Members differ in their initial weights; predictions and clipped scores are averaged. With
        "crossfit", the number of regressors of each fold, and the minimum total number of rejectors.
    validation_fraction : float, optional
        Share of the rows that choose epoch and learning rate, unless `fit` gets validation rows. By default 0.2 in the
        recipe "steady", where each member holds out other rows, and otherwise 0.25. With "crossfit", each fold holds
        out such a share of its training rows to choose its regressors.
    random_state : int, RandomState, None or sequence of int, default=None
        A sequence has one seed for each member; the first also seeds minibatches and the rows held out.
    verbose : bool, default=False
        Show a progress bar.
    scale_target : bool or "centre", default=True
        Train on the standardised target (True), the target minus its mean ("centre"), or the target as it is (False).
        Costs are scaled accordingly; all results are in the user's units.
    sort_rows : bool, default=True
        Merge equal rows and sort all rows before training. The order of the rows then does not matter, and a weight of
        two equals two copies. False keeps the order given.
    unseen : {"novel", "error", "keep"}, default="novel"
        A row is rejected if a cell has an unseen category, is missing in a column without missing values in training,
        or is a number far outside the training range. "error" raises a ValueError for the first two. "keep" uses
        cells as they are and rejects no row for them, as published protocols do.
    warm_start : bool, default=False
        Whether another `fit` continues from the trained networks, without Slow-Start. Only with ``residuals="train"``.
    device : str, default="cpu"
        Networks this small are usually fastest on the CPU.
    residuals : {"train", "crossfit"}, default="train"
        Errors that the rejector learns from. "train" is the joint training of the paper, with the errors on the
        training rows; they are too small where h overfits. "crossfit" trains regressors without each fold, whose mean
        is h, then rejectors on the out-of-fold errors. Their inputs are the features, h(x) and the disagreement.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of "crossfit". The test parts must not overlap; rows in none of them only train regressors.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. For several
        targets, its unweighted mean over them.
    cost_range : tuple (low, high), optional
        Fit once for all costs from low to high, instead of `cost`. Only with ``residuals="crossfit"``.
    recipe : {"steady", "paper"}, default="steady"
        How `fit` trains with ``residuals="train"``; "paper" is the published training. In "steady" the rejector learns
        in Slow-Start too, with the logistic loss; scores beyond -1 and 1 are penalised, which does not change the sign
        of the optimum; rejected rows keep half their weight in the loss of the regressor; the weights are averaged over
        the epochs; members hold out different rows, but their mean loss there chooses epoch and learning rate of all;
        training ends if no validation loss improves any more; and with 5,000 to 100,000 rows, features without effect
        on held-out rows are not used. Cross-fitting and `partial_fit` have the defaults of "paper".

    Attributes
    ----------
    cost_ : the cost fitted for; not set with `cost_range`
    cost_range_ : tuple (low, high) or None
    loss_ : TargetLoss
    regressor_, rejector_ : stacks of trained networks
    validation_loss_ : float
        RcR loss that chose epoch and learning rate, on the validation rows or, with "crossfit", on the own fold of each
        rejector; the mean over the members. With a range of costs, in units of the cost and averaged over the range.
    learning_rate_, best_epoch_ : list
        The choice for each member or, with "crossfit", for each rejector, ordered by fold.
    history_ : ndarray of shape (n_epochs, n_members or n_rejectors)
        The same loss by epoch, from the end of Slow-Start.
    diverged_ : list of tuple
        (member, learning rate, epoch) of every training that diverged; rejectors are numbered after regressors.
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from recuse import RcRRegressor, datasets
    >>> (X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RcRRegressor(cost=6.0, epochs=100, random_state=0).fit(X, y)
    >>> measures = model.decide(X_test).evaluate(y_test)
    >>> measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
    True
    >>> ranged = RcRRegressor(cost_range=(4.0, 13.0), residuals="crossfit", epochs=30, cv=2, random_state=0).fit(X, y)
    >>> ranged.decide(X_test, cost=5.0).rejection_rate >= ranged.decide(X_test, cost=12.0).rejection_rate
    True
    """

    def __init__(
        self,
        cost: Cost = _COST,
        surrogate: SurrogateLike = "mae",
        network: Literal["mlp", "linear"] | NetworkFactory = "mlp",
        hidden: Sequence[int] = HIDDEN,
        epochs: int = 1000,
        slow_start: int | Literal["auto"] | None = None,
        batch_size: int | None = None,
        learning_rate: float | Sequence[float] | None = None,
        n_members: int = 5,
        validation_fraction: float | None = None,
        random_state: RandomStateLike = None,
        verbose: bool = False,
        *,
        scale_target: bool | Literal["centre"] = True,
        sort_rows: bool = True,
        unseen: Unseen = "novel",
        warm_start: bool = False,
        device: str = "cpu",
        residuals: Literal["train", "crossfit"] = "train",
        cv: Any = CV,
        loss: LossLike = "squared",
        cost_range: tuple[float, float] | None = None,
        recipe: Literal["steady", "paper"] = "steady",
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
        self.sort_rows = sort_rows
        self.unseen = unseen
        self.warm_start = warm_start
        self.device = device
        self.residuals = residuals
        self.cv = cv
        self.loss = loss
        self.cost_range = cost_range
        self.recipe = recipe

    _several_targets = True
    rule_: RcRRule
    _online: OnlineTraining | None = None

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Any, ...] | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train regressors and rejectors.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        cost : float, array-like, callable or str, optional
            Used instead of the parameter `cost`.
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y) or (X, y, cost), optional
            Rows used instead of `validation_fraction`; the costs are needed if `cost` has one value per row.
        groups : array-like of shape (n_rows,), optional
            Rows of one group stay together when rows are split into folds or held out for validation. By default rows
            with equal features are a group.
        """
        chosen = self.cost if cost is None else cost
        with self._all_or_nothing():
            (outcome,) = self._train_all(FitData(X, y, sample_weight, validation, groups), [chosen], [self.surrogate])
            self._adopt(outcome, chosen)
        outcome.warn(stacklevel=3)
        return self

    @available_if(trains_jointly)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: Any, y: ArrayLike, cost: Cost | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one epoch on these rows, starting from the trained networks if there are any.

        Unless the model comes from `fit`, the first `slow_start` calls train the regressor alone. Each call but the
        first evaluates the networks on the new rows before training on them. These losses choose the learning rate;
        there is no other validation. An interrupted call has no effect.

        Parameters
        ----------
        X, y, cost, sample_weight : as in `fit`
            Columns, categories and scales are learned in the first call, and a constant cost stays the same.
        """
        chosen = self.cost if cost is None else cost
        with self._all_or_nothing():
            parameters = self.get_params(deep=False)
            if self._online is None:
                check_parameters(parameters)
            recipe = choose_recipe(parameters, online=True)
            model = self._model_to_continue(chosen, warm=True, online=self._online is not None)
            rows = self._training_rows(X, y, chosen, sample_weight, reset=model is None, sort=self.sort_rows)
            units = self._learn_units(rows, rows, chosen, model)
            online = self._online
            if online is None:
                training = JointTraining(self._maker(), learning_rates(recipe.learning_rate), Plan(), model)
                count = recipe.n_members if model is None else len(model.regressor)
                seeds = online_seeds(self.random_state, count)
                slow_start = recipe.slow_start if model is None else 0
                online = OnlineTraining.start(training, units, Aim.of(chosen, self.surrogate), seeds, slow_start)
            self._online = online.trained_on(engine_table(units, rows), recipe.batch_size)
            self.rule_ = self._online.best_rule(units, rows.cost, None if model is None else model.grid)
            self.cost_, self.learning_rate_ = chosen, self._online.chosen_rates
            self.validation_loss_ = self._online.loss_in(units)
        return self

    @property
    def regressor_(self) -> Stack:
        """The trained regressors."""
        return self.rule_.regressor

    @property
    def rejector_(self) -> Stack:
        """The trained rejectors."""
        return self.rule_.rejector

    @property
    def serves_any_cost(self) -> bool:
        """Whether `decide` accepts any cost, or any cost of the range: if the cost varied in training."""
        check_is_fitted(self)
        return self.cost_range_ is not None or self.rule_.units.log_cost is not None

    def _train_all(self, data: FitData, costs: Sequence[Cost], surrogates: Sequence[SurrogateLike]) -> list[Outcome]:
        """Train for each cost with each surrogate, on the same rows and seeds; several costs must be numbers."""
        parameters = self.get_params(deep=False)
        check_parameters(parameters)
        recipe, crossfit = choose_recipe(parameters), self.residuals == "crossfit"
        cost_range = read_cost_range(self.cost_range, costs[0], _COST)
        row_cost = costs[0] if cost_range is None else cost_range.low  # training draws costs from the range
        start = self._model_to_continue(row_cost, warm=self.warm_start, online=False)
        cv, new = self.cv if crossfit else None, start is None
        rows = self._training_rows(
            data.X, data.y, row_cost, data.sample_weight, groups=data.groups, cv=cv, reset=new, sort=self.sort_rows
        )
        if start is not None:
            recipe = replace(recipe, n_members=len(start.regressor), slow_start=0)
        shuffle, seeds, random = member_seeds(self.random_state, recipe.n_members)
        splits = self._splits(rows, data, row_cost, recipe, random)
        train, held_out = splits[0]
        units = self._learn_units(train if len(splits) == 1 else rows, rows, row_cost, start)
        aims = [Aim.of(None if cost_range else cost, surrogate) for cost in costs for surrogate in surrogates]
        stages = 1 + len(aims) if crossfit else 1
        with progress_bar("training", stages * self.epochs, show=self.verbose) as report:
            plan = recipe.plan(self.epochs, self.device, report)
            maker, rates = self._maker(), learning_rates(recipe.learning_rate)
            if crossfit:
                training = CrossfitTraining(maker, rates, plan, self.cv, recipe.validation_fraction, cost_range)
                return training.fit(units, train, held_out, aims, seeds, shuffle)
            pairs = [(learning, chosen_by) for learning, chosen_by in splits if chosen_by is not None]
            return JointTraining(maker, rates, plan, start).fit(units, pairs, aims, seeds, shuffle)

    def _maker(self) -> NetworkMaker:
        return NetworkMaker(self.network, self.hidden, self.device)

    def _adopt(self, outcome: Outcome, cost: Cost) -> None:
        """Set the fitted attributes from the result of a training."""
        self.rule_, self._online = outcome.rule, None
        self.loss_ = outcome.rule.units.target_loss
        self.cost_range_ = None if self.cost_range is None else (float(self.cost_range[0]), float(self.cost_range[1]))
        self.__dict__.pop("cost_", None)
        if self.cost_range is None:
            self.cost_ = cost
        self.learning_rate_, self.best_epoch_ = outcome.learning_rate, outcome.best_epoch
        self.validation_loss_, self.history_ = outcome.validation_loss, outcome.history
        self.diverged_ = outcome.diverged

    def _model_to_continue(self, cost: Cost, *, warm: bool, online: bool) -> RcRRule | None:
        """Return the model that training continues from, or None to start with new networks."""
        model: RcRRule | None = getattr(self, "rule_", None)
        if model is None or not warm:
            return None
        name = type(self).__name__
        if model.inputs is not None:
            raise ValueError(
                f"{name} was fitted with residuals='crossfit' and cannot continue training: fit a new estimator"
            )
        now = Continuation(losses.get(self.loss), cost)
        check_continuation(name, now, Continuation(model.units.target_loss, self.cost_), online=online)
        return model

    def _learn_units(self, train: Rows, rows: Rows, cost: Cost, model: RcRRule | None) -> Units:
        """Learn columns and scales, or keep those of the model that training continues from."""
        if model is not None:
            return model.units
        loss = self.loss_ = losses.get(self.loss)
        return Units.learn(train, rows, cost, scale_target=self.scale_target, loss=loss, unseen=self.unseen)

    def _splits(
        self, rows: Rows, data: FitData, cost: Cost, recipe: Recipe, random: np.random.RandomState
    ) -> list[tuple[Rows, Rows | None]]:
        """Return training and validation rows, for all members or for each of them."""
        if data.validation is not None:
            # validation rows have weight 1
            rows = replace(rows, weight=rows.weight / rows.weight.mean())
            given, with_cost = data.validation, self.cost_range is None
            return [(rows, self._validation_rows(given, cost, with_cost=with_cost, sort=self.sort_rows))]
        if self.residuals == "crossfit":
            return [(rows, None)]  # each fold holds out its own
        times = recipe.n_members if recipe.steady else 1
        return [divide(rows, recipe.validation_fraction, random) for _ in range(times)]
