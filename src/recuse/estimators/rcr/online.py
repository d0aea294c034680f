"""Online training of pairs of regressor and rejector, for `partial_fit`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recuse.engine.batches import Batches, Table
from recuse.engine.loop import run_epochs
from recuse.engine.members import Member
from recuse.engine.objectives.pairs import Pairs, Regressors
from recuse.engine.plan import Networks
from recuse.engine.stack import Stack, threads_for
from recuse.losses import SQUARED, TargetLoss

__all__ = ["Stream"]

_DECAY = 0.9  # weight of the past in the running loss


class Stream:
    """Pairs that are validated on each new table and then trained on it for one epoch.

    The first table is validated after training, because before it the learning rates have had no effect.

    Parameters
    ----------
    members : sequence of Member
    networks : Networks
    slow_start : int
        Number of tables on which the regressors train alone.
    loss : TargetLoss
        In the units of the tables.
    """

    def __init__(
        self, members: Sequence[Member], networks: Networks, slow_start: int, loss: TargetLoss = SQUARED
    ) -> None:
        self.calls, self.slow_start, self.loss = 0, slow_start, torch.zeros(len(members))
        regressors = Regressors(members, networks.regressors([m.seed for m in members]), loss)
        self._pairs = Pairs(regressors, networks.rejectors([m.rejector_seed for m in members]))

    def learn(self, table: Table, batch_size: int) -> None:
        """Update the running loss on the table, then train the pairs on it for one epoch."""
        batches = Batches([table], self.regressor.parameters.device)
        rows = min(batch_size, batches.rows)
        with threads_for(self._pairs.stacks, rows):
            if self.calls > 0:
                self.loss = _DECAY * self.loss + (1 - _DECAY) * self._validate(batches)
            run_epochs(
                self._pairs.regressors if self.calls < self.slow_start else self._pairs,
                lambda _: batches.shuffled(batch_size, 0, self.calls),
                epochs=1,
                batch_rows=rows,
            )
            if self.calls == 0:
                self.loss = self._validate(batches)
        self.calls += 1
        for stack in self._pairs.stacks:
            stack.end_training()

    def _validate(self, batches: Batches) -> Tensor:
        loss: Tensor = self._pairs.validate(batches).cpu()
        return loss.nan_to_num(nan=torch.inf)  # so that a diverged member is never the minimum

    @property
    def regressor(self) -> Stack:
        """The regressors in their present state."""
        return self._pairs.regressors.stack

    @property
    def rejector(self) -> Stack:
        """The rejectors in their present state."""
        return self._pairs.rejector
