"""Objectives of regressors alone, and of pairs of regressor and rejector on the surrogate of the RcR loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches
from recuse.engine.members import Member, costs_by_table, count_tables
from recuse.engine.objectives.base import mean_loss
from recuse.engine.objectives.surrogate_losses import SurrogateLosses
from recuse.engine.stack import Stack
from recuse.losses import SQUARED, TargetLoss

__all__ = ["Pairs", "Regressors"]


class Regressors:
    """Regressors that minimise the loss of their predictions.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with the same number for each table.
    stack : Stack
    loss : TargetLoss
        Loss of a prediction, in the units of the tables.
    """

    def __init__(self, members: Sequence[Member], stack: Stack, loss: TargetLoss = SQUARED) -> None:
        self.members, self.stack, self.loss = list(members), stack, loss
        self._adam = StackedAdam(stack, [member.learning_rate for member in members])
        self._tables = count_tables(self.members)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The regressors."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every regressor."""
        self.update(self.slopes(self.residuals(batch, training=True), batch).flatten(0, 1))

    def validate(self, batches: Batches) -> Tensor:
        """Return the loss of every regressor."""
        return mean_loss(batches, len(self.members), lambda batch: self.errors(self.residuals(batch)))

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self._adam.freeze(member)

    def residuals(self, batch: Batch, *, training: bool = False) -> Tensor:
        """Return h - y of shape (table, member of the table, row), or (..., output, row) with several outputs."""
        prediction = self.stack.forward(batch.x, training=training, reuse=True)
        target = batch.y if prediction.ndim == 2 else batch.y[:, None]
        return prediction.view(self._tables, -1, *prediction.shape[1:]) - target

    def errors(self, residual: Tensor) -> Tensor:
        """Return the loss of every row (table, member of the table, row): the mean over the outputs."""
        error = self.loss(residual)
        return error if error.ndim == 3 else error.mean(dim=2)

    def slopes(self, residual: Tensor, batch: Batch) -> Tensor:
        """Return the derivative of the mean loss over the batch by every output, of the shape of the residuals."""
        share = batch.share if residual.ndim == 3 else batch.share[:, None] / residual.shape[2]
        return self.loss.slope(residual, share)

    def update(self, slope: Tensor) -> None:
        """Change the weights, given the derivative of the loss by the outputs of the last training step."""
        self.stack.backward(slope)
        self._adam.step()

    def scale_rates(self, factor: float) -> None:
        """Use the learning rates times a factor in the next steps."""
        self._adam.factor = factor

    def take(self, members: Sequence[Member], chosen: Sequence[int]) -> Regressors:
        """Return copies of the regressors at `chosen`, with their moments of Adam, as new members."""
        out = Regressors(members, self.stack.take(chosen), self.loss)
        out._adam = self._adam.take(out.stack, chosen, [member.learning_rate for member in members])
        return out

    def reset_adam(self) -> None:
        """Set the moments of Adam to zero."""
        self._adam = StackedAdam(self.stack, [member.learning_rate for member in self.members])


class Pairs:
    """Pairs (h, r) that minimise psi = e l(r,-1) + c l(r,+1), with e the loss of a row and c its cost.

    Parameters
    ----------
    regressors : Regressors
        They continue with their current weights and moments of Adam.
    rejector : Stack
        One rejector for each regressor.
    """

    def __init__(self, regressors: Regressors, rejector: Stack) -> None:
        self.regressors, self.rejector = regressors, rejector
        members = regressors.members
        self._adam = StackedAdam(rejector, [member.learning_rate for member in members])
        self._surrogates = SurrogateLosses(members, rejector.parameters.device)
        self._cost = costs_by_table(members, like=rejector.parameters)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The regressors and the rejectors."""
        return self.regressors.stack, self.rejector

    def step(self, batch: Batch) -> None:
        """Take one step of every pair."""
        residual = self.regressors.residuals(batch, training=True)
        score = self.rejector.forward(batch.rejector_x, training=True)  # (member, row)
        accept, d_accept, d_reject = self._surrogates(score)
        # d psi / d h = e' l(r,-1), where e' is 2 (h - y) for the squared error
        slope = self.regressors.slopes(residual, batch).flatten(0, 1)
        slope.mul_(accept if slope.ndim == 2 else accept[:, None])
        # d psi / d r = e l'(r,-1) + c l'(r,+1)
        by_table = (len(self._cost), -1, score.shape[1])
        slope_r = self.regressors.errors(residual).mul_(d_accept.view(by_table))
        slope_r.add_(self._costs(batch) * d_reject.view(by_table)).mul_(batch.share)
        self.regressors.update(slope)
        self.rejector.backward(slope_r.flatten(0, 1))
        self._adam.step()

    def validate(self, batches: Batches) -> Tensor:
        """Return the RcR loss of every pair."""
        return mean_loss(batches, len(self.rejector), self._rcr_loss)

    def _rcr_loss(self, batch: Batch) -> Tensor:
        error = self.regressors.errors(self.regressors.residuals(batch))
        score = self.rejector.forward(batch.rejector_x, reuse=True).view_as(error)
        # 0 * inf is NaN, so that an infinite or undefined output shows in the loss even if the row is rejected
        return torch.where(score > 0, error, self._costs(batch)) + 0 * error * score

    def _costs(self, batch: Batch) -> Tensor:
        return self._cost if batch.cost is None else batch.cost

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self.regressors.freeze(member)
        self._adam.freeze(member)
