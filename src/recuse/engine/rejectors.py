"""Rejectors that learn from errors already made: tables of errors and members in, trained rejectors out.

Where `train_pairs` lets regressor and rejector grow together, here the regressor is done: the target of a table is the
error e of each row, squared or by another loss, best measured on rows the regressor was not fitted to. What remains of
the surrogate is psi = e l(r,-1) + c l(r,+1), a function of r alone.

With a range of costs the score is r(x, c) = u + g(x, u), where u is the logarithm of the cost, -1 to 1 over the range:
from the start the score rises with the cost, and the network g learns the row's own threshold and what else its
surrogate asks for. Each row meets a fresh cost in each epoch. The loss is then divided by the cost, so that dear and
cheap rejections count alike.

The RcR loss of a few rows jumps from epoch to epoch, and its lowest value is mostly luck. So all rejectors of a
learning rate stop at the same epoch, that of the lowest mean over the validation rows of all tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Feed, Table, random_stream
from recuse.engine.best_epoch import BestEpochs, Trained
from recuse.engine.loop import Plan, make_feeds
from recuse.engine.stack import Stack
from recuse.engine.trainer import Member, by_surrogate, count_tables, surrogate_losses

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
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    build: Callable[[Sequence[int]], Stack],
    plan: Plan,
    costs: CostRange | None = None,
) -> Trained:
    """Train rejectors on errors; those of a learning rate share their best epoch by validation RcR loss.

    Parameters
    ----------
    tables, validation : sequence of Table
        The rows to learn from and, for each of them, the rows that choose; all tables have as many rows, and so have
        all validation tables. Their `y` are errors, squared or by another loss. With a range of costs, `x` has one more
        feature at the end, of any value: the place for the cost.
    members : sequence of Member
        Ordered by table, with as many for each. With a range of costs, their own cost plays no part.
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
    choosing = [each if costs is None else _at_several_costs(each, costs) for each in validation]
    feed, held_out = make_feeds(tables, choosing, members, plan)
    place = tables[0].x.shape[1] - 1  # of the cost among the features
    trainer = _RejectorTrainer(members, build([m.rejector_seed for m in members]), costs)
    weights = torch.stack([validation[member.table].total_weight for member in members])
    best = BestEpochs(trainer, _by_rate(members, device), weights.to(device))
    every = torch.ones_like(best.epoch, dtype=torch.bool)
    for epoch in range(plan.epochs):
        for number, batch in enumerate(feed.shuffled(plan.batch_size, 0, epoch)):
            seed = (tables[0].seed, _DRAW, epoch, number)
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
        costs_of_members = torch.tensor([member.cost for member in members]).to(stack.parameters)
        self._tables = count_tables(self.members)
        self._cost = costs_of_members.view(self._tables, -1, 1)  # (table, member of the table, 1)

    def step(self, batch: Batch) -> None:
        """One step of every rejector on psi, its errors given."""
        score = self._score(batch, training=True)
        _, d_accept, d_reject = (
            slopes.view_as(score) for slopes in surrogate_losses(self._groups, score.flatten(0, 1))
        )
        slope = self._in_units(batch.y * d_accept + self._costs(batch) * d_reject, batch)
        self.regressor.backward(slope.mul_(batch.share).flatten(0, 1))
        self._adam.step()

    @torch.no_grad()
    def validate(self, feed: Feed) -> Tensor:
        """RcR loss of every rejector."""
        total = torch.zeros_like(self._cost).flatten()
        for batch in feed.in_order():
            score = self._score(batch)
            # a rejection must not hide that a network is infinite or undefined: 0 * inf is NaN
            loss = torch.where(score > 0, batch.y, self._costs(batch)) + 0 * score
            share = batch.share * (batch.real / feed.rows)
            total += (self._in_units(loss, batch) * share).sum(dim=2).flatten()
        return total

    def _costs(self, batch: Batch) -> Tensor:
        if batch.cost is None:
            return self._cost
        # within a range the cost is a divisor, also of the rows of zeros that fill up a batch
        return batch.cost if self._range is None else batch.cost.clamp(min=self._range.low)

    def _score(self, batch: Batch, *, training: bool = False) -> Tensor:
        """The score (table, member of it, row), at the cost of each row where there is a range."""
        score = self.regressor.forward(batch.x, training=training)
        score = score.view(self._tables, -1, score.shape[1])
        return score if self._range is None else score + self._range.offset(self._costs(batch))

    def _in_units(self, loss: Tensor, batch: Batch) -> Tensor:
        """Give losses as they are or, where there is a range, in units of the cost."""
        return loss if self._range is None else loss / self._costs(batch)

    def freeze(self, member: int) -> None:
        """Take a diverged member out of training."""
        self._adam.freeze(member)


def _by_rate(members: Sequence[Member], device: torch.device) -> list[Tensor]:
    """Which members have which learning rate."""
    rates = dict.fromkeys(member.learning_rate for member in members)
    return [
        torch.tensor([i for i, m in enumerate(members) if m.learning_rate == rate], device=device) for rate in rates
    ]


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
