"""Objective of rejectors trained on given errors of a regressor.

The targets of a table are the errors e of its rows, ideally out-of-fold. The surrogate psi = e l(r,-1) + c l(r,+1) is
then a function of the score r only.

With a range of costs the score is r(x, c) = u + g(x, u), where u is the logarithm of the cost, scaled to -1 to 1 over
the range, and g is the network. So the score increases with the cost from the start, and the network learns the
threshold of a row. The loss is divided by the cost, so that high and low costs have the same influence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches
from recuse.engine.cost_range import CostRange
from recuse.engine.members import Member, costs_by_table
from recuse.engine.objectives.base import mean_loss
from recuse.engine.objectives.surrogate_losses import SurrogateLosses
from recuse.engine.stack import Stack

__all__ = ["Rejectors"]


class Rejectors:
    """Rejectors that minimise the surrogate psi for given errors.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with the same number for each table.
    stack : Stack
    costs : CostRange, optional
        With it, every row of a batch needs a cost, and the costs of the members are ignored.
    """

    def __init__(self, members: Sequence[Member], stack: Stack, costs: CostRange | None = None) -> None:
        self.stack, self._range = stack, costs
        self._adam = StackedAdam(stack, [member.learning_rate for member in members])
        self._surrogates = SurrogateLosses(members, stack.parameters.device)
        self._cost = costs_by_table(members, like=stack.parameters)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The rejectors."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every rejector."""
        score = self._scores(batch, training=True)
        _, d_accept, d_reject = (losses.view_as(score) for losses in self._surrogates(score.flatten(0, 1)))
        slope = self._per_cost(batch.y * d_accept + self._costs(batch) * d_reject, batch)
        self.stack.backward(slope.mul_(batch.share).flatten(0, 1))
        self._adam.step()

    def validate(self, batches: Batches) -> Tensor:
        """Return the RcR loss of every rejector; with a range of costs, in units of the cost."""
        return mean_loss(batches, len(self.stack), self._rcr_loss)

    def _rcr_loss(self, batch: Batch) -> Tensor:
        score = self._scores(batch)
        # 0 * inf is NaN, so that an infinite or undefined output shows in the loss even if the row is rejected
        loss = torch.where(score > 0, batch.y, self._costs(batch)) + 0 * score
        return self._per_cost(loss, batch)

    def _scores(self, batch: Batch, *, training: bool = False) -> Tensor:
        """Return the scores (table, member of the table, row)."""
        score = self.stack.forward(batch.x, training=training, reuse=True)
        score = score.view(len(self._cost), -1, score.shape[1])
        return score if self._range is None else score + self._range.offset(self._costs(batch))

    def _costs(self, batch: Batch) -> Tensor:
        if batch.cost is None:
            return self._cost
        # within a range the cost is a divisor, and the padding of a batch has a cost of zero
        return batch.cost if self._range is None else batch.cost.clamp(min=self._range.low)

    def _per_cost(self, loss: Tensor, batch: Batch) -> Tensor:
        return loss if self._range is None else loss / self._costs(batch)

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self._adam.freeze(member)
