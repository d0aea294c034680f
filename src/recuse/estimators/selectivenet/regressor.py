"""SelectiveNetRegressor: regression with a reject option by SelectiveNet, for a coverage or a cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse import losses, metrics
from recuse.costs import Cost
from recuse.engine.schedule import SelectivePlan
from recuse.engine.selective import SelectivelyTrained, SelectiveMember, train_selective
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.rate_search import check_trial_parameters, divide, draw_seeds, engine_table, warn_of_diverged
from recuse.estimators.selectivenet.operating_points import best_of, curve, nearest
from recuse.losses import LossLike
from recuse.progress import progress_bar
from recuse.rules.networks import SelectiveRule, mean_heads
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import Units
from recuse.validation import is_count, is_rate, require

Floats = NDArray[np.float64]

_GRID = tuple(tenth / 10 for tenth in range(1, 11))  # coverages to train if `coverage` is None


class SelectiveNetRegressor(RejectingRegressor):
    """Regression with a reject option by SelectiveNet, for a given coverage or for a cost.

    A body with three heads gives the prediction h, the selection g in (0, 1) and an auxiliary prediction h', trained on
    ``alpha [mean(e g) / mean(g) + lam max(0, coverage - mean(g))^2] + (1 - alpha) mean(e')``, with e and e' the
    squared errors of h and h', or other losses. The method is that of Geifman and El-Yaniv, "SelectiveNet: A Deep
    Neural Network with an Integrated Reject Option", ICML 2019, with their settings; the weights of the last epoch are
    kept. It predicts one target.

    Parameters
    ----------
    coverage : float or None, default=0.7
        A number is the share of rows to accept. A row is accepted where g is above a threshold, which is set such that
        this share of the validation rows is accepted. Their targets and the cost do not influence the decisions; the
        cost only becomes part of the `Decision`, for its evaluation.

        With None, decisions depend on the cost. Networks for the coverages 0.1, 0.2, ..., 1.0 are trained together, and
        each cost uses the network and threshold with the lowest RcR loss on the validation rows. A row that is accepted
        at one cost is accepted at every higher one. `decide` then accepts any cost.
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, in squared units of the target or those of `loss`: a number, a callable of `X`, the name of
        a column of `X` (which is then not a feature), or, passed to `fit`, one value per row.
    hidden : tuple of int, default=(64,)
        Widths of the hidden layers of the body.
    selection_hidden : int, default=16
        Width of the hidden layer of the selection head.
    epochs : int, default=800
    batch_size : int, default=256
        At least 2, for batch norm.
    learning_rate : float, default=0.0005
    weight_decay : float, default=0.0001
    alpha : float, default=0.5
        Weight of the selective loss; 1 - alpha is the weight of the auxiliary loss, which uses all rows.
    lam : float, default=32.0
        Weight of the penalty for a coverage below the target, in units of the loss for the standardised target.
    n_members : int, default=1
        Members of the ensemble, for each coverage. They differ in their initial weights; predictions and selections
        are averaged.
    validation_fraction : float, default=0.25
        Share of the rows that set the threshold, unless `fit` gets validation rows.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show a progress bar.
    scale_target : bool, default=True
        Train on the standardised target; all results are in the user's units.
    unseen : {"novel", "error", "keep"}, default="novel"
        With "novel", a row is rejected if it has a category or a missing value that did not occur in training, or a
        number far outside the training range. With "error", such rows raise an error; "keep" does not clip numbers. See
        `recuse.tabular.encoder.TableEncoder`.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`.

    Attributes
    ----------
    cost_ : the cost fitted for
    loss_ : TargetLoss
    network_ : stack of trained networks
    coverage_ : float
        The coverage that the network in use was trained for: `coverage`, or the one chosen for `cost_` (for its mean
        over the validation rows, if it varies).
    threshold_ : float
        The network of `coverage_` accepts a row if its selection is above.
    validation_coverage_ : float
        Share of the validation rows accepted at `threshold_`.
    validation_loss_ : float
        RcR loss on the validation rows, in the user's units.
    history_ : ndarray of shape (n_epochs, n_trainings)
        Training loss by epoch, for the standardised target; ordered by coverage, then by member.
    diverged_ : list of tuple
        (coverage, member, epoch) of every training that diverged and was dropped.
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from recuse import SelectiveNetRegressor, datasets
    >>> X, y, _, _ = datasets.make_heteroscedastic(600, random_state=0)
    >>> model = SelectiveNetRegressor(coverage=0.5, epochs=100, learning_rate=5e-3, random_state=0)
    >>> decision = model.fit(X[:400], y[:400]).decide(X[400:])
    >>> measures = decision.evaluate(y[400:])
    >>> measures["accepted_loss"] < measures["rejected_loss"]
    True
    """

    rule_: SelectiveRule

    def __init__(
        self,
        coverage: float | None = 0.7,
        cost: Cost = 1.0,
        hidden: Sequence[int] = (64,),
        selection_hidden: int = 16,
        epochs: int = 800,
        batch_size: int = 256,
        learning_rate: float = 5e-4,
        weight_decay: float = 1e-4,
        alpha: float = 0.5,
        lam: float = 32.0,
        n_members: int = 1,
        validation_fraction: float = 0.25,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        *,
        scale_target: bool = True,
        unseen: Unseen = "novel",
        loss: LossLike = "squared",
    ) -> None:
        self.coverage = coverage
        self.cost = cost
        self.hidden = hidden
        self.selection_hidden = selection_hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.alpha = alpha
        self.lam = lam
        self.n_members = n_members
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        self.scale_target = scale_target
        self.unseen = unseen
        self.loss = loss

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Any, ...] | None = None,
    ) -> Self:
        """Train the networks and set the threshold.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,)
        cost : float, array-like, callable or str, optional
            Used instead of the parameter `cost`.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in the loss and in the coverage. Batch norm ignores them: a distinct row counts once.
        validation : tuple (X, y) or (X, y, cost), optional
            Rows that set the threshold; the costs are needed if `cost` has one value per row.

        Returns
        -------
        SelectiveNetRegressor
        """
        with self._all_or_nothing():
            self._check_parameters()
            chosen_cost, self.loss_ = self.cost if cost is None else cost, losses.get(self.loss)
            rows = self._training_rows(X, y, chosen_cost, sample_weight)
            random = check_random_state(self.random_state)
            shuffle, *seeds = draw_seeds(random, self.n_members + 1)
            train, held_out = self._divide(rows, validation, chosen_cost, random)
            units = Units.learn(
                train, rows, chosen_cost, scale_target=self.scale_target, loss=self.loss_, unseen=self.unseen
            )
            network, coverages = self._converged(self._train(units, train, seeds, shuffle))
            self.cost_ = chosen_cost
            self._calibrate(units, network, coverages, held_out)
        return self

    @property
    def network_(self) -> StackedSelectiveNet:
        """The stack of trained networks."""
        return self.rule_.network

    @property
    def serves_any_cost(self) -> bool:
        """True: the networks of all coverages allow any cost, and a fixed coverage does not depend on the cost."""
        check_is_fitted(self)
        return True

    def _check_parameters(self) -> None:
        check_trial_parameters(self.get_params(deep=False))
        share = self.coverage is None or (is_rate(self.coverage) and self.coverage <= 1)
        require(share, "coverage", "None or a number > 0 and <= 1", self.coverage)
        require(is_count(self.batch_size, least=2), "batch_size", "an int >= 2", self.batch_size)
        require(is_count(self.selection_hidden), "selection_hidden", "an int >= 1", self.selection_hidden)
        require(is_rate(self.learning_rate), "learning_rate", "a number > 0 and finite", self.learning_rate)
        require(is_rate(self.alpha) and self.alpha <= 1, "alpha", "> 0 and <= 1", self.alpha)
        for name in ("weight_decay", "lam"):
            value = getattr(self, name)
            require(value == 0 or is_rate(value), name, "a number >= 0 and finite", value)

    def _divide(
        self, rows: Rows, validation: tuple[Any, ...] | None, cost: Cost, random: np.random.RandomState
    ) -> tuple[Rows, Rows]:
        """Return the training rows, and the validation rows that set the threshold."""
        if validation is not None:
            return rows, self._validation_rows(validation, cost)
        train, held_out = divide(rows, self.validation_fraction, random)
        if len(train) < 2:
            raise ValueError(
                "training needs at least 2 distinct rows besides those that set the threshold, "
                f"got n_samples = {len(train)} and {len(held_out)}"
            )
        return train, held_out

    def _train(self, units: Units, train: Rows, seeds: Sequence[int], shuffle: int) -> SelectivelyTrained:
        rate = float(self.learning_rate)
        members = [SelectiveMember(seed, rate, coverage) for coverage in self._coverages() for seed in seeds]
        with progress_bar("training", self.epochs, show=self.verbose) as report:
            plan = SelectivePlan(
                epochs=self.epochs,
                batch_size=self.batch_size,
                weight_decay=self.weight_decay,
                alpha=self.alpha,
                lam=self.lam,
                loss=units.engine_loss,
                on_epoch=report,
            )
            table = engine_table(units, train, shuffle)
            return train_selective([table], members, self.hidden, self.selection_hidden, plan)

    def _coverages(self) -> tuple[float, ...]:
        return _GRID if self.coverage is None else (float(self.coverage),)

    def _converged(self, trained: SelectivelyTrained) -> tuple[StackedSelectiveNet, Floats]:
        """Return the networks that did not diverge, with their coverages, and warn about the others."""
        coverages = np.repeat(self._coverages(), self.n_members)
        self.history_ = trained.history
        self.diverged_ = [
            (float(coverages[training]), training % self.n_members, epoch)
            for training, epoch in sorted(trained.diverged.items())
        ]
        if len(self.diverged_) == len(coverages):
            raise ValueError(
                f"every training diverged; try a learning_rate smaller than {self.learning_rate}, "
                "or look for extreme values in X and y"
            )
        names = "coverage, member, epoch"
        warn_of_diverged(self.diverged_, len(coverages), stacklevel=4, names=names)  # the caller of fit
        converged = [training for training in range(len(coverages)) if training not in trained.diverged]
        # double precision for predictions, so that a row gets the same result in any batch
        return trained.stack.take(converged).to(np.float64), coverages[converged]

    def _calibrate(self, units: Units, network: StackedSelectiveNet, coverages: Floats, held_out: Rows) -> None:
        """Choose the networks and thresholds, and measure them on the validation rows."""
        grid, places = np.unique(coverages, return_inverse=True)
        features, curves = units.features(held_out.X), []
        for place in range(len(grid)):
            prediction, selection = mean_heads(network, places, place, features)
            curves.append(curve(place, selection, units.errors(prediction, held_out), held_out.weight))
        points = nearest(curves[0], self.coverage) if self.coverage is not None else best_of(curves)
        mean_cost = float(np.average(held_out.cost, weights=held_out.weight))
        self.rule_ = SelectiveRule(units, network, places, points, mean_cost)
        point = points.at(np.array([mean_cost]))[0]
        self.coverage_ = float(grid[points.place[point]])
        self.threshold_ = float(points.threshold[point])
        self.validation_coverage_ = 1 - float(points.rejected[point])
        prediction, score = self.rule_.decide(held_out.X, held_out.cost)
        self.validation_loss_ = metrics.rcr_loss(
            held_out.y, prediction, score > 0, held_out.cost, sample_weight=held_out.weight, loss=self.loss_
        )
