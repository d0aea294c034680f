"""Training of pairs of regressor and rejector: Slow-Start, then both on the surrogate of the RcR loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from recuse.engine.batches import Batches, Table
from recuse.engine.best_epoch import BestEpochs, StalledEpochs, Trained
from recuse.engine.loop import ALONE, JOINT, make_batches, run_epochs
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.objectives.pairs import Pairs, Regressors, StartingPairs
from recuse.engine.plan import Networks, Plan
from recuse.engine.schedule import slow_start_epochs
from recuse.engine.stack import Stack
from recuse.engine.steady import (
    AveragedWeights,
    averaged_epochs,
    patience_epochs,
    start_epochs,
    start_patience_epochs,
    steps_alone,
)
from recuse.losses import SQUARED, TargetLoss

__all__ = ["train_pairs"]


def train_pairs(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    networks: Networks,
    plan: Plan,
    loss: TargetLoss = SQUARED,
) -> Trained:
    """Train pairs (h, r): Slow-Start, then both networks on the surrogate. Keep the best epoch of each pair.

    Members that differ in surrogate only share their Slow-Start, and so do members that differ in cost, unless the plan
    is `steady`. Then members that differ in seed and table only share their best epoch, since the loss of the
    validation rows of one member varies much between epochs.

    Parameters
    ----------
    tables, validation : sequence of Table
        Training rows and, for each table, validation rows. All training tables have the same number of rows, and so
        have all validation tables.
    members : sequence of Member
        Ordered by table, with the same number for each table.
    networks : Networks
    plan : Plan
    loss : TargetLoss
        Loss of a prediction, in the units of the tables.

    Returns
    -------
    Trained
        Members in the order given.
    """
    batches, held_out = make_batches(tables, validation, members, plan)
    objective, ready = _started_pairs(batches, held_out, members, networks, plan, loss)
    best, first = BestEpochs(objective), int(ready.min())
    if plan.steady:
        weights = torch.stack([validation[member.table].total_weight for member in members]).to(plan.device)
        best = BestEpochs(objective, _alike(members, torch.device(plan.device)), weights)
    steps = batches.count(plan.batch_size)
    averages, patience = AveragedWeights(objective.stacks, averaged_epochs(steps)), patience_epochs(steps)

    def end_epoch(epoch: int) -> bool:
        active = ready + epoch < plan.epochs
        if not plan.steady:
            best.record(objective.validate(held_out), ready + epoch, active=active)
            return False
        active &= (best.epoch < 0) | (ready + epoch - best.epoch <= patience)
        active[list(best.diverged)] = False
        averages.update()
        with averages.in_place():
            best.record(objective.validate(held_out), ready + epoch, active=active)
        for member in best.diverged:
            objective.freeze(member)  # the weights themselves, after their average
        return not bool(active.any())

    run_epochs(
        objective,
        lambda epoch: batches.shuffled(plan.batch_size, JOINT, epoch),
        plan.epochs - first,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=end_epoch,
        on_epoch=plan.after(first).on_epoch,
    )
    if plan.on_epoch is not None and first + len(best.history) < plan.epochs:
        plan.on_epoch(plan.epochs)
    return best.restore()


def _alike(members: Sequence[Member], device: torch.device) -> list[Tensor]:
    """Return the indices of the members that differ in seed and table only."""
    keys = [replace(member, seed=0, table=0) for member in members]
    return [
        torch.tensor([i for i, other in enumerate(keys) if other == key], device=device) for key in dict.fromkeys(keys)
    ]


def _shared_starts(members: Sequence[Member], *, with_rejector: bool) -> tuple[list[Member], list[int]]:
    """Return one member for each different Slow-Start, and for every member the index of its Slow-Start."""
    keys = [member.start(with_rejector=with_rejector) for member in members]
    starts = list(dict.fromkeys(keys))
    per_table = Counter(table for table, *_ in starts)
    if len(set(per_table.values())) > 1:  # a stack needs the same number for each table
        return list(members), list(range(len(members)))
    start_of = [starts.index(key) for key in keys]
    return [members[start_of.index(i)] for i in range(len(starts))], start_of


def _started_pairs(
    batches: Batches,
    held_out: Batches,
    members: Sequence[Member],
    networks: Networks,
    plan: Plan,
    loss: TargetLoss,
) -> tuple[Pairs, Tensor]:
    """Return the pairs after Slow-Start, and the number of epochs (member,) before the joint training of each."""
    starts, start_of = _shared_starts(members, with_rejector=plan.steady)
    regressor = networks.regressors([member.seed for member in starts])
    alone = Regressors(starts, _restricted(regressor, [member.inputs for member in starts]), loss)
    if plan.steady:
        rejector = networks.rejectors([member.rejector_seed for member in starts])
        rejector = _restricted(rejector, [member.rejector_inputs for member in starts])
        steps = batches.count(plan.batch_size)
        start = start_epochs(slow_start_epochs(plan.slow_start, plan.epochs), steps)
        starting = StartingPairs(alone, rejector, steps_alone(start * steps))
        ready = _slow_start(starting, batches, held_out, plan)[start_of]
        return starting.pairs.take(members, start_of, bounded=True), ready
    ready = _slow_start(alone, batches, held_out, plan)[start_of]
    rejector = networks.rejectors([member.rejector_seed for member in members])
    rejector = _restricted(rejector, [member.rejector_inputs for member in members])
    return Pairs(alone.take(members, start_of), rejector), ready


def _restricted(stack: Stack, inputs: Sequence[tuple[int, ...] | None]) -> Stack:
    """Restrict the members of a stack to their inputs; None are all."""
    for member, own in enumerate(inputs):
        if own is not None:
            assert isinstance(stack, StackedMLP)  # other networks use all inputs
            stack.use_inputs(member, own)
    return stack


def _slow_start(objective: Regressors | StartingPairs, batches: Batches, held_out: Batches, plan: Plan) -> Tensor:
    """Train the regressors on their own loss; return the number of epochs (member,) that each was trained."""
    count, patience = slow_start_epochs(plan.slow_start, plan.epochs), plan.patience
    if plan.steady:
        steps = batches.count(plan.batch_size)
        count, patience = start_epochs(count, steps), start_patience_epochs(steps)
    stalling = StalledEpochs(objective, count, patience)
    automatic = plan.slow_start == "auto"
    run_epochs(
        objective,
        lambda epoch: batches.shuffled(plan.batch_size, ALONE, epoch),
        count,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=(lambda epoch: stalling.record(objective.validate(held_out), epoch)) if automatic else None,
        on_epoch=plan.on_epoch,
    )
    if automatic:
        stalling.restore()
        objective.reset_adam()  # its moments belong to the last epoch, not to the epoch that is restored
    return stalling.epochs
