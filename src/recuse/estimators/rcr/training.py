"""Trainings of many networks at once, and the choice among their learning rates: all calls of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.costs import is_constant
from recuse.engine.batches import Table
from recuse.engine.best_epoch import Trained
from recuse.engine.cost_range import CostRange
from recuse.engine.members import Member
from recuse.engine.pairs import train_pairs
from recuse.engine.regressors import train_regressors
from recuse.engine.rejectors import train_rejectors
from recuse.engine.schedule import TrainingPlan
from recuse.engine.stack import Stack
from recuse.estimators.rate_search import best_trials, engine_table, of_equal_length, single
from recuse.surrogates import SurrogateLike, get
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Aim:
    """The cost and the surrogate that a rejector is trained for.

    Attributes
    ----------
    cost : float or None
        Cost in the user's units; None if it varies by row or over a range.
    surrogate : str, Surrogate or callable
    """

    cost: float | None
    surrogate: SurrogateLike

    @classmethod
    def of(cls, cost: Any, surrogate: SurrogateLike) -> Self:
        """Return the aim at a cost in any form."""
        return cls(float(cost) if is_constant(cost) else None, surrogate)

    def costs_of(self, rows: Rows) -> Floats:
        """Return the cost (row,) of each row."""
        return rows.cost if self.cost is None else np.full(len(rows), self.cost)


@dataclass(frozen=True)
class ErrorRows:
    """ErrorRows that rejectors learn from, in units of the engine.

    Attributes
    ----------
    inputs : ndarray of shape (row, input)
    error, weight : ndarray of shape (row,)
    cost : ndarray of shape (row,) or None
        None for one cost, or for a range, where the last input is a placeholder for the cost.
    """

    inputs: Floats
    error: Floats
    weight: Floats
    cost: Floats | None

    def take(self, rows: NDArray[np.bool_]) -> ErrorRows:
        """Return the errors of some rows."""
        cost = None if self.cost is None else self.cost[rows]
        return ErrorRows(self.inputs[rows], self.error[rows], self.weight[rows], cost)

    def joined(self, other: ErrorRows | None) -> ErrorRows:
        """Append the errors of other rows."""
        if other is None:
            return self
        cost = None if self.cost is None or other.cost is None else np.append(self.cost, other.cost)
        inputs = np.concatenate([self.inputs, other.inputs])
        return ErrorRows(inputs, np.append(self.error, other.error), np.append(self.weight, other.weight), cost)


@dataclass(frozen=True)
class Chosen:
    """Trained networks: of each seed, the best epoch of the best learning rate.

    Attributes
    ----------
    stacks : tuple of Stack
        Pairs have two: regressors and rejectors.
    sizes : tuple of int
        Number of networks of each fold.
    learning_rate, best_epoch : list
    loss : ndarray of shape (member,)
        Validation loss of the best epoch.
    history : ndarray of shape (epoch, member)
    diverged : list of tuple
        (member, learning rate, epoch) of the trainings that diverged.
    n_trainings : int
        Number of all trainings.
    """

    stacks: tuple[Stack, ...]
    sizes: tuple[int, ...]
    learning_rate: list[float]
    best_epoch: list[int]
    loss: Floats
    history: Floats
    diverged: list[tuple[int, float, int]]
    n_trainings: int


@dataclass(frozen=True)
class PairTraining:
    """Settings of a training of networks, one for each seed and learning rate.

    Attributes
    ----------
    hidden : sequence of int
        Widths of the hidden layers; none for linear networks.
    rates : sequence of float
        Learning rates to try.
    seeds : sequence of int
    shuffle : int
        Fixes the order of minibatches.
    epochs, slow_start, batch_size : int
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done.
    """

    hidden: Sequence[int]
    rates: Sequence[float]
    seeds: Sequence[int]
    shuffle: int
    epochs: int
    batch_size: int
    slow_start: int = 0
    on_epoch: Callable[[int], None] | None = None

    def pairs(self, units: Units, train: Rows, held_out: Rows, aims: Sequence[Aim]) -> list[Chosen]:
        """Train pairs (h, r) by Slow-Start and then jointly, and choose those of each aim.

        All pairs are in one stack, and each has the same result as if it were trained alone. Slow-Start depends on
        neither cost nor surrogate, so the aims share it.
        """
        members = [member for aim in aims for member in self._members(units, aim, self.seeds)]
        tables, validation = [engine_table(units, train, self.shuffle)], [engine_table(units, held_out)]
        trained = train_pairs(tables, validation, members, self.hidden, self._plan, units.engine_loss)
        per_aim = len(members) // len(aims)
        return [
            self._choose(trained, members, [range(first, first + per_aim)]) for first in range(0, len(members), per_aim)
        ]

    def regressors(self, units: Units, folds: Sequence[tuple[Rows, Rows]]) -> Chosen:
        """Train regressors alone for each fold, given as rows to train on and rows that choose epoch and rate."""
        members = [
            Member(derived_seed(seed, fold), rate, table=fold)
            for fold in range(len(folds))
            for seed in self.seeds
            for rate in self.rates
        ]
        tables = [engine_table(units, rows, derived_seed(self.shuffle, fold)) for fold, (rows, _) in enumerate(folds)]
        validation = of_equal_length([engine_table(units, held_out) for _, held_out in folds])
        trained = train_regressors(
            of_equal_length(tables), validation, members, self.hidden, self._plan, units.engine_loss
        )
        per_fold = len(members) // len(folds)
        groups = [range(first, first + per_fold) for first in range(0, len(members), per_fold)]
        return self._choose(trained, members, groups)

    def rejectors(
        self, units: Units, folds: Sequence[tuple[ErrorRows, ErrorRows]], aim: Aim, cost_range: CostRange | None
    ) -> Chosen:
        """Train rejectors for each fold on errors, given as those to train on and those of the fold itself.

        All folds have the same number of rejectors, together at least one for each seed. The mean loss over the folds
        chooses epoch and rate.
        """
        per_fold = -(-len(self.seeds) // len(folds))
        members = [
            replace(member, seed=derived_seed(member.seed, fold), table=fold)
            for fold in range(len(folds))
            for member in self._members(units, aim, self.seeds[:per_fold])
        ]
        tables, validation = (
            of_equal_length([self._error_table(each) for each in part]) for part in zip(*folds, strict=True)
        )
        plan = self._plan.after(self.epochs)
        trained = train_rejectors(tables, validation, members, self.hidden, plan, cost_range)
        return self._choose(trained, members, [range(len(members))])

    @property
    def _plan(self) -> TrainingPlan:
        return TrainingPlan(self.epochs, self.slow_start, self.batch_size, on_epoch=self.on_epoch)

    def _members(self, units: Units, aim: Aim, seeds: Sequence[int]) -> list[Member]:
        cost = 1.0 if aim.cost is None else float(units.cost(np.array(aim.cost)))
        surrogate = aim.surrogate if isinstance(aim.surrogate, str) else get(aim.surrogate)
        return [Member(seed, rate, cost, surrogate) for seed in seeds for rate in self.rates]

    def _error_table(self, errors: ErrorRows) -> Table:
        cost = None if errors.cost is None else single(errors.cost)
        return Table(single(errors.inputs), single(errors.error), single(errors.weight), cost, seed=self.shuffle)

    def _choose(self, trained: Trained, members: Sequence[Member], groups: Sequence[range]) -> Chosen:
        """Choose the learning rate of each seed; each group of trials must have one that did not diverge."""
        by_group = [[group[trial] for trial in best_trials(trained.loss[list(group)], self.rates)] for group in groups]
        kept, trials = [trial for group in by_group for trial in group], [trial for group in groups for trial in group]
        # In double precision, the result of a row does not depend on its batch.
        stacks = [s.take(kept).to(np.float64) for s in (trained.regressor, trained.rejector) if s is not None]
        return Chosen(
            tuple(stacks),
            tuple(len(group) for group in by_group),
            learning_rate=[members[trial].learning_rate for trial in kept],
            best_epoch=trained.epoch[kept].tolist(),
            loss=trained.loss[kept],
            history=trained.history[:, kept],
            diverged=[
                (trials.index(trial) // len(self.rates), members[trial].learning_rate, epoch)
                for trial, epoch in sorted(trained.diverged.items())
                if trial in trials
            ],
            n_trainings=len(trials),
        )


def derived_seed(seed: int, fold: int) -> int:
    """Derive a seed for one fold."""
    return int(np.random.SeedSequence([seed, fold]).generate_state(1)[0])
