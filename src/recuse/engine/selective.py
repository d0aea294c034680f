"""SelectiveNet's loss, steps and loop: tables and members in, a trained stack out.

A member has its own seed, learning rate and coverage, and never sees another: trained in a stack, it ends with the same
weights as trained alone. The last epoch is kept, as in the original: choosing it by validation risk did no better in
our trials on UCI tables, and like this the validation rows need no labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Feed, Table
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.losses import SQUARED, TargetLoss

__all__ = [
    "SelectiveMember",
    "SelectivePlan",
    "SelectiveTrainer",
    "SelectivelyTrained",
    "selective_loss",
    "train_selective",
]


@dataclass(frozen=True)
class SelectiveMember:
    """One network to be trained: what fixes its initial weights, how fast it learns and what it must cover."""

    seed: int
    learning_rate: float = 5e-4
    coverage: float = 0.7


@dataclass(frozen=True)
class SelectivePlan:
    """How long and by which loss to train.

    Attributes
    ----------
    epochs : int
    batch_size : int
        Rows of a batch, at most; they are made as even as can be, since batch norm suffers from a small last one.
    weight_decay : float
        Adds ``weight_decay * parameter`` to the gradient, as ``torch.optim.Adam`` does.
    alpha, lam, loss
        See `selective_loss`.
    device : str
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done; for progress bars.
    """

    epochs: int = 800
    batch_size: int = 256
    weight_decay: float = 1e-4
    alpha: float = 0.5
    lam: float = 32.0
    loss: TargetLoss = SQUARED
    device: str = "cpu"
    on_epoch: Callable[[int], None] | None = None

    def tell(self, epoch: int) -> None:
        """Report that an epoch is over."""
        if self.on_epoch is not None:
            self.on_epoch(epoch + 1)

    def even_batch(self, rows: int) -> int:
        """Give the size of batches for so many rows.

        Examples
        --------
        >>> SelectivePlan(batch_size=256).even_batch(258)
        129
        """
        return math.ceil(rows / math.ceil(rows / self.batch_size))


@dataclass(frozen=True)
class SelectivelyTrained:
    """What training leaves behind; the weights are those of the last epoch, as in the original.

    Attributes
    ----------
    stack : StackedSelectiveNet
    history : Tensor of shape (epoch, member)
        Training loss, mean over the steps of the epoch.
    diverged : dict of int to int
        Members that met infinite or undefined values, and the epoch in which they first did; useless from there on.
    """

    stack: StackedSelectiveNet
    history: Tensor
    diverged: dict[int, int]


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
    """Loss of SelectiveNet, eq. 5-7 of Geifman and El-Yaniv (2019), for every member.

    With e the loss of the prediction (originally its squared error) and e' that of the auxiliary prediction, this is

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
    # without the division a smaller g would pay, and the penalty alone would have to hold it up
    risk = (share * selection * loss(prediction - target)).sum(dim=-1) / covered
    penalty = (coverage - covered).clamp(min=0) ** 2
    support = (share * loss(auxiliary - target)).sum(dim=-1)
    whole: Tensor = alpha * (risk + lam * penalty) + (1 - alpha) * support
    return whole


class SelectiveTrainer:
    """The state of training: a stack, its optimiser, and the step that changes them.

    Parameters
    ----------
    members : sequence of SelectiveMember
        Divided evenly among the tables, in order.
    stack : StackedSelectiveNet
    plan : SelectivePlan
    """

    def __init__(self, members: Sequence[SelectiveMember], stack: StackedSelectiveNet, plan: SelectivePlan) -> None:
        self.stack, self.plan = stack, plan
        self._adam = StackedAdam(stack, [member.learning_rate for member in members])
        self._coverage = torch.tensor([member.coverage for member in members]).to(stack.parameters)

    def step(self, batch: Batch) -> Tensor:
        """One step of every member; give the loss of each (member,) before it."""
        rows = slice(batch.real)  # no padding: it would enter the statistics of batch norm
        outputs = self.stack.forward(batch.x[..., rows], training=True).requires_grad_()
        loss = self._loss(outputs, batch.y[..., rows], batch.share[..., rows])
        # members are independent, so the gradient of the sum is each one's own
        (slope,) = torch.autograd.grad(loss.sum(), outputs)
        self.stack.backward(slope)
        self.stack.gradient.add_(self.stack.parameters, alpha=self.plan.weight_decay)
        self._adam.step()
        return loss.detach().flatten()

    def _loss(self, outputs: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        tables, plan = len(target), self.plan
        heads = outputs.view(3, tables, -1, outputs.shape[1])  # (head, table, member of it, row)
        coverage = self._coverage.view(tables, -1)
        return selective_loss(heads, target, weight, coverage, alpha=plan.alpha, lam=plan.lam, loss=plan.loss)


def train_selective(
    tables: Sequence[Table],
    members: Sequence[SelectiveMember],
    build: Callable[[Sequence[int]], StackedSelectiveNet],
    plan: SelectivePlan,
) -> SelectivelyTrained:
    """Train SelectiveNets side by side.

    Parameters
    ----------
    tables : sequence of Table
        The rows to learn from. All tables have as many.
    members : sequence of SelectiveMember
        Divided evenly among the tables, in order.
    build : callable of seeds to StackedSelectiveNet
    plan : SelectivePlan

    Returns
    -------
    SelectivelyTrained
        Members in the order given.
    """
    if len(members) % len(tables):
        raise ValueError(f"every table needs as many members, got {len(members)} members for {len(tables)} tables")
    feed = Feed(tables, torch.device(plan.device))
    if feed.rows < 2:
        raise ValueError(f"batch norm needs at least 2 rows to train on, got {feed.rows}")
    trainer = SelectiveTrainer(members, build([member.seed for member in members]), plan)
    history = []
    for epoch in range(plan.epochs):
        batches = feed.shuffled(plan.even_batch(feed.rows), 0, epoch)
        # a single row has no spread to normalise by, and is passed over
        losses = [trainer.step(batch) for batch in batches if batch.real > 1]
        history.append(torch.stack(losses).mean(dim=0))
        plan.tell(epoch)
    return _handed_over(trainer.stack, torch.stack(history))


def _handed_over(stack: StackedSelectiveNet, history: Tensor) -> SelectivelyTrained:
    """See who diverged: by the loss of an epoch, or by weights that broke in the very last step."""
    whole = [part.flatten(1).isfinite().all(dim=1) for part in stack.views(stack.parameters)]
    sound = history.isfinite()
    sound[-1] &= torch.stack(whole).all(dim=0)
    broken = (~sound).any(dim=0).nonzero().flatten().tolist()
    return SelectivelyTrained(stack, history, {member: int(sound[:, member].int().argmin()) for member in broken})
