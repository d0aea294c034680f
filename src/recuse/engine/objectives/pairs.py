"""Objectives of regressors alone, and of pairs of regressor and rejector on the surrogate of the RcR loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches
from recuse.engine.members import Member, costs_by_table, count_tables
from recuse.engine.objectives.base import mean_loss
from recuse.engine.objectives.surrogate_losses import SurrogateLosses
from recuse.engine.stack import Stack
from recuse.engine.steady import LEAST_WEIGHT, excess_score
from recuse.losses import SQUARED, TargetLoss

__all__ = ["Pairs", "Regressors", "StartingPairs"]


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
    bounded : bool
        Whether the cost times half the squared distance of the score from [-1, 1] is added to psi. The sign of the best
        score of a row does not depend on it. The regressors also keep learning from rejected rows, with a small weight,
        so that a rejector that rejects all rows at first can change its decisions.
    """

    def __init__(self, regressors: Regressors, rejector: Stack, *, bounded: bool = False) -> None:
        self.regressors, self.rejector, self._bounded = regressors, rejector, bounded
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
        if self._bounded:
            d_reject = d_reject + excess_score(score)
            accept = accept.clamp(min=LEAST_WEIGHT)
        # d psi / d h = e' l(r,-1), where e' is 2 (h - y) for the squared error
        slope = self.regressors.slopes(residual, batch).flatten(0, 1)
        slope.mul_(accept if slope.ndim == 2 else accept[:, None])
        slope_r = self.rejector_slopes(residual, d_accept, d_reject, batch)
        self.regressors.update(slope)
        self.update_rejector(slope_r)

    def rejector_slopes(self, residual: Tensor, d_accept: Tensor, d_reject: Tensor, batch: Batch) -> Tensor:
        """Return the derivative (member, row) of the mean of psi over the batch by the scores."""
        # d psi / d r = e l'(r,-1) + c l'(r,+1)
        by_table = (len(self._cost), -1, d_accept.shape[1])
        slope = self.regressors.errors(residual).mul_(d_accept.view(by_table))
        return slope.add_(self._costs(batch) * d_reject.view(by_table)).mul_(batch.share).flatten(0, 1)

    def update_rejector(self, slope: Tensor) -> None:
        """Change the weights of the rejectors, given the derivative by the scores of the last training step."""
        self.rejector.backward(slope)
        self._adam.step()

    def take(self, members: Sequence[Member], chosen: Sequence[int], *, bounded: bool) -> Pairs:
        """Return copies of the pairs at `chosen`, with their moments of Adam, as new members."""
        out = Pairs(self.regressors.take(members, chosen), self.rejector.take(chosen), bounded=bounded)
        out._adam = self._adam.take(out.rejector, chosen, [member.learning_rate for member in members])
        return out

    def reset_adam(self) -> None:
        """Set the moments of Adam to zero, also those of the regressors."""
        self.regressors.reset_adam()
        self._adam = StackedAdam(self.rejector, [member.learning_rate for member in self.regressors.members])

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


class StartingPairs:
    """Slow-Start of pairs: regressors that minimise their own loss, and rejectors that learn their errors meanwhile.

    The rejectors minimise the logistic surrogate, whatever the surrogate of the joint training. Its optimum log(c/e)
    is a smooth function of the expected error e, while a rejector that starts from random scores with the sigmoid or
    piecewise linear losses often stays at a poor local optimum.

    Parameters
    ----------
    regressors : Regressors
    rejector : Stack
        One rejector for each regressor.
    alone : int
        Steps before the rejectors start to learn.
    """

    def __init__(self, regressors: Regressors, rejector: Stack, alone: int = 0) -> None:
        self.pairs, self._alone = Pairs(regressors, rejector), alone
        starting = [replace(member, surrogate="logistic") for member in regressors.members]
        self._surrogates = SurrogateLosses(starting, rejector.parameters.device)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The regressors and the rejectors."""
        return self.pairs.stacks

    def step(self, batch: Batch) -> None:
        """Take one step of every regressor and every rejector."""
        regressors = self.pairs.regressors
        if self._alone > 0:
            self._alone -= 1
            regressors.step(batch)
            return
        residual = regressors.residuals(batch, training=True)
        score = self.pairs.rejector.forward(batch.rejector_x, training=True)  # (member, row)
        _, d_accept, d_reject = self._surrogates(score)
        slope_r = self.pairs.rejector_slopes(residual, d_accept, d_reject, batch)
        regressors.update(regressors.slopes(residual, batch).flatten(0, 1))
        self.pairs.update_rejector(slope_r)

    def validate(self, batches: Batches) -> Tensor:
        """Return the loss of every regressor, which decides when Slow-Start ends."""
        return self.pairs.regressors.validate(batches)

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self.pairs.freeze(member)

    def reset_adam(self) -> None:
        """Set the moments of Adam to zero."""
        self.pairs.reset_adam()
