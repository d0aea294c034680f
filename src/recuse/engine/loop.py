"""The epoch loop, and training of regressors, rejectors and SelectiveNets with it.

All members of a stack take each step together but are independent: training a member in a stack gives the same weights
as training it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.best_epoch import BestEpochs, Trained
from recuse.engine.cost_range import CostRange, at_drawn_costs, at_several_costs
from recuse.engine.members import Member, count_tables
from recuse.engine.objectives.base import Objective
from recuse.engine.objectives.pairs import Regressors
from recuse.engine.objectives.rejectors import Rejectors
from recuse.engine.objectives.selective import SelectiveMember, SelectiveNets
from recuse.engine.plan import Networks, Plan, SelectivePlan
from recuse.engine.schedule import half_cosine
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import Stack, threads_for
from recuse.losses import SQUARED, TargetLoss

__all__ = [
    "ALONE",
    "JOINT",
    "SelectivelyTrained",
    "make_batches",
    "run_epochs",
    "train_regressors",
    "train_rejectors",
    "train_selective",
]

ALONE, JOINT = 0, 1  # phases of training, which have different orders of minibatches


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
    batches, held_out = make_batches(tables, validation, members, plan)
    objective = Regressors(members, networks.regressors([member.seed for member in members]), loss)
    best = BestEpochs(objective)

    def batches_of(epoch: int) -> Iterable[Batch]:
        if plan.decay:
            objective.scale_rates(half_cosine(epoch, epochs=plan.epochs))
        return batches.shuffled(plan.batch_size, ALONE, epoch)

    run_epochs(
        objective,
        batches_of,
        plan.epochs,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=lambda epoch: best.record(objective.validate(held_out), epoch),
        on_epoch=plan.on_epoch,
    )
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
    batches, held_out = make_batches(tables, held_out_tables, members, plan)
    objective = Rejectors(members, build([member.rejector_seed for member in members]), costs)
    weights = torch.stack([validation[member.table].total_weight for member in members]).to(plan.device)
    best = BestEpochs(objective, _by_learning_rate(members, torch.device(plan.device)), weights)
    feature, seed = tables[0].x.shape[1] - 1, tables[0].seed

    def batches_of(epoch: int) -> Iterable[Batch]:
        shuffled = batches.shuffled(plan.batch_size, ALONE, epoch)
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
        lambda epoch: batches.shuffled(batch_rows, ALONE, epoch),
        plan.epochs,
        batch_rows=batch_rows,
        end_epoch=lambda _: history.append(objective.training_loss()),
        on_epoch=plan.on_epoch,
    )
    return SelectivelyTrained(stack, torch.stack(history), _diverged(stack, torch.stack(history)))


def make_batches(
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
