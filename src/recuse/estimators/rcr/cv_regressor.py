"""RcRRegressorCV: rejectors trained on out-of-fold errors, for one cost or for all costs of a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, log
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse import losses
from recuse.costs import Cost, is_constant
from recuse.engine.cost_range import CostRange
from recuse.estimators.rate_search import RandomStateLike, learning_rates, member_seeds
from recuse.estimators.rcr.crossfit import FoldPredictions, error_rows, held_out_errors, learn_inputs, predict_folds
from recuse.estimators.rcr.pair import PairRegressor, TrainedPair
from recuse.estimators.rcr.training import Aim, Chosen, PairTraining
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.rules.networks import CostGrid, RcRRule
from recuse.surrogates import SurrogateLike
from recuse.tabular.folds import check_folds
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import Units
from recuse.validation import require

_COST = 1.0


class RcRRegressorCV(PairRegressor):
    """Regression with cost-based rejection by a surrogate loss, cross-fitted.

    The errors of a regressor on its training rows are too small to train a rejector on. So regressors are trained
    without each fold, and rejectors on the errors of the rows left out. The prediction is the mean of all
    regressors. The rejectors see the features, the prediction and the disagreement of the regressors. They are
    cross-fitted too: those of a fold are trained on the errors of the other folds and of any validation rows, and the
    mean loss of all folds on their own errors chooses epoch and learning rate. So every row is used for training and
    for validation. `fit` warns if rejection does not pay, as `RcRRegressor` does.

    Parameters
    ----------
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, as in `RcRRegressor`.
    cost_range : tuple (low, high), optional
        Fit once for all costs from low to high, instead of `cost`. `decide` then needs a cost.
    surrogate : str, Surrogate or callable, default="square"
        The binary loss: "mae", "hinge", "square", "logistic", "sigmoid" or a custom one; see `recuse.surrogates`.
    hidden : tuple of int, default=(20, 30, 10)
        Widths of the hidden layers; an empty tuple for linear networks.
    epochs : int, default=150
        Number of epochs of the regressors, and again of the rejectors.
    batch_size : int, default=32
    learning_rate : float or sequence of float, default=0.01
        Rates to try; the validation loss chooses.
    n_members : int, default=8
        Number of regressors of each fold, and the minimum total number of rejectors.
    cv : int, splitter or iterable of (train, test), default=5
        Folds. The test parts must not overlap; rows in none of them only train regressors.
    validation_fraction : float, default=0.15
        Share of its training rows that each fold holds out to choose its regressors, unless `fit` gets validation rows.
    random_state : int, RandomState, None or sequence of int, default=None
        A sequence has one seed for each member; the first also seeds folds and minibatches.
    verbose : bool, default=False
        Show a progress bar.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`.
    unseen : {"novel", "error", "keep"}, default="novel"
        What happens to a row with a novel cell, as in `RcRRegressor`.

    Attributes
    ----------
    cost_ : the cost fitted for; not set with `cost_range`
    cost_range_ : tuple (low, high) or None
    loss_ : TargetLoss
    regressor_, rejector_ : stacks of trained networks
    validation_loss_ : float
        Mean of the RcR loss of each rejector on its own fold. With a range of costs, in units of the cost and averaged
        over the range.
    learning_rate_, best_epoch_ : list
        The choice for each rejector, ordered by fold.
    history_ : ndarray of shape (n_epochs, n_rejectors)
        The same loss by epoch.
    diverged_ : list of tuple
        (member, learning rate, epoch) of every training that diverged; rejectors are numbered after regressors.
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from recuse import RcRRegressorCV, datasets
    >>> (X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RcRRegressorCV(cost_range=(4.0, 13.0), epochs=20, n_members=2, random_state=0).fit(X, y)
    >>> model.decide(X_test, cost=5.0).rejection_rate >= model.decide(X_test, cost=12.0).rejection_rate
    True
    """

    def __init__(
        self,
        cost: Cost = _COST,
        cost_range: tuple[float, float] | None = None,
        surrogate: SurrogateLike = "square",
        hidden: Sequence[int] = (20, 30, 10),
        epochs: int = 150,
        batch_size: int = 32,
        learning_rate: float | Sequence[float] = 1e-2,
        n_members: int = 8,
        cv: Any = 5,
        validation_fraction: float = 0.15,
        random_state: RandomStateLike = None,
        verbose: bool = False,
        *,
        loss: LossLike = "squared",
        unseen: Unseen = "novel",
    ) -> None:
        self.cost = cost
        self.cost_range = cost_range
        self.surrogate = surrogate
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_members = n_members
        self.cv = cv
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
        """Train the regressors of every fold, then the rejectors on their errors.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,)
        cost : float, array-like, callable or str, optional
            Used instead of the parameter `cost`.
        sample_weight : array-like of shape (n_rows,), optional
        validation : tuple (X, y) or (X, y, cost), optional
            Rows that choose the regressors of all folds; rejectors are also trained on their errors. The costs are
            needed if `cost` has one value per row.
        groups : array-like of shape (n_rows,), optional
            Rows of one group stay together when rows are split into folds or held out for validation. By default rows
            with equal features are a group.
        """
        chosen = self.cost if cost is None else cost
        with self._all_or_nothing():
            self._check_parameters()
            check_folds(self.cv)
            limits = _read_range(self.cost_range, chosen)
            # With a range, training draws the costs of the rows, and any cost will do here.
            row_cost = chosen if limits is None else limits.low
            rows = self._training_rows(X, y, row_cost, sample_weight, groups=groups, cv=self.cv)
            held_out = None
            if validation is not None:
                held_out = self._validation_rows(validation, row_cost, with_cost=limits is None)
                rows = replace(rows, weight=rows.weight / rows.weight.mean())  # validation rows have weight 1
            aim = Aim.of(None if limits else chosen, self.surrogate)
            trained = self._train(rows, held_out, row_cost, aim, limits)
            if limits is None:
                self._adopt(trained, chosen)
            else:
                self._adopt(trained, None, (limits.low, limits.high))
        trained.warn(stacklevel=3)
        return self

    def _train(
        self, rows: Rows, held_out: Rows | None, row_cost: Cost, aim: Aim, limits: CostRange | None
    ) -> TrainedPair:
        shuffle, seeds, _ = member_seeds(self.random_state, self.n_members)
        units = Units.learn(rows, rows, row_cost, scale_target=True, loss=losses.get(self.loss), unseen=self.unseen)
        with progress_bar("training", 2 * self.epochs, show=self.verbose) as report:
            training = PairTraining(
                self.hidden,
                learning_rates(self.learning_rate),
                seeds,
                shuffle,
                self.epochs,
                self.batch_size,
                on_epoch=report,
            )
            predicted = predict_folds(training, units, rows, held_out, self.cv, self.validation_fraction)
            inputs = learn_inputs(units, limits, predicted, single=len(seeds) == 1)
            errors = error_rows(inputs, predicted)
            more = None if held_out is None else held_out_errors(inputs, predicted, held_out)
            own = [predicted.fold == fold for fold in range(len(predicted.regressors.sizes))]
            folds = [(errors.take(~inside).joined(more), errors.take(inside)) for inside in own]
            rejectors = training.rejectors(units, folds, aim, _in_engine_units(units, limits))
        grid = _grid(units, limits, rows.cost if held_out is None else np.append(rows.cost, held_out.cost))
        rule = RcRRule(units, predicted.regressors.stacks[0], rejectors.stacks[0], grid, inputs)
        return _compared(rule, predicted, rejectors, aim, n_regressors=len(own) * len(seeds))


def _read_range(cost_range: tuple[float, float] | None, cost: Cost) -> CostRange | None:
    """Check the range of costs, which excludes a single cost.

    Examples
    --------
    >>> _read_range((1, 9), cost=1.0)
    CostRange(low=1.0, high=9.0)
    """
    if cost_range is None:
        return None
    pair = (
        isinstance(cost_range, tuple | list) and len(cost_range) == 2 and all(isinstance(c, Real) for c in cost_range)
    )
    require(
        pair and 0 < cost_range[0] < cost_range[1] < inf, "cost_range", "(low, high) with 0 < low < high", cost_range
    )
    unset = is_constant(cost) and cost == _COST
    require(unset, "cost", "left out with cost_range; pass it to decide", cost)
    return CostRange(float(cost_range[0]), float(cost_range[1]))


def _in_engine_units(units: Units, limits: CostRange | None) -> CostRange | None:
    if limits is None:
        return None
    low, high = units.cost(np.array([limits.low, limits.high]))
    return CostRange(float(low), float(high))


def _grid(units: Units, limits: CostRange | None, cost: NDArray[np.float64]) -> CostGrid | None:
    if limits is not None:
        return CostGrid(limits.low, limits.high)
    return None if units.log_cost is None else CostGrid.of(cost)


def _compared(
    rule: RcRRule, predicted: FoldPredictions, rejectors: Chosen, aim: Aim, *, n_regressors: int
) -> TrainedPair:
    """Compare the rejectors on their own folds with accepting and rejecting all rows."""
    units, limits, rows, regressors = rule.units, rule.cost_range, predicted.rows, predicted.regressors
    errors = units.errors(predicted.prediction, rows)
    accept = float(np.average(errors, weights=rows.weight))
    if limits is None:
        costs, unit = aim.costs_of(rows), float(units.loss(np.array(1.0)))
        reject = float(np.average(costs, weights=rows.weight))
    else:
        # Losses are in units of the cost. Costs are uniform in the logarithm, which gives the mean of 1 / cost.
        costs, unit, reject = np.array([limits.low, limits.high]), 1.0, 1.0
        accept *= (1 / limits.low - 1 / limits.high) / log(limits.high / limits.low)
    rcr_loss = float(rejectors.loss.mean()) * unit
    later = [(n_regressors + member, rate, epoch) for member, rate, epoch in rejectors.diverged]
    n_trainings = regressors.n_trainings + rejectors.n_trainings
    return TrainedPair(
        rule,
        replace(rejectors, diverged=regressors.diverged + later, n_trainings=n_trainings),
        validation_loss=rcr_loss,
        history=rejectors.history * unit,
        rcr_loss=rcr_loss,
        always_accept=accept,
        always_reject=reject,
        losses=errors,
        costs=costs,
    )
