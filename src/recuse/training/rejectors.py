"""Rejectors that learn from errors already made: tables of errors and members in, trained rejectors out.

Where `train_pairs` lets regressor and rejector grow together, here the regressor is done: the target of a table is the
error e of each row, squared or by another loss, best measured on rows the regressor was not fitted to. What remains of
the surrogate is psi = e l(r,-1) + c l(r,+1), a function of r alone.

With a range of costs the score is r(x, c) = u + g(x, u), where u is the logarithm of the cost, -1 to 1 over the range:
from the start the score rises with the cost, and the network g learns the row's own threshold and what else its
surrogate asks for. Each row meets a fresh cost in each epoch. The loss is then divided by the cost, so that dear and
cheap rejections count alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recuse.networks import Stack
from recuse.training.adam import StackedAdam
from recuse.training.best import BestEpochs, Trained
from recuse.training.feed import Batch, Feed, Table, random_stream
from recuse.training.stacked import Plan
from recuse.training.trainer import Member, by_surrogate, surrogate_losses

__all__ = ["CostRange", "train_rejectors"]

_COSTS_OF_A_VALIDATION_ROW = 8
_DRAW = 2  # sets the seeds of costs apart from those of minibatches


@dataclass(frozen=True)
class CostRange:
    """Costs from `low` to `high`, each order of magnitude alike."""

    low: float
    high: float

    def offset(self, cost: Tensor) -> Tensor:
        """What a cost adds to the score: 0 at the geometric middle of the range, +-1 at its ends."""
        half = 0.5 * (math.log(self.high) - math.log(self.low)) or 1.0
        return (cost.log() - 0.5 * (math.log(self.low) + math.log(self.high))) / half

    def feature(self, cost: Tensor) -> Tensor:
        """What the network sees of a cost, of unit variance for costs spread evenly in the logarithm."""
        return self.offset(cost) * 3**0.5

    def at(self, quantile: Tensor) -> Tensor:
        """The cost at a share of the way from low to high."""
        return self.low * (self.high / self.low) ** quantile


def train_rejectors(
    table: Table,
    validation: Table,
    members: Sequence[Member],
    build: Callable[[Sequence[int]], Stack],
    plan: Plan,
    costs: CostRange | None = None,
) -> Trained:
    """Train rejectors on errors, each with its best epoch by validation RcR loss.

    Parameters
    ----------
    table, validation : Table
        Their `y` are errors, squared or by another loss. With a range of costs, `x` has one more feature at the end, of
        any value: the place for the cost.
    members : sequence of Member
        With a range of costs, their own cost plays no part.
    build : callable
        From seeds to a stack of rejectors.
    plan : Plan
    costs : CostRange, optional

    Returns
    -------
    Trained
        Its regressor is the stack of rejectors; it has no other.
    """
    device = torch.device(plan.device)
    feed = Feed([table], device)
    held_out = Feed([validation if costs is None else _at_several_costs(validation, costs)], device)
    place = table.x.shape[1] - 1  # of the cost among the features
    trainer = _RejectorTrainer(members, build([m.rejector_seed for m in members]), costs)
    best = BestEpochs(trainer)
    every = torch.ones_like(best.epoch, dtype=torch.bool)
    for epoch in range(plan.epochs):
        for number, batch in enumerate(feed.shuffled(plan.batch_size, 0, epoch)):
            seed = (table.seed, _DRAW, epoch, number)
            trainer.step(batch if costs is None else _at_drawn_costs(batch, costs, place, seed))
        best.see(trainer.validate(held_out), torch.full_like(best.epoch, epoch), active=every)
        plan.tell(epoch)
    return best.restore()


class _RejectorTrainer:
    """Rejectors, their optimiser, and the step that changes them; the error of each row is given."""

    def __init__(self, members: Sequence[Member], stack: Stack, costs: CostRange | None = None) -> None:
        self._range = costs
        self.members, self.regressor, self.rejector = list(members), stack, None
        self._adam = StackedAdam(stack, [member.learning_rate for member in members])
        self._groups = by_surrogate(self.members, stack.parameters.device)
        self._cost = torch.tensor([[m.cost] for m in members]).to(stack.parameters)  # (member, 1)

    def step(self, batch: Batch) -> None:
        """One step of every rejector on psi, its errors given."""
        score = self._score(batch, training=True)
        _, d_accept, d_reject = surrogate_losses(self._groups, score)
        slope = self._in_units(batch.y[0] * d_accept + self._costs(batch) * d_reject, batch)
        self.regressor.backward(slope.mul_(batch.share[0]))
        self._adam.step()

    @torch.no_grad()
    def validate(self, feed: Feed) -> Tensor:
        """RcR loss of every rejector."""
        total = torch.zeros_like(self._cost[:, 0])
        for batch in feed.in_order():
            score = self._score(batch)
            # a rejection must not hide that a network is infinite or undefined: 0 * inf is NaN
            loss = torch.where(score > 0, batch.y[0], self._costs(batch)) + 0 * score
            total += (self._in_units(loss, batch) * batch.share[0]).sum(dim=1) * (batch.real / feed.rows)
        return total

    def _costs(self, batch: Batch) -> Tensor:
        if batch.cost is None:
            return self._cost
        # within a range the cost is a divisor, also of the rows of zeros that fill up a batch
        return batch.cost[0] if self._range is None else batch.cost[0].clamp(min=self._range.low)

    def _score(self, batch: Batch, *, training: bool = False) -> Tensor:
        """The score (member, row), at the cost of each row where there is a range."""
        score = self.regressor.forward(batch.x, training=training)
        return score if self._range is None else score + self._range.offset(self._costs(batch))

    def _in_units(self, loss: Tensor, batch: Batch) -> Tensor:
        """Give losses as they are or, where there is a range, in units of the cost."""
        return loss if self._range is None else loss / self._costs(batch)

    def freeze(self, member: int) -> None:
        """Take a diverged member out of training."""
        self._adam.freeze(member)


def _at_drawn_costs(batch: Batch, costs: CostRange, place: int, seed: tuple[int, ...]) -> Batch:
    """Meet every row at a fresh cost."""
    cost = costs.at(torch.rand(batch.y.shape, generator=random_stream(*seed))).to(batch.y)
    x = batch.x.clone()
    x[:, place] = costs.feature(cost)[:, 0]
    return replace(batch, x=x, rejector_x=x, cost=cost)


def _at_several_costs(table: Table, costs: CostRange) -> Table:
    """Repeat every row at costs from low to high."""
    count = _COSTS_OF_A_VALIDATION_ROW
    cost = costs.at((torch.arange(count) + 0.5) / count).repeat(len(table.y))
    x, error = table.x.repeat_interleave(count, dim=0), table.y.repeat_interleave(count)
    x[:, -1] = costs.feature(cost)
    weight = None if table.weight is None else table.weight.repeat_interleave(count)
    return replace(table, x=x, y=error, weight=weight, cost=cost)
