"""Objective of SelectiveNets (Geifman and El-Yaniv, 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import Stack
from recuse.losses import SQUARED, TargetLoss

__all__ = ["SelectiveMember", "SelectiveNets", "selective_loss"]


@dataclass(frozen=True)
class SelectiveMember:
    """One SelectiveNet to train.

    Attributes
    ----------
    seed : int
        Determines the initial weights.
    learning_rate : float
    coverage : float
        Target share of accepted rows.
    """

    seed: int
    learning_rate: float = 5e-4
    coverage: float = 0.7


def selective_loss(
    heads: Tensor,
    target: Tensor,
    weight: Tensor,
    coverage: Tensor,
    *,
    alpha: float = 0.5,
    lam: float = 32.0,
    loss: TargetLoss = SQUARED,
) -> Tensor:
    """Return the loss of SelectiveNet, eq. 5-7 of Geifman and El-Yaniv (2019), for every member.

    With e the loss of the prediction (in the paper its squared error) and e' that of the auxiliary prediction, this is

        alpha [ mean(e g) / mean(g) + lam max(0, coverage - mean(g))^2 ] + (1 - alpha) mean(e')

    Parameters
    ----------
    heads : Tensor of shape (3, ..., row)
        Prediction, selection g in (0, 1) and auxiliary prediction.
    target, weight : Tensor of shape (..., row)
        Targets, and the relative weights of the rows in every mean.
    coverage : Tensor of shape (...)
    alpha, lam : float
    loss : TargetLoss

    Returns
    -------
    Tensor of shape (...)

    Examples
    --------
    >>> heads = torch.tensor([[1.0, 2.0], [0.5, 0.25], [0.0, 0.0]])
    >>> selective_loss(heads, torch.zeros(2), torch.ones(2), torch.tensor(0.3))  # (1 * 0.5 + 4 * 0.25) / 0.75 / 2
    tensor(1.)
    """
    prediction, selection, auxiliary = heads
    share = weight / weight.sum(dim=-1, keepdim=True)
    covered = (share * selection).sum(dim=-1)
    # without the division a smaller g would lower the risk, and only the penalty would oppose it
    risk = (share * selection * loss(prediction - target)).sum(dim=-1) / covered
    penalty = (coverage - covered).clamp(min=0) ** 2
    support = (share * loss(auxiliary - target)).sum(dim=-1)
    whole: Tensor = alpha * (risk + lam * penalty) + (1 - alpha) * support
    return whole


class SelectiveNets:
    """SelectiveNets that minimise `selective_loss`.

    Parameters
    ----------
    members : sequence of SelectiveMember
        Divided evenly among the tables, in order.
    stack : StackedSelectiveNet
    weight_decay : float
        Adds ``weight_decay * parameter`` to the gradient, as ``torch.optim.Adam`` does.
    alpha, lam, loss
        See `selective_loss`.
    """

    def __init__(
        self,
        members: Sequence[SelectiveMember],
        stack: StackedSelectiveNet,
        *,
        weight_decay: float = 1e-4,
        alpha: float = 0.5,
        lam: float = 32.0,
        loss: TargetLoss = SQUARED,
    ) -> None:
        self.stack, self._weight_decay = stack, weight_decay
        self._alpha, self._lam, self._loss = alpha, lam, loss
        self._adam = StackedAdam(stack, [member.learning_rate for member in members])
        self._coverage = torch.tensor([member.coverage for member in members]).to(stack.parameters)
        self._step_losses: list[Tensor] = []

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The SelectiveNets."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every member, and record the loss before it. A batch of one row is skipped."""
        if batch.real < 2:  # a single row has no variance for batch norm to normalise by
            return
        rows = slice(batch.real)  # no padding: it would change the statistics of batch norm
        outputs = self.stack.forward(batch.x[..., rows], training=True).requires_grad_()
        loss = self._losses(outputs, batch.y[..., rows], batch.share[..., rows])
        # members are independent, so the gradient of the sum is that of each one's loss
        (slope,) = torch.autograd.grad(loss.sum(), outputs)
        self.stack.backward(slope)
        self.stack.gradient.add_(self.stack.parameters, alpha=self._weight_decay)
        self._adam.step()
        self._step_losses.append(loss.detach().flatten())

    def training_loss(self) -> Tensor:
        """Return the mean loss (member,) of the steps since the last call."""
        losses, self._step_losses = self._step_losses, []
        return torch.stack(losses).mean(dim=0)

    def _losses(self, outputs: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        tables = len(target)
        heads = outputs.view(3, tables, -1, outputs.shape[1])  # (head, table, member of the table, row)
        coverage = self._coverage.view(tables, -1)
        return selective_loss(heads, target, weight, coverage, alpha=self._alpha, lam=self._lam, loss=self._loss)
