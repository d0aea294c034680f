"""Early stopping: the weights of each member's best epoch, or of the epoch in which its loss stalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recuse.engine.objectives.base import Validated
from recuse.engine.schedule import stalled
from recuse.engine.stack import Stack

__all__ = ["BestEpochs", "StalledEpochs", "Trained"]


@dataclass(frozen=True)
class Trained:
    """Trained stacks, with the weights of each member's best epoch.

    Attributes
    ----------
    regressor, rejector : Stack
        The rejector is None if only one stack was trained.
    loss : Tensor of shape (member,)
        Validation loss of the best epoch; infinite for a member that diverged before it had one.
    epoch : Tensor of shape (member,)
        The best epoch, counted from the start of training; -1 if there is none.
    history : Tensor of shape (epoch, member)
        Validation loss of every epoch from which the best was chosen; infinite after a member has diverged or ended.
    diverged : dict of int to int
        Members with an infinite or undefined loss, and the epoch in which their training stopped.
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
    objective : Validated
    pools : sequence of Tensor
        Groups of members that share their best epoch, which is that of the lowest mean loss of the group. Every other
        member has its own best epoch.
    share : Tensor of shape (member,), optional
        Weight of each member in the mean of its pool; equal by default.
    """

    def __init__(self, objective: Validated, pools: Sequence[Tensor] = (), share: Tensor | None = None) -> None:
        self._objective, self._pools, self._share = objective, pools, share
        self._weights = [stack.parameters.clone() for stack in objective.stacks]
        first = objective.stacks[0]
        self.loss = torch.full((len(first),), torch.inf, device=first.parameters.device)
        self.epoch = torch.full_like(self.loss, -1, dtype=torch.long)
        self._last = self.loss.clone()
        self.history: list[Tensor] = []
        self.diverged: dict[int, int] = {}

    def record(self, loss: Tensor, epoch: Tensor | int, active: Tensor | None = None) -> None:
        """Keep the weights of the active members whose validation loss is the lowest so far.

        Parameters
        ----------
        loss : Tensor of shape (member,)
            Validation loss; it is changed in place.
        epoch : int or Tensor of shape (member,)
        active : Tensor of bool of shape (member,), optional
            Members whose training has not ended; all by default.
        """
        epochs = epoch if isinstance(epoch, Tensor) else torch.full_like(self.epoch, epoch)
        training = torch.ones_like(loss, dtype=torch.bool) if active is None else active
        for member in (~loss.isfinite() & training).nonzero().flatten().tolist():
            if member not in self.diverged:
                self.diverged[member] = int(epochs[member])
                self._objective.freeze(member)
        loss[list(self.diverged)] = torch.inf
        loss[~training] = torch.inf
        self._last = torch.where(loss.isfinite(), loss, self._last)
        for members in self._pools:
            self._pool(loss, members)
        self.history.append(loss)
        improved = (loss < self.loss).nonzero().flatten()
        if len(improved):
            self.loss[improved], self.epoch[improved] = loss[improved], epochs[improved]
            for stack, kept in zip(self._objective.stacks, self._weights, strict=True):
                _copy_members(stack, kept, improved)

    def _pool(self, loss: Tensor, members: Tensor) -> None:
        """Replace the losses of these members by their mean, with the last loss of those whose training has ended."""
        known, training = members[self._last[members].isfinite()], members[loss[members].isfinite()]
        share = torch.ones_like(loss[known]) if self._share is None else self._share[known]
        loss[training] = (self._last[known] * share).sum() / share.sum()

    def restore(self) -> Trained:
        """Copy the best weights back to the stacks, and return the result of the training."""
        stacks = self._objective.stacks
        for stack, kept in zip(stacks, self._weights, strict=True):
            stack.parameters.copy_(kept)
        rejector = stacks[1] if len(stacks) > 1 else None
        return Trained(stacks[0], rejector, self.loss, self.epoch, torch.stack(self.history), self.diverged)


class StalledEpochs:
    """The epoch in which the validation loss of each member stalled, and its weights then.

    Parameters
    ----------
    objective : Validated
    epochs : int
        Number of epochs for the members whose loss does not stall before.
    patience : int
        Epochs without improvement.
    """

    def __init__(self, objective: Validated, epochs: int, patience: int) -> None:
        self._stacks = objective.stacks
        self._limit, self._patience = epochs, patience
        first = self._stacks[0]
        self.epochs = torch.full((len(first),), epochs, device=first.parameters.device)
        self._weights = [stack.parameters.clone() for stack in self._stacks]
        self._history: list[Tensor] = []

    def record(self, loss: Tensor, epoch: int) -> bool:
        """Keep the weights of the members whose loss has just stalled; return True once all have."""
        self._history.append(loss)
        now = stalled(torch.stack(self._history), patience=self._patience) & (self.epochs == self._limit)
        self.epochs[now] = epoch + 1
        for stack, kept in zip(self._stacks, self._weights, strict=True):
            _copy_members(stack, kept, now)
        return bool((self.epochs < self._limit).all())

    def restore(self) -> None:
        """Copy the weights that were kept back to the stacks. Members that never stalled keep those of the end."""
        for stack, kept in zip(self._stacks, self._weights, strict=True):
            _copy_members(stack, kept, self.epochs == self._limit)
            stack.parameters.copy_(kept)


def _copy_members(stack: Stack, into: Tensor, chosen: Tensor) -> None:
    """Copy the parameters of the chosen members to a buffer of the same layout."""
    for to, of in zip(stack.views(into), stack.views(stack.parameters), strict=True):
        to[chosen] = of[chosen]
