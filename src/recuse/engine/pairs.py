"""Training of pairs of regressor and rejector: Slow-Start, then both on the surrogate of the RcR loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.best_epoch import BestEpochs, Trained
from recuse.engine.members import Member, SurrogateLosses, costs_by_table
from recuse.engine.mlp import StackedMLP
from recuse.engine.regressors import Regressors
from recuse.engine.schedule import TrainingPlan, slow_start_epochs
from recuse.engine.stack import Array, Stack
from recuse.engine.training import ALONE, JOINT, make_batches, mean_loss, run_epochs
from recuse.losses import SQUARED, TargetLoss


class Pairs:
    """Pairs (h, r) that minimise psi = e l(r,-1) + c l(r,+1), with e the loss of a row and c its cost.

    Parameters
    ----------
    regressors : Regressors
        They continue with their current weights and moments of Adam.
    rejector : Stack
        One rejector for each regressor.
    """

    def __init__(self, regressors: Regressors, rejector: Stack) -> None:
        self.regressors, self.rejector, self._workspace = regressors, rejector, rejector.workspace()
        members = regressors.members
        self._adam = StackedAdam(self._workspace, [member.learning_rate for member in members])
        self._surrogates, self._cost = SurrogateLosses(members), costs_by_table(members)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The regressors and the rejectors."""
        return self.regressors.stack, self.rejector

    def step(self, batch: Batch) -> None:
        """Take one step of every pair."""
        residual, score = self.regressors.residuals(batch, training=True), self._scores(batch, training=True)
        accept, d_accept, d_reject = self._surrogates(score)
        # d psi / d r = e l'(r,-1) + c l'(r,+1)
        slope = self.regressors.loss(residual) * d_accept
        slope += self._costs(batch) * d_reject
        slope *= batch.share
        # d psi / d h = e' l(r,-1), where e' is 2 (h - y) for the squared error
        self.regressors.update(self.regressors.loss.slope(residual, accept * batch.share))
        self._workspace.backward(slope.reshape(-1, slope.shape[2]))
        self._adam.step()

    def validate(self, batches: Batches) -> Array:
        """Return the RcR loss of every pair."""
        return mean_loss(batches, self._rcr_loss)

    def _rcr_loss(self, batch: Batch) -> Array:
        error, score = self.regressors.loss(self.regressors.residuals(batch)), self._scores(batch)
        # 0 * inf is NaN, so that an infinite or undefined output shows in the loss even if the row is rejected
        return np.asarray(np.where(score > 0, error, self._costs(batch)) + 0 * error * score)

    def _scores(self, batch: Batch, *, training: bool = False) -> Array:
        """Return r of shape (table, member of the table, row)."""
        score = self._workspace.forward(batch.rejector_x, training=training)
        return score.reshape(len(self._cost), -1, score.shape[1])

    def _costs(self, batch: Batch) -> Array:
        return self._cost if batch.cost is None else batch.cost

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self.regressors.freeze(member)
        self._adam.freeze(member)


def train_pairs(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    hidden: Sequence[int],
    plan: TrainingPlan,
    loss: TargetLoss = SQUARED,
) -> Trained:
    """Train pairs (h, r): Slow-Start, then both networks on the surrogate. Keep the best epoch of each pair.

    Members that differ in cost and surrogate only share their Slow-Start.

    Parameters
    ----------
    tables, validation, members, hidden, plan, loss
        As in `train_regressors`.

    Returns
    -------
    Trained
        Members in the order given.
    """
    batches, held_out = make_batches(tables, validation, members)
    rows, first = min(plan.batch_size, batches.rows), tables[0]
    starts, start_of = _shared_starts(members)
    regressors = Regressors(starts, StackedMLP([start.seed for start in starts], first.x.shape[1], hidden), loss)
    slow_start = slow_start_epochs(plan.slow_start, plan.epochs)
    run_epochs(
        regressors,
        lambda epoch: batches.shuffled(plan.batch_size, ALONE, epoch),
        slow_start,
        batch_rows=rows,
        on_epoch=plan.on_epoch,
    )
    inputs = (first.x if first.rejector_x is None else first.rejector_x).shape[1]
    rejectors = StackedMLP([member.rejector_seed for member in members], inputs, hidden)
    pairs = Pairs(regressors.take(members, start_of), rejectors)
    best = BestEpochs(pairs)
    run_epochs(
        pairs,
        lambda epoch: batches.shuffled(plan.batch_size, JOINT, epoch),
        plan.epochs - slow_start,
        batch_rows=rows,
        end_epoch=lambda epoch: best.record(pairs.validate(held_out), slow_start + epoch),
        on_epoch=plan.after(slow_start).on_epoch,
    )
    return best.restore()


def _shared_starts(members: Sequence[Member]) -> tuple[list[Member], list[int]]:
    """Return one member for each different Slow-Start, and for every member the index of its Slow-Start."""
    keys = [(member.table, member.seed, member.learning_rate) for member in members]
    starts = list(dict.fromkeys(keys))
    per_table = Counter(table for table, *_ in starts)
    if len(set(per_table.values())) > 1:  # a stack needs the same number for each table
        return list(members), list(range(len(members)))
    start_of = [starts.index(key) for key in keys]
    return [members[start_of.index(i)] for i in range(len(starts))], start_of
