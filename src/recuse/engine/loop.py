"""One vectorised loop that trains many small networks at once: tables and members in, trained stacks out.

A member is a pair (h, r) of regressor and rejector with its own seed, cost, learning rate and surrogate. All
members of a stack take each step together. No member sees another: a member trained in a stack ends with the
same weights as the same member trained alone. Members that differ only in cost or surrogate share their
Slow-Start, which depends on neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from recuse.engine.batches import Feed, Table
from recuse.engine.best_epoch import BestEpochs, Trained
from recuse.engine.schedule import slow_start_epochs, stalled
from recuse.engine.stack import Stack
from recuse.engine.trainer import Member, StackedTrainer, count_tables
from recuse.losses import SQUARED, TargetLoss

__all__ = ["Networks", "Plan", "make_feeds", "train_pairs", "train_regressors"]

_SOLO, _JOINT = 0, 1  # phases of training, for the order of minibatches


@dataclass(frozen=True)
class Plan:
    """How long and in which steps to train.

    Attributes
    ----------
    epochs : int
    slow_start : int or "auto"
        Epochs in which the regressor trains alone; "auto" waits, member by member, until the validation
        error of the regressor has not improved for `patience` epochs, at most half of the epochs.
    batch_size : int
    patience : int
    device : str
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done; for progress bars.
    """

    epochs: int = 1000
    slow_start: int | Literal["auto"] = 200
    batch_size: int = 1024
    patience: int = 20
    device: str = "cpu"
    on_epoch: Callable[[int], None] | None = None

    def tell(self, epoch: int) -> None:
        """Report that an epoch is over."""
        if self.on_epoch is not None:
            self.on_epoch(epoch + 1)


@dataclass(frozen=True)
class Networks:
    """How to make the stacks: from seeds to regressors, from seeds to rejectors."""

    regressors: Callable[[Sequence[int]], Stack]
    rejectors: Callable[[Sequence[int]], Stack]


def train_pairs(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    networks: Networks,
    plan: Plan,
    loss: TargetLoss = SQUARED,
) -> Trained:
    """Train pairs (h, r): Slow-Start, then both on the surrogate, then each member's best epoch.

    Parameters
    ----------
    tables, validation : sequence of Table
        The rows to learn from and, for each of them, the rows that choose the epoch. All tables have as many rows.
    members : sequence of Member
        Ordered by table, with as many for each table.
    networks : Networks
    plan : Plan
    loss : TargetLoss
        Of a prediction, in the units of the tables.

    Returns
    -------
    Trained
        Members in the order given.
    """
    feed, held_out = make_feeds(tables, validation, members, plan)
    solo, start_of = _shared_starts(members)
    alone = StackedTrainer(solo, networks.regressors([m.seed for m in solo]), loss=loss)
    ready = _slow_start(alone, feed, held_out, plan)[start_of]
    rejector = networks.rejectors([m.rejector_seed for m in members])
    pairs = alone.with_rejectors(members, start_of, rejector)
    best = BestEpochs(pairs)
    for epoch in range(plan.epochs - int(ready.min())):
        for batch in feed.shuffled(plan.batch_size, _JOINT, epoch):
            pairs.step_pairs(batch)
        best.see(pairs.validate(held_out), ready + epoch, active=ready + epoch < plan.epochs)
        plan.tell(int(ready.min()) + epoch)
    return best.restore()


def train_regressors(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    networks: Networks,
    plan: Plan,
    loss: TargetLoss = SQUARED,
) -> Trained:
    """Train regressors alone, each with its best epoch by validation loss ("Sup" if that is the squared error)."""
    feed, held_out = make_feeds(tables, validation, members, plan)
    trainer = StackedTrainer(members, networks.regressors([m.seed for m in members]), loss=loss)
    best = BestEpochs(trainer)
    every = torch.ones_like(best.epoch, dtype=torch.bool)
    for epoch in range(plan.epochs):
        for batch in feed.shuffled(plan.batch_size, _SOLO, epoch):
            trainer.step_regressors(batch)
        best.see(trainer.validate(held_out), torch.full_like(best.epoch, epoch), active=every)
        plan.tell(epoch)
    return best.restore()


def make_feeds(
    tables: Sequence[Table], validation: Sequence[Table], members: Sequence[Member], plan: Plan
) -> tuple[Feed, Feed]:
    """Deal out the tables to learn from and those that choose, one of each for every table the members speak of."""
    count, device = count_tables(members), torch.device(plan.device)
    if not len(tables) == len(validation) == count:
        raise ValueError(
            f"every table needs members and a validation table, got {len(tables)} tables, "
            f"{len(validation)} validation tables and members for {count}"
        )
    return Feed(tables, device), Feed(validation, device)


def _shared_starts(members: Sequence[Member]) -> tuple[list[Member], list[int]]:
    """Give members whose Slow-Starts are all there are, and for every member the place of its own among them."""
    starts = list(dict.fromkeys(member.start for member in members))
    per_table = Counter(table for table, *_ in starts)
    if len(set(per_table.values())) > 1:  # a stack needs as many for each table
        return list(members), list(range(len(members)))
    start_of = [starts.index(member.start) for member in members]
    return [members[start_of.index(i)] for i in range(len(starts))], start_of


def _slow_start(trainer: StackedTrainer, feed: Feed, held_out: Feed, plan: Plan) -> Tensor:
    """Train the regressors alone; give the number of epochs after which each was ready."""
    count, watch = slow_start_epochs(plan.slow_start, plan.epochs), plan.slow_start == "auto"
    ready = torch.full((len(trainer.members),), count, device=trainer.regressor.parameters.device)
    frozen = trainer.regressor.parameters.clone()
    history: list[Tensor] = []
    for epoch in range(count):
        for batch in feed.shuffled(plan.batch_size, _SOLO, epoch):
            trainer.step_regressors(batch)
        plan.tell(epoch)
        if watch:
            history.append(trainer.validate(held_out))
            now = stalled(torch.stack(history), patience=plan.patience) & (ready == count)
            ready[now] = epoch + 1
            _copy_members(trainer.regressor, frozen, now)
            if bool((ready < count).all()):
                break
    if watch:
        _copy_members(trainer.regressor, frozen, ready == count)
        trainer.regressor.parameters.copy_(frozen)
        trainer.forget_moments()  # they belong to the last epoch, not to the one each member stopped at
    return ready


def _copy_members(stack: Stack, into: Tensor, chosen: Tensor) -> None:
    for to, of in zip(stack.views(into), stack.views(stack.parameters), strict=True):
        to[chosen] = of[chosen]
