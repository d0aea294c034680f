"""One vectorised loop that trains many small networks at once: tables and members in, trained stacks out.

A member is a pair (h, r) of regressor and rejector with its own seed, cost, learning rate and surrogate. All
members of a stack take each step together. No member sees another: a member trained in a stack ends with the
same weights as the same member trained alone. Members that differ only in cost or surrogate share their
Slow-Start, which depends on neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from recuse import surrogates
from recuse.networks import Stack
from recuse.surrogates import Surrogate
from recuse.training.adam import StackedAdam
from recuse.training.feed import Batch, Feed, Table
from recuse.training.schedule import slow_start_epochs, stalled

__all__ = ["Member", "Networks", "Plan", "StackedTrainer", "Trained", "train_pairs", "train_regressors"]

_SOLO, _JOINT = 0, 1  # phases of training, for the order of minibatches


@dataclass(frozen=True)
class Member:
    """One pair (h, r) to be trained.

    Attributes
    ----------
    seed : int
        Fixes the initial weights.
    learning_rate : float
    cost : float
        Cost of a rejection; ignored where the table has a cost for every row.
    surrogate : str or Surrogate
    table : int
        Which of the tables it learns from.
    """

    seed: int
    learning_rate: float
    cost: float = 1.0
    surrogate: str | Surrogate = "mae"
    table: int = 0

    @property
    def rejector_seed(self) -> int:
        """The rejector has initial weights of its own."""
        return (self.seed + 0x9E3779B9) % 2**32

    @property
    def start(self) -> tuple[int, int, float]:
        """What its Slow-Start depends on."""
        return self.table, self.seed, self.learning_rate


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
class Trained:
    """What training leaves behind; the weights are those of each member's best epoch.

    Attributes
    ----------
    regressor, rejector : Stack
        The rejector is None where only regressors were trained.
    loss : Tensor of shape (member,)
        Validation loss of the best epoch; infinite for a member that diverged before it had one.
    epoch : Tensor of shape (member,)
        The best epoch, counted from the start of training; -1 where there is none.
    history : Tensor of shape (epoch, member)
        Validation loss of every epoch that took part in the choice; infinite once a member is dropped or done.
    diverged : dict of int to int
        Members that met infinite or undefined values, and the epoch in which they were dropped.
    """

    regressor: Stack
    rejector: Stack | None
    loss: Tensor
    epoch: Tensor
    history: Tensor
    diverged: dict[int, int] = field(default_factory=dict)


class StackedTrainer:
    """The state of training: two stacks, their optimisers, and the steps that change them.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with as many for each table.
    regressor : Stack
    rejector : Stack, optional
        Left out while only regressors are trained.
    """

    def __init__(self, members: Sequence[Member], regressor: Stack, rejector: Stack | None = None) -> None:
        self.members, self.regressor, self.rejector = list(members), regressor, rejector
        rates = [member.learning_rate for member in members]
        self._regressor_adam = StackedAdam(regressor, rates)
        self._rejector_adam = None if rejector is None else StackedAdam(rejector, rates)
        self._tables = _count_tables(self.members)
        self._groups = _by_surrogate(self.members, regressor.parameters.device)
        costs = torch.tensor([m.cost for m in members], device=regressor.parameters.device)
        self._cost = costs.view(self._tables, -1, 1)  # (table, member of the table, 1)

    def with_rejectors(self, members: Sequence[Member], chosen: Sequence[int], rejector: Stack) -> StackedTrainer:
        """Go on from the regressors at `chosen` (repeats allowed), each now paired with a rejector."""
        out = StackedTrainer(members, self.regressor.take(chosen), rejector)
        rates = [member.learning_rate for member in members]
        out._regressor_adam = self._regressor_adam.take(out.regressor, chosen, rates)
        return out

    def step_regressors(self, batch: Batch) -> None:
        """One step of every regressor on the squared error."""
        _, slope = self._residuals(batch, training=True)
        self.regressor.backward(slope.flatten(0, 1))
        self._regressor_adam.step()

    def step_pairs(self, batch: Batch) -> None:
        """One step of every pair on psi = e l(r,-1) + c l(r,+1)."""
        assert self.rejector is not None
        assert self._rejector_adam is not None
        residual, slope = self._residuals(batch, training=True)
        score = self.rejector.forward(batch.rejector_x, training=True)  # (member, row)
        accept, d_accept, d_reject = self._surrogate(score)
        # d psi / d h = 2 (h - y) l(r,-1);  d psi / d r = e l'(r,-1) + c l'(r,+1)
        by_table = (self._tables, -1, score.shape[1])
        slope_r = residual.mul_(residual).mul_(d_accept.view(by_table))
        slope_r.add_(self._costs(batch) * d_reject.view(by_table)).mul_(batch.share)
        self.regressor.backward(slope.flatten(0, 1).mul_(accept))
        self.rejector.backward(slope_r.flatten(0, 1))
        self._regressor_adam.step()
        self._rejector_adam.step()

    def _residuals(self, batch: Batch, *, training: bool) -> tuple[Tensor, Tensor]:
        """Give h - y and the slope of the mean squared error by h, both (table, member of it, row)."""
        prediction = self.regressor.forward(batch.x, training=training)
        residual = prediction.view(self._tables, -1, prediction.shape[1]) - batch.y
        return residual, residual * (2 * batch.share)

    def _surrogate(self, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give l(r,-1), l'(r,-1) and l'(r,+1), each (member, row), by the surrogate of each member."""
        if len(self._groups) == 1:
            return _losses(self._groups[0][0], score)
        out = tuple(torch.empty_like(score) for _ in range(3))
        for surrogate, rows in self._groups:
            for whole, part in zip(out, _losses(surrogate, score[rows]), strict=True):
                whole[rows] = part
        return out[0], out[1], out[2]

    def _costs(self, batch: Batch) -> Tensor:
        return self._cost if batch.cost is None else batch.cost

    @torch.no_grad()
    def validate(self, feed: Feed) -> Tensor:
        """RcR loss of every pair, or the squared error of every regressor where there is no rejector."""
        total = torch.zeros(len(self.members), device=self.regressor.parameters.device)
        for batch in feed.in_order():
            residual, _ = self._residuals(batch, training=False)
            loss = residual.mul_(residual)
            if self.rejector is not None:
                score = self.rejector.forward(batch.rejector_x).view_as(loss)
                # a rejection must not hide that a network is infinite or undefined: 0 * inf is NaN
                loss = torch.where(score > 0, loss, self._costs(batch)) + 0 * loss * score
            share = batch.share * (batch.real / feed.rows)
            total += (loss * share).sum(dim=2).flatten()
        return total

    def forget_moments(self) -> None:
        """Start the regressors' optimiser afresh."""
        self._regressor_adam = StackedAdam(self.regressor, [member.learning_rate for member in self.members])

    def freeze(self, member: int) -> None:
        """Take a diverged member out of training."""
        self._regressor_adam.freeze(member)
        if self._rejector_adam is not None:
            self._rejector_adam.freeze(member)


