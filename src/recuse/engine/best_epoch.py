"""BestEpochs: validation losses in, the weights of each member's best epoch out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from recuse.engine.stack import Stack

__all__ = ["BestEpochs", "Trained", "Trainer"]


class Trainer(Protocol):
    """What is trained, as far as choosing its best epoch goes."""

    @property
    def members(self) -> Sequence[object]: ...  # noqa: D102
    @property
    def regressor(self) -> Stack: ...  # noqa: D102
    @property
    def rejector(self) -> Stack | None: ...  # noqa: D102

    def freeze(self, member: int) -> None:
        """Take a diverged member out of training."""


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


class BestEpochs:
    """The best epoch of every member so far, and its weights.

    Parameters
    ----------
    trainer : Trainer
    pools : sequence of Tensor
        Members that choose their epoch together, by the mean of their losses; the others choose alone.
    share : Tensor of shape (member,), optional
        What the loss of a member counts for in the mean of its pool; equal for all by default.
    """

    def __init__(self, trainer: Trainer, pools: Sequence[Tensor] = (), share: Tensor | None = None) -> None:
        self._trainer, self._pools, self._share = trainer, pools, share
        self._stacks = [s for s in (trainer.regressor, trainer.rejector) if s is not None]
        self._weights = [stack.parameters.clone() for stack in self._stacks]
        self.loss = torch.full((len(trainer.members),), torch.inf, device=trainer.regressor.parameters.device)
        self.epoch = torch.full_like(self.loss, -1, dtype=torch.long)
        self._last = self.loss.clone()
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
        self._last = torch.where(loss.isfinite(), loss, self._last)
        for members in self._pools:
            self._agree(loss, members)
        self.history.append(loss)
        improved = (loss < self.loss).nonzero().flatten()
        if len(improved):
            self._keep(improved, loss, epoch)

    def _agree(self, loss: Tensor, members: Tensor) -> None:
        """Give these members the mean of their losses; one that was dropped goes on counting with its last loss."""
        known, going_on = members[self._last[members].isfinite()], members[loss[members].isfinite()]
        share = torch.ones_like(loss[known]) if self._share is None else self._share[known]
        loss[going_on] = (self._last[known] * share).sum() / share.sum()

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
