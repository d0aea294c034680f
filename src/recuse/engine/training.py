"""The epoch loop, and the losses of all members over validation rows.

All members of a stack take each step together but are independent: training a member in a stack gives the same weights
as training it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.members import Member, count_tables
from recuse.engine.stack import Array, Stack, threads_for

ALONE, JOINT = 0, 1  # phases of training, which have different orders of minibatches


class Objective(Protocol):
    """Stacks of networks with their optimisers and the loss that a step lowers."""

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that a step changes."""

    def step(self, batch: Batch) -> None:
        """Take one optimiser step for all members."""


class Validated(Objective, Protocol):
    """An objective whose members are compared by their loss on validation rows."""

    def validate(self, batches: Batches) -> Array:
        """Return the validation loss of every member, of shape (member,)."""

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""


def run_epochs(
    objective: Objective,
    batches: Callable[[int], Iterable[Batch]],
    epochs: int,
    *,
    batch_rows: int,
    end_epoch: Callable[[int], None] | None = None,
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
        Called with each epoch after its steps.
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done.
    """
    # a member that diverges has infinite values, and is reported by its loss
    with threads_for(objective.stacks, batch_rows), np.errstate(all="ignore"):
        for epoch in range(epochs):
            for batch in batches(epoch):
                objective.step(batch)
            if end_epoch is not None:
                end_epoch(epoch)
            if on_epoch is not None:
                on_epoch(epoch + 1)


def make_batches(
    tables: Sequence[Table], validation: Sequence[Table], members: Sequence[Member]
) -> tuple[Batches, Batches]:
    """Return the training batches and the validation batches."""
    count = count_tables(members)
    if not len(tables) == len(validation) == count:
        raise ValueError(
            f"every table needs members and a validation table, got {len(tables)} tables, "
            f"{len(validation)} validation tables and members for {count}"
        )
    return Batches(tables), Batches(validation)


def mean_loss(batches: Batches, loss: Callable[[Batch], Array]) -> Array:
    """Return the weighted mean over all rows of a loss per row.

    Parameters
    ----------
    batches : Batches
    loss : callable
        From a batch to the loss of shape (table, member of the table, row).

    Returns
    -------
    ndarray of shape (member,)
    """
    parts = [
        (loss(batch) * batch.share).sum(axis=2).ravel() * (batch.real / batches.rows) for batch in batches.in_order()
    ]
    return np.asarray(np.sum(parts, axis=0))