class _Best:
    """The best epoch of every member so far, and its weights."""

    def __init__(self, trainer: StackedTrainer) -> None:
        self._trainer = trainer
        self._stacks = [s for s in (trainer.regressor, trainer.rejector) if s is not None]
        self._weights = [stack.parameters.clone() for stack in self._stacks]
        self.loss = torch.full((len(trainer.members),), torch.inf, device=trainer.regressor.parameters.device)
        self.epoch = torch.full_like(self.loss, -1, dtype=torch.long)
        self.history: list[Tensor] = []
        self.diverged: dict[int, int] = {}

    def see(self, loss: Tensor, epoch: Tensor, active: Tensor) -> None:
        """Keep the weights of the active members whose validation loss is the lowest yet."""
        for member in (~loss.isfinite() & active).nonzero().flatten().tolist():
            if member not in self.diverged:
                self.diverged[member] = int(epoch[member])
                self._trainer.freeze(member)
        loss[list(self.diverged)] = torch.inf
        loss[~active] = torch.inf
        self.history.append(loss)
        improved = (loss < self.loss).nonzero().flatten()
        if len(improved):
            self._keep(improved, loss, epoch)

    def _keep(self, chosen: Tensor, loss: Tensor, epoch: Tensor) -> None:
        self.loss[chosen], self.epoch[chosen] = loss[chosen], epoch[chosen]
        for stack, kept in zip(self._stacks, self._weights, strict=True):
            for to, of in zip(stack.views(kept), stack.views(stack.parameters), strict=True):
                to[chosen] = of[chosen]

    def restore(self) -> Trained:
        """Put the best weights back and hand everything over."""
        for stack, kept in zip(self._stacks, self._weights, strict=True):
            stack.parameters.copy_(kept)
        regressor, rejector = self._trainer.regressor, self._trainer.rejector
        return Trained(regressor, rejector, self.loss, self.epoch, torch.stack(self.history), self.diverged)


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

    Returns
    -------
    Trained
        Members in the order given.
    """
    feed, held_out = _feeds(tables, validation, members, plan)
    solo, start_of = _shared_starts(members)
    alone = StackedTrainer(solo, networks.regressors([m.seed for m in solo]))
    ready = _slow_start(alone, feed, held_out, plan)[start_of]
    rejector = networks.rejectors([m.rejector_seed for m in members])
    pairs = alone.with_rejectors(members, start_of, rejector)
    best = _Best(pairs)
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
) -> Trained:
    """Train regressors alone on the squared error, each with its best epoch by validation error ("Sup")."""
    feed, held_out = _feeds(tables, validation, members, plan)
    trainer = StackedTrainer(members, networks.regressors([m.seed for m in members]))
    best = _Best(trainer)
    every = torch.ones_like(best.epoch, dtype=torch.bool)
    for epoch in range(plan.epochs):
        for batch in feed.shuffled(plan.batch_size, _SOLO, epoch):
            trainer.step_regressors(batch)
        best.see(trainer.validate(held_out), torch.full_like(best.epoch, epoch), active=every)
        plan.tell(epoch)
    return best.restore()


def _feeds(
    tables: Sequence[Table], validation: Sequence[Table], members: Sequence[Member], plan: Plan
) -> tuple[Feed, Feed]:
    count, device = _count_tables(members), torch.device(plan.device)
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


def _losses(surrogate: Surrogate, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return surrogate(score)[0], *surrogate.derivative(score)


def _by_surrogate(members: Sequence[Member], device: torch.device) -> list[tuple[Surrogate, Tensor]]:
    names = list(dict.fromkeys(member.surrogate for member in members))
    return [
        (
            surrogates.get(name),
            torch.tensor([i for i, m in enumerate(members) if m.surrogate == name], device=device),
        )
        for name in names
    ]


def _count_tables(members: Sequence[Member]) -> int:
    tables = [member.table for member in members]
    count = max(tables) + 1
    if len(tables) % count or tables != [i * count // len(tables) for i in range(len(tables))]:
        raise ValueError(f"members must be ordered by table, with as many for each table, got tables {tables}")
    return count
