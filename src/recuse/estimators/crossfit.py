"""Cross-fitting: rows in, regressors by fold and rejectors that learned from errors on rows left out, out.

A regressor knows the targets it was fitted to, so its errors there are too small to learn from. Here each fold of the
training rows is predicted by members that never saw it. A rejector sees the features, the prediction h(x) and the
logarithm of the disagreement among those members, and learns from their error, squared or by another loss.

The members of the other folds are kept out of both inputs: they have seen the target, and the further they are from the
members that have not, the larger the error. On new rows, which nobody has seen, all members count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.costs import Cost, resolve
from recuse.estimators.folds import folds_of
from recuse.estimators.pairs import PairMaker
from recuse.estimators.parameters import require
from recuse.estimators.translation import Rows, Translation, moments, target_moments
from recuse.estimators.trials import best_trials
from recuse.networks import Stack, outputs
from recuse.training.best import Trained
from recuse.training.feed import Table
from recuse.training.rejectors import CostRange, train_rejectors
from recuse.training.stacked import Networks, Plan, train_regressors
from recuse.training.trainer import Member

__all__ = ["CrossFit", "CrossFitted", "FoldRegressors", "Sight", "costs_within", "read_range"]

Floats = NDArray[np.float64]


def read_range(cost: Cost, residuals: str) -> CostRange | None:
    """Read a tuple of two numbers as a range of costs; every other form of cost is none.

    Examples
    --------
    >>> read_range((1, 9), "crossfit")
    CostRange(low=1.0, high=9.0)
    >>> read_range([1, 9], "crossfit") is None
    True
    """
    if not (isinstance(cost, tuple) and len(cost) == 2 and all(isinstance(end, Real) for end in cost)):
        return None
    if residuals != "crossfit":
        raise ValueError(
            f"a tuple of two numbers is a range of costs and needs residuals='crossfit', got cost={cost} with "
            f"residuals={residuals!r}; give costs of two rows as a list or an array"
        )
    low, high = map(float, cost)
    require(0 < low < high < inf, "a range of costs", "(low, high) with 0 < low < high", cost)
    return CostRange(low, high)


def costs_within(costs: CostRange, cost: Cost | None, X: Any) -> Floats:
    """Give one cost for each row, all within the range; an error if there is none or it lies outside."""
    span = f"{costs.low} to {costs.high}"
    if cost is None:
        raise ValueError(
            f"the model was fitted for every cost from {span}, so a decision needs one: "
            "pass cost=, a number or one value per row"
        )
    rows = resolve(cost, X, len(X))
    outside = (rows < costs.low) | (rows > costs.high)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"cost must be within {span}, the range the model was fitted for, got {rows[row]} at row {row}"
        )
    return rows


@dataclass(frozen=True)
class Sight:
    """What the rejectors see, besides the features: h(x), the members' disagreement and the cost where it varies.

    Attributes
    ----------
    translation : Translation
    costs : CostRange or None
        In the user's units.
    sizes : tuple of int
        How many members each fold has.
    prediction : tuple
        Mean of h(x), of each of several targets, and standard deviation on the training rows.
    spread : tuple or None
        Floor, and mean and standard deviation of the logarithm; None where a fold has one member by design.
    """

    translation: Translation
    costs: CostRange | None
    sizes: tuple[int, ...]
    prediction: tuple[float | Floats, float]
    spread: tuple[float, float, float] | None

    @classmethod
    def learn(
        cls, translation: Translation, costs: CostRange | None, folds: FoldRegressors, weight: Floats, *, lonely: bool
    ) -> Self:
        """Learn the scales from what members said about rows they had not seen."""
        mean, scale = target_moments(folds.prediction.T, weight)
        spread = None if lonely else _log_moments(folds.spread, weight)
        return cls(translation, costs, folds.sizes, (mean, scale or 1.0), spread)

    def of_new_rows(self, features: Floats, said: Floats, cost: Floats) -> Floats:
        """Give the inputs (row, input) of rows nobody has seen, by what each member says of them (member, ..., row)."""
        by_fold = np.split(said, np.cumsum(self.sizes)[:-1])
        spread = np.mean([_disagreement(members) for members in by_fold], axis=0)
        return self.inputs(features, said.mean(axis=0), spread, cost)

    def inputs(self, features: Floats, prediction: Floats, spread: Floats, cost: Floats) -> Floats:
        """Give the inputs (row, input), everything standardised, the cost last."""
        mean, scale = self.prediction
        columns = [features, (prediction.T - mean) / scale]
        if self.spread is not None:
            floor, log_mean, log_scale = self.spread
            columns.append((np.log(spread + floor) - log_mean) / log_scale)
        if self.costs is not None:
            columns.append(self.costs.feature(torch.as_tensor(cost)).numpy())
        return self.translation.rejector_features(np.column_stack(columns), cost)


@dataclass(frozen=True)
class FoldRegressors:
    """The regressors of all folds, and what they said about the rows left out."""

    stack: Stack
    sizes: tuple[int, ...]
    prediction: Floats  # (row,) or (output, row)
    spread: Floats  # (row,)
    trained: list[Trained]
    members: list[Member]


@dataclass(frozen=True)
class CrossFitted:
    """What cross-fitting leaves behind.

    Attributes
    ----------
    trained : Trained
        Its regressors are chosen already, fold by fold; its rejectors, losses and epochs are those of all trials.
        `diverged` counts all trainings, those of the folds first.
    members : list of Member
        All trainings, those of the folds first.
    sight : Sight
    folds : FoldRegressors
        Which know nothing of the cost.
    """

    trained: Trained
    members: list[Member]
    sight: Sight
    folds: FoldRegressors


@dataclass(frozen=True)
class CrossFit:
    """How to cross-fit.

    Attributes
    ----------
    maker : PairMaker
    cv : int, or any other form of folds that the rows are marked with
    plan : Plan
        For each fold, and for the rejectors.
    costs : CostRange, optional
        In the user's units.
    folds : FoldRegressors, optional
        Of an earlier fit to the same rows, at another cost; then only the rejectors are trained.
    """

    maker: PairMaker
    cv: Any
    plan: Plan
    costs: CostRange | None = None
    folds: FoldRegressors | None = None

    @property
    def translation(self) -> Translation:
        """The user's rows and units to the engine's, and back."""
        return self.maker.translation

    def train(self, train: Rows, held_out: Rows, members: Sequence[Member], shuffle: int) -> CrossFitted:
        """Train the regressors of every fold, then the rejectors.

        Parameters
        ----------
        train, held_out : Rows
            To learn from, and to choose epochs and learning rates by.
        members : sequence of Member
            The rejectors: every rate for every seed. The seeds of the folds' regressors are derived from theirs.
        shuffle : int
            Fixes the folds and the order of minibatches.
        """
        if len(train) < 2:
            raise ValueError(f"residuals='crossfit' needs at least 2 rows to train on, got n_samples = {len(train)}")
        seeds = [member.seed for member in members[:: len(self.maker.rates)]]
        folds = self.folds or self._train_folds(train, held_out, seeds, shuffle)
        sight = Sight.learn(self.translation, self.costs, folds, train.weight, lonely=len(seeds) == 1)
        tables = self._rejector_tables(train, held_out, folds, sight, shuffle)
        build = self.maker.of_inputs(tables[0].x.shape[1])
        rejectors = train_rejectors(*tables, members, build, self._stage(len(folds.sizes)), self._engine_costs())
        trained = replace(
            rejectors,
            regressor=folds.stack,
            rejector=rejectors.regressor,
            diverged=_counted([*folds.trained, rejectors], len(members)),
        )
        return CrossFitted(trained, [*folds.members, *members], sight, folds)

    def _train_folds(self, train: Rows, held_out: Rows, seeds: Sequence[int], shuffle: int) -> FoldRegressors:
        features = self.translation.features(train.X)
        count, n_outputs = len(train), self.translation.n_outputs
        prediction, spread = np.empty(count if n_outputs == 1 else (n_outputs, count)), np.empty(count)
        trainings, stacks, everyone = [], [], []
        for fold, (seen, left_out) in enumerate(folds_of(train, self.cv, np.random.RandomState(shuffle))):
            members = [Member(_derived(seed, fold), rate) for seed in seeds for rate in self.maker.rates]
            trained = self._train_fold(fold, train.take(seen), held_out, members, _derived(shuffle, fold))
            stack = trained.regressor.take(best_trials(trained.loss.cpu(), self.maker.rates)).to(torch.float64)
            said = outputs(stack, features[left_out])  # (member, row) or (member, output, row)
            prediction[..., left_out], spread[left_out] = said.mean(axis=0), _disagreement(said)
            trainings.append(trained)
            stacks.append(stack)
            everyone += members
        return FoldRegressors(_joined(stacks), tuple(map(len, stacks)), prediction, spread, trainings, everyone)

    def _train_fold(self, fold: int, seen: Rows, held_out: Rows, members: list[Member], shuffle: int) -> Trained:
        networks = Networks(self.maker.regressors(), self.maker.regressors())
        tables = [self.translation.table(seen, shuffle)], [self.translation.table(held_out)]
        return train_regressors(*tables, members, networks, self._stage(fold), self.translation.engine_loss)

    def _rejector_tables(
        self, train: Rows, held_out: Rows, folds: FoldRegressors, sight: Sight, shuffle: int
    ) -> tuple[Table, Table]:
        seen = sight.inputs(self.translation.features(train.X), folds.prediction, folds.spread, train.cost)
        features = self.translation.features(held_out.X)
        said = outputs(folds.stack, features)
        new = sight.of_new_rows(features, said, held_out.cost)
        return (
            self._error_table(train, seen, folds.prediction, shuffle),
            self._error_table(held_out, new, said.mean(axis=0)),
        )

    def _error_table(self, rows: Rows, inputs: Floats, prediction: Floats, seed: int = 0) -> Table:
        """Give the engine's table with the errors as targets, in its units."""
        error = self.translation.cost(self.translation.errors(prediction, rows))
        x, y = (torch.as_tensor(values, dtype=torch.float32) for values in (inputs, error))
        return replace(self.translation.table(rows, seed), x=x, y=y, rejector_x=None)

    def _engine_costs(self) -> CostRange | None:
        if self.costs is None:
            return None
        low, high = self.translation.cost(np.array([self.costs.low, self.costs.high]))
        return CostRange(float(low), float(high))

    def _stage(self, number: int) -> Plan:
        """The plan, telling of progress after the stages before."""
        before = number * self.plan.epochs
        return replace(self.plan, on_epoch=lambda done: self.plan.tell(before + done - 1))


