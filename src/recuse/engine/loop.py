"""The epoch loop, and training of regressors, pairs, rejectors, deferrers and SelectiveNets with it.

All members of a stack take each step together but are independent: training a member in a stack gives the same weights
as training it alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.best_epoch import BestEpochs, StalledEpochs, Trained
from recuse.engine.cost_range import CostRange, at_drawn_costs, at_several_costs
from recuse.engine.members import Member, count_tables
from recuse.engine.objectives.base import Objective
from recuse.engine.objectives.deferral import Deferrers
from recuse.engine.objectives.pairs import Pairs, Regressors, StartingPairs
from recuse.engine.objectives.rejectors import Rejectors
from recuse.engine.objectives.selective import SelectiveMember, SelectiveNets
from recuse.engine.plan import Networks, Plan, SelectivePlan
from recuse.engine.schedule import slow_start_epochs
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import Stack, threads_for
from recuse.engine.steady import AveragedWeights, patience_epochs, start_epochs, steps_alone
from recuse.losses import SQUARED, TargetLoss

__all__ = [
    "SelectivelyTrained",
    "run_epochs",
    "train_deferrers",
    "train_pairs",
    "train_regressors",
    "train_rejectors",
    "train_selective",
]

_ALONE, _JOINT = 0, 1  # phases of training, which have different orders of minibatches


@dataclass(frozen=True)
class SelectivelyTrained:
    """Trained SelectiveNets, with the weights of the last epoch.

    Attributes
    ----------
    stack : StackedSelectiveNet
    history : Tensor of shape (epoch, member)
        Training loss, mean over the steps of the epoch.
    diverged : dict of int to int
        Members with infinite or undefined values, and the first epoch with any. Their weights are useless.
    """

    stack: StackedSelectiveNet
    history: Tensor
    diverged: dict[int, int]


def run_epochs(
    objective: Objective,
    batches: Callable[[int], Iterable[Batch]],
    epochs: int,
    *,
    batch_rows: int,
    end_epoch: Callable[[int], object] | None = None,
    on_epoch: Callable[[int], None] | None = None,
) -> None:
    """Train an objective, with one step on every batch of every epoch.

    Parameters
    ----------
    objective : Objective
    batches : callable
        From an epoch to its batches.
    epochs : int
    batch_rows : int
        Rows of a batch. Small steps run on one thread.
    end_epoch : callable, optional
        Called with each epoch after its steps. Training ends early if it returns True.
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done.
    """
    with threads_for(objective.stacks, batch_rows):
        for epoch in range(epochs):
            for batch in batches(epoch):
                objective.step(batch)
            finished = end_epoch is not None and end_epoch(epoch) is True
            if on_epoch is not None:
                on_epoch(epoch + 1)
            if finished:
                break
    for stack in objective.stacks:
        stack.end_training()


def train_regressors(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    networks: Networks,
    plan: Plan,
    loss: TargetLoss = SQUARED,
) -> Trained:
    """Train regressors alone and keep the best epoch of each by validation loss.

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
        Loss of a prediction, in the units of the tables. The squared error gives the baseline "Sup" of the paper.

    Returns
    -------
    Trained
        Members in the order given. It has no rejector.
    """
    batches, held_out = _make_batches(tables, validation, members, plan)
    objective = Regressors(members, networks.regressors([member.seed for member in members]), loss)
    best = BestEpochs(objective)
    run_epochs(
        objective,
        lambda epoch: batches.shuffled(plan.batch_size, _ALONE, epoch),
        plan.epochs,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=lambda epoch: best.record(objective.validate(held_out), epoch),
        on_epoch=plan.on_epoch,
    )
    return best.restore()


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
    is `steady`.

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
    batches, held_out = _make_batches(tables, validation, members, plan)
    objective, ready = _started_pairs(batches, held_out, members, networks, plan, loss)
    best, first = BestEpochs(objective), int(ready.min())
    averages, patience = AveragedWeights(objective.stacks), patience_epochs(batches.count(plan.batch_size))

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
        lambda epoch: batches.shuffled(plan.batch_size, _JOINT, epoch),
        plan.epochs - first,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=end_epoch,
        on_epoch=plan.after(first).on_epoch,
    )
    if plan.on_epoch is not None and first + len(best.history) < plan.epochs:
        plan.on_epoch(plan.epochs)
    return best.restore()


def train_rejectors(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    build: Callable[[Sequence[int]], Stack],
    plan: Plan,
    costs: CostRange | None = None,
) -> Trained:
    """Train rejectors on given errors. All rejectors with the same learning rate share their best epoch.

    The RcR loss of a few validation rows varies much between epochs, and its minimum is mostly random. So the epoch
    with the lowest mean over the validation rows of all tables is chosen.

    Parameters
    ----------
    tables, validation : sequence of Table
        Training rows and, for each table, validation rows. All training tables have the same number of rows, and so
        have all validation tables. The targets `y` are errors. With a range of costs, the last feature of `x` is a
        placeholder for the cost.
    members : sequence of Member
        Ordered by table, with the same number for each table. With a range of costs, their costs are ignored.
    build : callable
        From seeds to a stack of rejectors.
    plan : Plan
    costs : CostRange, optional
        Train for all costs of a range, with a random cost for each row in each epoch.

    Returns
    -------
    Trained
        `regressor` is the stack of rejectors.
    """
    held_out_tables = [each if costs is None else at_several_costs(each, costs) for each in validation]
    batches, held_out = _make_batches(tables, held_out_tables, members, plan)
    objective = Rejectors(members, build([member.rejector_seed for member in members]), costs)
    weights = torch.stack([validation[member.table].total_weight for member in members]).to(plan.device)
    best = BestEpochs(objective, _by_learning_rate(members, torch.device(plan.device)), weights)
    feature, seed = tables[0].x.shape[1] - 1, tables[0].seed

    def batches_of(epoch: int) -> Iterable[Batch]:
        shuffled = batches.shuffled(plan.batch_size, _ALONE, epoch)
        return shuffled if costs is None else at_drawn_costs(shuffled, costs, feature=feature, seed=seed, epoch=epoch)

    run_epochs(
        objective,
        batches_of,
        plan.epochs,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=lambda epoch: best.record(objective.validate(held_out), epoch),
        on_epoch=plan.on_epoch,
    )
    return best.restore()


def train_deferrers(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    build: Callable[[Sequence[int]], Stack],
    plan: Plan,
) -> Trained:
    """Train networks that choose among actions of given costs. All with the same learning rate share their best epoch.

    Parameters
    ----------
    tables, validation : sequence of Table
        Training rows and, for each table, validation rows. All training tables have the same number of rows, and so
        have all validation tables. The targets `y` are the costs (row, action).
    members : sequence of Member
        Ordered by table, with the same number for each table.
    build : callable
        From seeds to a stack of networks with one output for each action.
    plan : Plan

    Returns
    -------
    Trained
        `regressor` is the stack of networks.
    """
    batches, held_out = _make_batches(tables, validation, members, plan)
    objective = Deferrers(members, build([member.seed for member in members]))
    weights = torch.stack([validation[member.table].total_weight for member in members]).to(plan.device)
    best = BestEpochs(objective, _by_learning_rate(members, torch.device(plan.device)), weights)
    run_epochs(
        objective,
        lambda epoch: batches.shuffled(plan.batch_size, _ALONE, epoch),
        plan.epochs,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=lambda epoch: best.record(objective.validate(held_out), epoch),
        on_epoch=plan.on_epoch,
    )
    return best.restore()


def train_selective(
    tables: Sequence[Table],
    members: Sequence[SelectiveMember],
    build: Callable[[Sequence[int]], StackedSelectiveNet],
    plan: SelectivePlan,
) -> SelectivelyTrained:
    """Train SelectiveNets and keep the last epoch, as in the paper.

    Parameters
    ----------
    tables : sequence of Table
        Training rows. All tables have the same number of rows.
    members : sequence of SelectiveMember
        Divided evenly among the tables, in order.
    build : callable
        From seeds to a stack of SelectiveNets.
    plan : SelectivePlan

    Returns
    -------
    SelectivelyTrained
        Members in the order given.
    """
    if len(members) % len(tables):
        raise ValueError(
            f"every table needs the same number of members, got {len(members)} members for {len(tables)} tables"
        )
    batches = Batches(tables, torch.device(plan.device))
    if batches.rows < 2:
        raise ValueError(f"batch norm needs at least 2 rows to train on, got {batches.rows}")
    stack, batch_rows = build([member.seed for member in members]), plan.even_batch(batches.rows)
    objective = SelectiveNets(
        members, stack, weight_decay=plan.weight_decay, alpha=plan.alpha, lam=plan.lam, loss=plan.loss
    )
    history: list[Tensor] = []
    run_epochs(
        objective,
        lambda epoch: batches.shuffled(batch_rows, _ALONE, epoch),
        plan.epochs,
        batch_rows=batch_rows,
        end_epoch=lambda _: history.append(objective.training_loss()),
        on_epoch=plan.on_epoch,
    )
    return SelectivelyTrained(stack, torch.stack(history), _diverged(stack, torch.stack(history)))


def _make_batches(
    tables: Sequence[Table], validation: Sequence[Table], members: Sequence[Member], plan: Plan
) -> tuple[Batches, Batches]:
    """Return the training batches and the validation batches."""
    count, device = count_tables(members), torch.device(plan.device)
    if not len(tables) == len(validation) == count:
        raise ValueError(
            f"every table needs members and a validation table, got {len(tables)} tables, "
            f"{len(validation)} validation tables and members for {count}"
        )
    return Batches(tables, device), Batches(validation, device)


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
    alone = Regressors(starts, networks.regressors([member.seed for member in starts]), loss)
    if plan.steady:
        rejector = networks.rejectors([member.rejector_seed for member in starts])
        steps = batches.count(plan.batch_size)
        start = start_epochs(slow_start_epochs(plan.slow_start, plan.epochs), steps)
        starting = StartingPairs(alone, rejector, steps_alone(start * steps))
        ready = _slow_start(starting, batches, held_out, plan)[start_of]
        return starting.pairs.take(members, start_of, bounded=True), ready
    ready = _slow_start(alone, batches, held_out, plan)[start_of]
    rejector = networks.rejectors([member.rejector_seed for member in members])
    return Pairs(alone.take(members, start_of), rejector), ready


def _slow_start(objective: Regressors | StartingPairs, batches: Batches, held_out: Batches, plan: Plan) -> Tensor:
    """Train the regressors on their own loss; return the number of epochs (member,) that each was trained."""
    count = slow_start_epochs(plan.slow_start, plan.epochs)
    if plan.steady:
        count = start_epochs(count, batches.count(plan.batch_size))
    stalling = StalledEpochs(objective, count, plan.patience)
    automatic = plan.slow_start == "auto"
    run_epochs(
        objective,
        lambda epoch: batches.shuffled(plan.batch_size, _ALONE, epoch),
        count,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=(lambda epoch: stalling.record(objective.validate(held_out), epoch)) if automatic else None,
        on_epoch=plan.on_epoch,
    )
    if automatic:
        stalling.restore()
        objective.reset_adam()  # its moments belong to the last epoch, not to the epoch that is restored
    return stalling.epochs


def _by_learning_rate(members: Sequence[Member], device: torch.device) -> list[Tensor]:
    """Return the indices of the members of each learning rate."""
    rates = [member.learning_rate for member in members]
    groups = [[i for i, other in enumerate(rates) if other == rate] for rate in dict.fromkeys(rates)]
    return [torch.tensor(group, device=device) for group in groups]


def _diverged(stack: StackedSelectiveNet, history: Tensor) -> dict[int, int]:
    """Return the first epoch with an infinite or undefined loss, or with such weights after the last step."""
    finite_weights = [part.flatten(1).isfinite().all(dim=1) for part in stack.views(stack.parameters)]
    finite_epochs = history.isfinite()
    finite_epochs[-1] &= torch.stack(finite_weights).all(dim=0)
    diverged = (~finite_epochs).any(dim=0).nonzero().flatten().tolist()
    return {member: int(finite_epochs[:, member].int().argmin()) for member in diverged}
