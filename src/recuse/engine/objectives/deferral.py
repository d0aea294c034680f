"""Objective of networks that choose one of several actions, given the cost of each action for every row.

With the costs mu_k of the actions and the scores r_k, the surrogate (Mao, Mohri and Zhong, 2024) is

    sum_k (sum over i != k of mu_i) * (-log softmax_k(r))

It is lowest where softmax_k(r) is proportional to the sum of the other actions' expected costs. So the action with the
highest score is that with the lowest expected cost. With two actions, of costs e and c, it is the surrogate
psi = e l(r,-1) + c l(r,+1) of rejection with the logistic loss, where r is the difference of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches
from recuse.engine.members import Member, count_tables
from recuse.engine.objectives.base import mean_loss
from recuse.engine.stack import Stack

__all__ = ["Deferrers", "deferral_loss"]


def deferral_loss(scores: Tensor, costs: Tensor, dim: int = -1) -> Tensor:
    """Return the surrogate of every row.

    Parameters
    ----------
    scores, costs : Tensor
        With the actions along `dim`.
    dim : int

    Examples
    --------
    >>> deferral_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 3.0]))  # (3 + 1) log 2
    tensor(2.7726)
    """
    return -(_of_others(costs, dim) * torch.log_softmax(scores, dim)).sum(dim)


class Deferrers:
    """Networks with one output for each action, which minimise `deferral_loss`.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with the same number for each table. The targets of a table are the costs of the actions.
    stack : Stack
    """

    def __init__(self, members: Sequence[Member], stack: Stack) -> None:
        self.stack, self._tables = stack, count_tables(members)
        self._adam = StackedAdam(stack, [member.learning_rate for member in members])

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The networks."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every network."""
        scores, costs = self._scores(batch, training=True), batch.y[:, None]
        others = _of_others(costs, dim=2)
        # d loss / d r_k = softmax_k(r) times the sum of all weights, less the weight of k
        slope = torch.softmax(scores, dim=2) * others.sum(dim=2, keepdim=True) - others
        self.stack.backward((slope * batch.share[:, None]).flatten(0, 1))
        self._adam.step()

    def validate(self, batches: Batches) -> Tensor:
        """Return the surrogate of every network."""
        return mean_loss(
            batches, len(self.stack), lambda batch: deferral_loss(self._scores(batch), batch.y[:, None], 2)
        )

    def _scores(self, batch: Batch, *, training: bool = False) -> Tensor:
        """Return the scores (table, member of the table, action, row)."""
        scores = self.stack.forward(batch.x, training=training, reuse=True)
        return scores.view(self._tables, -1, *scores.shape[1:])

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self._adam.freeze(member)


def _of_others(costs: Tensor, dim: int) -> Tensor:
    """Return for each action the sum of the costs of all others."""
    return costs.sum(dim, keepdim=True) - costs
