"""Early stopping: the weights of each member's best epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from recuse.engine.stack import Array, Stack
from recuse.engine.training import Validated


@dataclass(frozen=True)
class Trained:
    """Trained stacks, with the weights of each member's best epoch.

    Attributes
    ----------
    regressor, rejector : Stack
        The rejector is None if only one stack was trained.
    loss : ndarray of shape (member,)
        Validation loss of the best epoch; infinite for a member that diverged before it had one.
    epoch : ndarray of shape (member,)
        The best epoch, counted from the start of training; -1 if there is none.
    history : ndarray of shape (epoch, member)
        Validation loss of every epoch from which the best was chosen; infinite after a member has diverged.
    diverged : dict of int to int
        Members with an infinite or undefined loss, and the epoch in which their training stopped.
    """

    regressor: Stack
    rejector: Stack | None
    loss: Array
    epoch: Array
    history: Array
    diverged: dict[int, int] = field(default_factory=dict)


class BestEpochs:
    """The best epoch of every member so far, and its weights.

    Parameters
    ----------
    objective : Validated
    pools : sequence of sequence of int
        Groups of members that share their best epoch, which is that of the lowest mean loss of the group. Every other
        member has its own best epoch.
    share : ndarray of shape (member,), optional
        Weight of each member in the mean of its pool; equal by default.
    """

    def __init__(self, objective: Validated, pools: Sequence[Sequence[int]] = (), share: Array | None = None) -> None:
        members = len(objective.stacks[0])
        self._objective, self._pools = objective, [np.array(pool) for pool in pools]
        self._share = np.ones(members) if share is None else share
        self._weights = [stack.parameters.copy() for stack in objective.stacks]
        self.loss, self._last = np.full(members, np.inf), np.full(members, np.inf)
        self.epoch = np.full(members, -1)
        self.history: list[Array] = []
        self.diverged: dict[int, int] = {}

    def record(self, loss: Array, epoch: int) -> None:
        """Keep the weights of the members whose validation loss (member,) is the lowest so far."""
        loss = loss.astype(np.float64)
        for member in np.flatnonzero(~np.isfinite(loss)).tolist():
            if member not in self.diverged:
                self.diverged[member] = epoch
                self._objective.freeze(member)
        loss[list(self.diverged)] = np.inf
        self._last = np.where(np.isfinite(loss), loss, self._last)
        for members in self._pools:
            self._pool(loss, members)
        self.history.append(loss)
        improved = np.flatnonzero(loss < self.loss)
        if len(improved):
            self.loss[improved], self.epoch[improved] = loss[improved], epoch
            for stack, kept in zip(self._objective.stacks, self._weights, strict=True):
                for to, of in zip(stack.views(kept), stack.views(stack.parameters), strict=True):
                    to[improved] = of[improved]

    def _pool(self, loss: Array, members: Array) -> None:
        """Replace the losses of these members by their mean, with the last loss of those that have diverged."""
        known, training = members[np.isfinite(self._last[members])], members[np.isfinite(loss[members])]
        if len(training):
            loss[training] = np.average(self._last[known], weights=self._share[known])

    def restore(self) -> Trained:
        """Copy the best weights back to the stacks, and return the result of the training."""
        stacks = self._objective.stacks
        for stack, kept in zip(stacks, self._weights, strict=True):
            stack.parameters[:] = kept
        rejector = stacks[1] if len(stacks) > 1 else None
        return Trained(stacks[0], rejector, self.loss, self.epoch, np.stack(self.history), self.diverged)
