"""The interface of an objective, and the mean of its losses over validation rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from recuse.engine.batches import Batch, Batches
from recuse.engine.stack import Stack

__all__ = ["Objective", "Validated", "mean_loss"]


class Objective(Protocol):
    """Stacks of networks with their optimisers and the loss that a step lowers."""

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that a step changes."""

    def step(self, batch: Batch) -> None:
        """Take one optimiser step for all members."""


class Validated(Objective, Protocol):
    """An objective whose members are compared by their loss on validation rows."""

    def validate(self, batches: Batches) -> Tensor:
        """Return the validation loss of every member, of shape (member,)."""

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""


@torch.no_grad()
def mean_loss(batches: Batches, members: int, loss: Callable[[Batch], Tensor]) -> Tensor:
    """Return the weighted mean over all rows of a loss per row.

    Parameters
    ----------
    batches : Batches
    members : int
        Number of members of all tables.
    loss : callable
        From a batch to the loss of shape (table, member of the table, row).

    Returns
    -------
    Tensor of shape (member,)
    """
    total = torch.zeros(members, device=batches.device)
    for batch in batches.in_order():
        share = batch.share * (batch.real / batches.rows)
        total += (loss(batch) * share).sum(dim=2).flatten()
    return total
