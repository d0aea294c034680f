"""Stream: pairs that learn from one batch of rows after another, for `partial_fit`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recuse.engine.batches import Feed, Table
from recuse.engine.loop import Networks
from recuse.engine.stack import Stack
from recuse.engine.trainer import Member, StackedTrainer
from recuse.losses import SQUARED, TargetLoss

__all__ = ["Stream"]

_MEMORY = 0.9  # how much of the running loss survives each call


class Stream:
    """Test, then train: each table is first a measurement and then one epoch of training.

    The first table is measured after training, since before it the learning rates have not yet made a difference.

    Parameters
    ----------
    members : sequence of Member
    networks : Networks
    slow_start : int
        How many tables train the regressors alone.
    loss : TargetLoss
        In the units of the tables.
    """

    def __init__(
        self, members: Sequence[Member], networks: Networks, slow_start: int, loss: TargetLoss = SQUARED
    ) -> None:
        self.calls, self.slow_start, self.loss = 0, slow_start, torch.zeros(len(members))
        self._pairs = StackedTrainer(
            members,
            networks.regressors([m.seed for m in members]),
            networks.rejectors([m.rejector_seed for m in members]),
            loss,
        )

    def learn(self, table: Table, batch_size: int) -> None:
        """Measure the present pairs on the table, then train them on it for one epoch."""
        feed = Feed([table], self.regressor.parameters.device)
        if self.calls > 0:
            self.loss = _MEMORY * self.loss + (1 - _MEMORY) * self._measure(feed)
        step = self._pairs.step_regressors if self.calls < self.slow_start else self._pairs.step_pairs
        for batch in feed.shuffled(batch_size, 0, self.calls):
            step(batch)
        if self.calls == 0:
            self.loss = self._measure(feed)
        self.calls += 1

    def _measure(self, feed: Feed) -> Tensor:
        loss: Tensor = self._pairs.validate(feed).cpu()
        return loss.nan_to_num(nan=torch.inf)  # so that a minimum passes a broken member by

    @property
    def regressor(self) -> Stack:
        """The regressors as they are now."""
        return self._pairs.regressor

    @property
    def rejector(self) -> Stack:
        """The rejectors as they are now."""
        assert self._pairs.rejector is not None
        return self._pairs.rejector