def _joined(stacks: Sequence[Stack]) -> Stack:
    """Put all members into one stack."""
    whole = stacks[0].take([0] * sum(map(len, stacks)))
    layers = [stack.views(stack.parameters) for stack in stacks]
    for place, *parts in zip(whole.views(whole.parameters), *layers, strict=True):
        place.copy_(torch.cat(parts))
    return whole


def _counted(trainings: Sequence[Trained], per_training: int) -> dict[int, int]:
    """Number the diverged trials through all trainings."""
    return {
        number * per_training + trial: epoch
        for number, trained in enumerate(trainings)
        for trial, epoch in trained.diverged.items()
    }


def _derived(seed: int, fold: int) -> int:
    """A seed of the fold's own."""
    return int(np.random.SeedSequence([seed, fold]).generate_state(1)[0])


def _disagreement(said: Floats) -> Floats:
    """Standard deviation (row,) among members (member, row); of several outputs (member, output, row), their mean."""
    spread: Floats = said.std(axis=0)
    return spread if spread.ndim == 1 else np.asarray(spread.mean(axis=0))


def _log_moments(spread: Floats, weight: Floats) -> tuple[float, float, float]:
    floor = 1e-3 * float(spread.mean()) or 1.0  # keeps the logarithm of full agreement finite
    mean, scale = moments(np.log(spread + floor), weight)
    return floor, mean, scale or 1.0
