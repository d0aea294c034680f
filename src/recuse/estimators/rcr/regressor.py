"""RcRRegressor: joint training of a regressor and a rejector on a surrogate loss, section 3 of the paper."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from recuse import losses
from recuse.costs import Cost, is_constant, row_values
from recuse.estimators.rate_search import RandomStateLike, divide, learning_rates, member_seeds
from recuse.estimators.rcr.pair import PairRegressor, TrainedPair
from recuse.estimators.rcr.training import Aim, Chosen, PairTraining
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.rules.networks import CostGrid, RcRRule
from recuse.surrogates import SurrogateLike
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import Units
from recuse.validation import is_count, require

# Default of `hidden`, which has no effect on linear networks.
_HIDDEN = (20, 30, 10)


class RcRRegressor(PairRegressor):
    """Regression with cost-based rejection by a surrogate loss.

    A regressor h predicts, and a rejector r decides which predictions to accept: those with r(x) > 0. Both are
    trained on ``psi = (h - y)^2 * l(r, -1) + c * l(r, +1)``, where c is the cost of a rejection and l a binary loss.
    The regressor is first trained alone (Slow-Start), because a rejector that learns faster than the regressor rejects
    everything. The method is that of Cheng et al., "Regression with Cost-based Rejection", NeurIPS 2023, on a
    standardised target. `fit` warns if rejection does not pay on the validation rows, or if the cost is out of the
    range of the losses there.

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
    network : {"mlp", "linear"}, default="mlp"
        For networks of your own, see `recuse.TwoHeads` and `recuse.RejectionLoss`.
    hidden : tuple of int, default=(20, 30, 10)
        Widths of the hidden layers of "mlp".
    epochs : int, default=1000
        Number of epochs.
    slow_start : int, default=200
        Epochs in which the regressor is trained alone on its own loss, at most half of all.
    batch_size : int, default=1024
    learning_rate : float or sequence of float, default=(0.1, 0.01, 0.001)
        Rates to try; the validation loss chooses.
    n_members : int, default=1
        Size of the ensemble. Members differ in their initial weights; predictions and clipped scores are averaged.
    validation_fraction : float, default=0.25
        Share of the rows that choose epoch and learning rate, unless `fit` gets validation rows.
    random_state : int, RandomState, None or sequence of int, default=None
        A sequence has one seed for each member; the first also seeds minibatches and the rows held out.
    verbose : bool, default=False
        Show a progress bar.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`.
    unseen : {"novel", "error", "keep"}, default="novel"
        A row is rejected if a cell has an unseen category, is missing in a column without missing values in training,
        or is a number far outside the training range. "error" raises a ValueError for the first two. "keep" uses
        cells as they are and rejects no row for them, as published protocols do.

    Attributes
    ----------
    cost_ : the cost fitted for
    loss_ : TargetLoss
    regressor_, rejector_ : stacks of trained networks
    validation_loss_ : float
        Mean over the members of the RcR loss on the validation rows that chose epoch and learning rate.
    learning_rate_, best_epoch_ : list
        The choice for each member.
    history_ : ndarray of shape (n_epochs, n_members)
        The same loss by epoch, from the end of Slow-Start.
    diverged_ : list of tuple
        (member, learning rate, epoch) of every training that diverged.
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from recuse import RcRRegressor, datasets
    >>> (X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RcRRegressor(cost=6.0, epochs=300, random_state=0).fit(X, y)
    >>> measures = model.decide(X_test).evaluate(y_test)
    >>> measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
    True
    """

    def __init__(
        self,
        cost: Cost = 1.0,
        surrogate: SurrogateLike = "mae",
        network: Literal["mlp", "linear"] = "mlp",
        hidden: Sequence[int] = _HIDDEN,
        epochs: int = 1000,
        slow_start: int = 200,
        batch_size: int = 1024,
        learning_rate: float | Sequence[float] = (1e-1, 1e-2, 1e-3),
        n_members: int = 1,
        validation_fraction: float = 0.25,
        random_state: RandomStateLike = None,
        verbose: bool = False,
        *,
        loss: LossLike = "squared",
        unseen: Unseen = "novel",
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
        self.loss = loss
        self.unseen = unseen

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
        y : array-like of shape (n_rows,)
        cost : float, array-like, callable or str, optional
            Used instead of the parameter `cost`.
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y) or (X, y, cost), optional
            Rows used instead of `validation_fraction`; the costs are needed if `cost` has one value per row.
        groups : array-like of shape (n_rows,), optional
            Rows of one group are held out for validation together. By default rows with equal features are a group.
        """
        chosen = self.cost if cost is None else cost
        with self._all_or_nothing():
            rows = self._checked_rows(X, y, chosen, sample_weight, validation, groups)
            (trained,) = self._train(*rows, [Aim.of(chosen, self.surrogate)])
            self._adopt(trained, chosen)
        trained.warn(stacklevel=3)
        return self

    def _checked_rows(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Any, ...] | None = None,
        groups: ArrayLike | None = None,
    ) -> tuple[Rows, Rows | None]:
        """Check the parameters and the arguments of `fit`; return training rows and any validation rows."""
        self._check_parameters()
        rows = self._training_rows(X, y, cost, sample_weight, groups=groups)
        return rows, None if validation is None else self._validation_rows(validation, cost)

    def _train(
        self, rows: Rows, held_out: Rows | None, aims: Sequence[Aim], *, scale_target: bool | Literal["centre"] = True
    ) -> list[TrainedPair]:
        """Train the pairs (h, r) of each aim on the same rows, from the same initial weights."""
        shuffle, seeds, random = member_seeds(self.random_state, self.n_members)

        # Rows to train on, and rows that choose epoch and learning rate.
        train, held_out = divide(rows, self.validation_fraction, random) if held_out is None else (rows, held_out)

        # Features, target and costs are standardised. A cost that varies by row is also an input of the rejectors.
        cost = train.cost if aims[0].cost is None else aims[0].cost
        units = Units.learn(
            train, rows, cost, scale_target=scale_target, loss=losses.get(self.loss), unseen=self.unseen
        )
        grid = None if units.log_cost is None else CostGrid.of(np.append(train.cost, held_out.cost))

        # Slow-Start: h alone on (h - y)^2, with r frozen. Then both on psi. The RcR loss on the held-out rows, where r
        # decides, chooses the epoch after Slow-Start and the learning rate of each member.
        with progress_bar("training", self.epochs, show=self.verbose) as report:
            training = PairTraining(
                self.hidden if self.network == "mlp" else (),
                learning_rates(self.learning_rate),
                seeds,
                shuffle,
                self.epochs,
                self.batch_size,
                self.slow_start,
                report,
            )
            chosen = training.pairs(units, train, held_out, aims)

        # The mean prediction of the members is accepted where the mean of their scores is above zero.
        rules = [RcRRule(units, pairs.stacks[0], pairs.stacks[1], grid) for pairs in chosen]
        return [_tried(*parts, held_out) for parts in zip(rules, chosen, aims, strict=True)]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(is_count(self.slow_start, least=0), "slow_start", "an int >= 0", self.slow_start)
        require(self.network in ("mlp", "linear"), "network", "'mlp' or 'linear'", self.network)
        has_effect = self.network == "mlp" or tuple(self.hidden) == _HIDDEN
        require(has_effect, "hidden", "left at its default unless network='mlp'", self.hidden)


def _tried(rule: RcRRule, chosen: Chosen, aim: Aim, held_out: Rows) -> TrainedPair:
    """Compare the decisions of the ensemble on the held-out rows with accepting or rejecting all of them."""
    units, features = rule.units, rule.units.features(held_out.X)
    predictions, cost = rule.predictions(features), aim.costs_of(held_out)
    errors = units.errors(predictions.mean(axis=0), held_out)
    decided = np.where(rule.scores(features, predictions, cost) > 0, errors, cost)
    rcr_loss, accept, reject = (float(np.average(each, weights=held_out.weight)) for each in (decided, errors, cost))
    return TrainedPair(
        rule,
        chosen,
        validation_loss=float(units.loss(chosen.loss).mean()),
        history=units.loss(chosen.history),
        rcr_loss=rcr_loss,
        always_accept=accept,
        always_reject=reject,
        losses=errors,
        costs=cost,
    )


def fit_costs(
    model: RcRRegressor,
    X: Any,
    y: ArrayLike,
    costs: Sequence[float],
    surrogates: Sequence[SurrogateLike] | None = None,
    *,
    validation: tuple[Any, Any] | None = None,
    scale_target: bool | Literal["centre"] = True,
) -> list[RcRRegressor]:
    """Fit an `RcRRegressor` at each of several costs, with each of several surrogates, for little more than one fit.

    Each model equals the result of `fit` at the same cost with the same surrogate. All are trained in one stack and
    share Slow-Start, which depends on neither cost nor surrogate.

    Parameters
    ----------
    model : RcRRegressor
        It is not changed.
    X, y, validation : as in `RcRRegressor.fit`
    costs : sequence of float
    surrogates : sequence of str, Surrogate or callable, optional
        By default the surrogate of `model`.
    scale_target : bool or "centre", default=True
        Train on the standardised target as `fit` does (True), on the target minus its mean ("centre"), or on the target
        as it is (False), as the paper's tables need.

    Returns
    -------
    list of RcRRegressor
        One for each cost and surrogate, ordered by cost, then by surrogate.

    Examples
    --------
    >>> from recuse import RcRRegressor, datasets
    >>> (X, y), validation, (X_test, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RcRRegressor(epochs=300, random_state=0)
    >>> models = fit_costs(model, X, y, costs=[6.0, 50.0], surrogates=["mae", "logistic"], validation=validation)
    >>> [(fitted.cost_, fitted.surrogate) for fitted in models]
    [(6.0, 'mae'), (6.0, 'logistic'), (50.0, 'mae'), (50.0, 'logistic')]
    >>> models[0].decide(X_test).rejection_rate > models[2].decide(X_test).rejection_rate
    True
    """
    chosen = [model.surrogate] if surrogates is None else list(surrogates)
    require(len(costs) > 0, "costs", "one cost or more", costs)
    require(len(chosen) > 0, "surrogates", "one surrogate or more", surrogates)
    for cost in costs:
        require(is_constant(cost), "costs", "numbers", cost)
        row_values(cost, "cost", 1)
    require(scale_target in (True, False, "centre"), "scale_target", "True, False or 'centre'", scale_target)
    shared = clone(model)
    rows = shared._checked_rows(X, y, costs[0], validation=validation)
    aims = [Aim.of(cost, surrogate) for cost in costs for surrogate in chosen]
    fitted = []
    for aim, trained in zip(aims, shared._train(*rows, aims, scale_target=scale_target), strict=True):
        fitted.append(copy.copy(shared).set_params(cost=aim.cost, surrogate=aim.surrogate))
        fitted[-1]._adopt(trained, aim.cost)
        trained.warn(stacklevel=3)
    return fitted
