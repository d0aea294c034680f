"""Cross-fitting: rows in, regressors by fold and rejectors that learned from errors on rows left out, out.

A regressor knows the targets it was fitted to, so its errors there are too small to learn from. Here each fold of the
training rows is predicted by members that never saw it. A rejector sees the features, the prediction h(x) and the
logarithm of the disagreement among those members, and learns from their error, squared or by another loss.

The rejectors are cross-fitted in their turn: those of a fold learn from the errors of the others and of any validation
rows, and are tried on the errors of their own. Those errors choose epoch and learning rate, of all folds together. So
every error serves for both, and no small set of rows, which may well lack the few large errors that matter, decides.

The members of the other folds are kept out of both inputs: they have seen the target, and the further they are from the
members that have not, the larger the error. On new rows, which nobody has seen, all members count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.engine.batches import Table
from recuse.engine.best_epoch import Trained
from recuse.engine.cost_range import CostRange
from recuse.engine.loop import train_regressors, train_rejectors
from recuse.engine.members import Member
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import Stack, outputs
from recuse.estimators.rate_search import best_trials, engine_table
from recuse.estimators.rcr.members import PairMaker
from recuse.estimators.rcr.rejector_inputs import Sight, disagreement
from recuse.tabular.folds import folds_of, held_out_split
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units

__all__ = ["CrossFit", "CrossFitted", "FoldRegressors"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FoldRegressors:
    """The regressors of all folds, and what they said about the rows left out."""

    stack: Stack
    sizes: tuple[int, ...]
    fold: NDArray[np.intp]  # (row,): the fold that it is left out of
    prediction: Floats  # (row,) or (output, row)
    spread: Floats  # (row,)
    trained: Trained
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
    fraction : float
        Share of the rows of each fold that choose the epochs of its regressors, where there are no validation rows.
    costs : CostRange, optional
        In the user's units.
    folds : FoldRegressors, optional
        Of an earlier fit to the same rows, at another cost; then only the rejectors are trained.
    """

    maker: PairMaker
    cv: Any
    plan: Plan
    fraction: float
    costs: CostRange | None = None
    folds: FoldRegressors | None = None

    @property
    def units(self) -> Units:
        """The user's rows and units to the engine's, and back."""
        return self.maker.units

    def train(self, train: Rows, held_out: Rows | None, members: Sequence[Member], shuffle: int) -> CrossFitted:
        """Train the regressors of every fold, then the rejectors.

        Parameters
        ----------
        train : Rows
            Rejectors learn from the errors on them, all but those of one fold, on which they are tried.
        held_out : Rows or None
            They choose the regressors of all folds, and rejectors learn from the errors on them too; so their weights
            must be in the units of those of `train`. Without them each fold sets rows of its own aside, which others
            learn from.
        members : sequence of Member
            Every rate for every seed. The regressors and rejectors of a fold have seeds derived from theirs.
        shuffle : int
            Fixes the folds and the order of minibatches.
        """
        if len(train) < 2:
            raise ValueError(f"residuals='crossfit' needs at least 2 rows to train on, got n_samples = {len(train)}")
        seeds = [member.seed for member in members[:: len(self.maker.rates)]]
        folds = self.folds or self._train_folds(train, held_out, seeds, shuffle)
        said = folds.prediction, folds.spread
        sight = Sight.learn(self.units, self.costs, folds.sizes, said, train.weight, lonely=len(seeds) == 1)
        rejectors, rejecting = self._train_rejectors(train, held_out, folds, sight, members, shuffle)
        trained = Trained(
            folds.stack,
            rejectors.regressor,
            rejectors.loss,
            rejectors.epoch,
            rejectors.history,
            _counted([folds.trained, rejectors]),
        )
        return CrossFitted(trained, [*folds.members, *rejecting], sight, folds)

    def _train_folds(self, train: Rows, held_out: Rows | None, seeds: Sequence[int], shuffle: int) -> FoldRegressors:
        parts = list(folds_of(train, self.cv, np.random.RandomState(shuffle)))
        members = [
            Member(_derived(seed, fold), rate, table=fold)
            for fold in range(len(parts))
            for seed in seeds
            for rate in self.maker.rates
        ]
        tables, choosing = [], []
        for fold, (seen, _) in enumerate(parts):
            order = _derived(shuffle, fold)
            rows, own = (train.take(seen), held_out) if held_out is not None else self._divide(train.take(seen), order)
            tables.append(engine_table(self.units, rows, order))
            choosing.append(engine_table(self.units, own))
        networks = Networks(self.maker.regressors(), self.maker.regressors())
        both = _of_one_length(tables), _of_one_length(choosing)
        trained = train_regressors(*both, members, networks, self._stage(0), self.units.engine_loss)
        return self._ask_folds(train, trained, members, [left_out for _, left_out in parts])

    def _divide(self, rows: Rows, seed: int) -> tuple[Rows, Rows]:
        """Give rows to learn from and rows to choose by; of a single row, that one for both."""
        if len(rows) == 1:
            return rows, rows
        learning, choosing = held_out_split(rows, self.fraction, np.random.RandomState(seed))
        return rows.take(learning), rows.take(choosing)

    def _ask_folds(
        self, train: Rows, trained: Trained, members: list[Member], parts: Sequence[NDArray[np.intp]]
    ) -> FoldRegressors:
        """Choose the regressors of each fold, and ask them about the rows left out."""
        features = self.units.features(train.X)
        count, n_outputs = len(train), self.units.n_outputs
        prediction, spread = np.empty(count if n_outputs == 1 else (n_outputs, count)), np.empty(count)
        everyone, sizes, number = [], [], np.empty(count, np.intp)
        for fold, (loss, left_out) in enumerate(zip(trained.loss.cpu().chunk(len(parts)), parts, strict=True)):
            chosen = [fold * len(loss) + trial for trial in best_trials(loss, self.maker.rates)]
            said = outputs(trained.regressor.take(chosen).to(torch.float64), features[left_out])
            prediction[..., left_out], spread[left_out] = said.mean(axis=0), disagreement(said)
            number[left_out] = fold
            everyone += chosen
            sizes.append(len(chosen))
        stack = trained.regressor.take(everyone).to(torch.float64)
        return FoldRegressors(stack, tuple(sizes), number, prediction, spread, trained, members)

    def _train_rejectors(
        self,
        train: Rows,
        held_out: Rows | None,
        folds: FoldRegressors,
        sight: Sight,
        members: Sequence[Member],
        shuffle: int,
    ) -> tuple[Trained, list[Member]]:
        """Train equally many rejectors without each fold, over all folds at least as many as there are members."""
        known, new = self._rejector_tables(train, held_out, folds, sight, shuffle)
        build, count = self.maker.of_inputs(known.x.shape[1]), len(folds.sizes)
        few = members[: -(-len(members) // (count * len(self.maker.rates))) * len(self.maker.rates)]
        everyone = [
            replace(member, seed=_derived(member.seed, fold), table=fold) for fold in range(count) for member in few
        ]
        insides = [torch.as_tensor(folds.fold == fold) for fold in range(count)]
        tables = _of_one_length([_one_table([known.take(~inside), *new]) for inside in insides])
        choosing = _of_one_length([known.take(inside) for inside in insides])
        return train_rejectors(tables, choosing, everyone, build, self._stage(1), self._engine_costs()), everyone

    def _rejector_tables(
        self, train: Rows, held_out: Rows | None, folds: FoldRegressors, sight: Sight, shuffle: int
    ) -> tuple[Table, list[Table]]:
        """Give the errors on the training rows, each by members that have not seen it, and on any validation rows."""
        seen = sight.inputs(self.units.features(train.X), folds.prediction, folds.spread, train.cost)
        known = self._error_table(train, seen, folds.prediction, shuffle)
        if held_out is None:
            return known, []
        features = self.units.features(held_out.X)
        said = outputs(folds.stack, features)
        new = sight.of_new_rows(features, said, held_out.cost)
        return known, [self._error_table(held_out, new, said.mean(axis=0))]

    def _error_table(self, rows: Rows, inputs: Floats, prediction: Floats, seed: int = 0) -> Table:
        """Give the engine's table with the errors as targets, in its units."""
        error = self.units.cost(self.units.errors(prediction, rows))
        x, y, weight = (torch.as_tensor(values, dtype=torch.float32) for values in (inputs, error, rows.weight))
        # weights even where all are equal: rows of two tables are to be compared
        return replace(engine_table(self.units, rows, seed), x=x, y=y, weight=weight, rejector_x=None)

    def _engine_costs(self) -> CostRange | None:
        if self.costs is None:
            return None
        low, high = self.units.cost(np.array([self.costs.low, self.costs.high]))
        return CostRange(float(low), float(high))

    def _stage(self, number: int) -> Plan:
        """Return the plan, with progress that counts the epochs of the stages before."""
        return self.plan.after(number * self.plan.epochs)


def _one_table(tables: Sequence[Table]) -> Table:
    """Put the rows of several tables into one."""

    def joined(name: str) -> torch.Tensor | None:
        columns = [getattr(table, name) for table in tables]
        return None if columns[0] is None else torch.cat(columns)

    x, y = (torch.cat([getattr(table, name) for table in tables]) for name in ("x", "y"))
    return replace(tables[0], x=x, y=y, weight=joined("weight"), cost=joined("cost"))


def _of_one_length(tables: Sequence[Table]) -> list[Table]:
    """Fill up the shorter tables with rows without weight."""
    longest = max(len(table.y) for table in tables)
    return [table.padded(longest) for table in tables]


def _counted(trainings: Sequence[Trained]) -> dict[int, int]:
    """Number the diverged trials through all trainings."""
    before = np.cumsum([0, *(len(trained.loss) for trained in trainings)])
    return {
        int(first) + trial: epoch
        for first, trained in zip(before, trainings, strict=False)
        for trial, epoch in trained.diverged.items()
    }


def _derived(seed: int, fold: int) -> int:
    """A seed of the fold's own."""
    return int(np.random.SeedSequence([seed, fold]).generate_state(1)[0])
