"""StackedTrainer: many pairs (h, r) and the steps that train them; batches in, better networks out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recuse import surrogates
from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Feed
from recuse.engine.stack import Stack
from recuse.losses import SQUARED, TargetLoss
from recuse.surrogates import Surrogate

__all__ = ["Member", "StackedTrainer", "by_surrogate", "count_tables", "surrogate_losses"]


@dataclass(frozen=True)
class Member:
    """One pair (h, r) to be trained.

    Attributes
    ----------
    seed : int
        Fixes the initial weights.
    learning_rate : float
    cost : float
        Cost of a rejection; ignored where the table has a cost for every row.
    surrogate : str or Surrogate
    table : int
        Which of the tables it learns from.
    """

    seed: int
    learning_rate: float
    cost: float = 1.0
    surrogate: str | Surrogate = "mae"
    table: int = 0

    @property
    def rejector_seed(self) -> int:
        """The rejector has initial weights of its own."""
        return (self.seed + 0x9E3779B9) % 2**32

    @property
    def start(self) -> tuple[int, int, float]:
        """What its Slow-Start depends on."""
        return self.table, self.seed, self.learning_rate


class StackedTrainer:
    """The state of training: two stacks, their optimisers, and the steps that change them.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with as many for each table.
    regressor : Stack
    rejector : Stack, optional
        Left out while only regressors are trained.
    loss : TargetLoss
        Of a prediction; in the units of the tables, like the costs.
    """

    def __init__(
        self,
        members: Sequence[Member],
        regressor: Stack,
        rejector: Stack | None = None,
        loss: TargetLoss = SQUARED,
    ) -> None:
        self.members, self.regressor, self.rejector, self._loss = list(members), regressor, rejector, loss
        rates = [member.learning_rate for member in members]
        self._regressor_adam = StackedAdam(regressor, rates)
        self._rejector_adam = None if rejector is None else StackedAdam(rejector, rates)
        self._tables = count_tables(self.members)
        self._groups = by_surrogate(self.members, regressor.parameters.device)
        costs = torch.tensor([m.cost for m in members]).to(regressor.parameters)
        self._cost = costs.view(self._tables, -1, 1)  # (table, member of the table, 1)

    def with_rejectors(self, members: Sequence[Member], chosen: Sequence[int], rejector: Stack) -> StackedTrainer:
        """Go on from the regressors at `chosen` (repeats allowed), each now paired with a rejector."""
        out = StackedTrainer(members, self.regressor.take(chosen), rejector, self._loss)
        rates = [member.learning_rate for member in members]
        out._regressor_adam = self._regressor_adam.take(out.regressor, chosen, rates)
        return out

    def step_regressors(self, batch: Batch) -> None:
        """One step of every regressor on its loss."""
        slope = self._slopes(self._residuals(batch, training=True), batch)
        self.regressor.backward(slope.flatten(0, 1))
        self._regressor_adam.step()

    def step_pairs(self, batch: Batch) -> None:
        """One step of every pair on psi = e l(r,-1) + c l(r,+1), with e the loss of a row."""
        assert self.rejector is not None
        assert self._rejector_adam is not None
        residual = self._residuals(batch, training=True)
        score = self.rejector.forward(batch.rejector_x, training=True)  # (member, row)
        accept, d_accept, d_reject = surrogate_losses(self._groups, score)
        # d psi / d h = e' l(r,-1), where e' is 2 (h - y) for the squared error
        slope = self._slopes(residual, batch).flatten(0, 1)
        slope.mul_(accept if slope.ndim == 2 else accept[:, None])
        # d psi / d r = e l'(r,-1) + c l'(r,+1)
        by_table = (self._tables, -1, score.shape[1])
        slope_r = self._errors(residual).mul_(d_accept.view(by_table))
        slope_r.add_(self._costs(batch) * d_reject.view(by_table)).mul_(batch.share)
        self.regressor.backward(slope)
        self.rejector.backward(slope_r.flatten(0, 1))
        self._regressor_adam.step()
        self._rejector_adam.step()

    def _residuals(self, batch: Batch, *, training: bool) -> Tensor:
        """Give h - y (table, member of it, row), or (table, member of it, output, row) of several."""
        prediction = self.regressor.forward(batch.x, training=training)
        target = batch.y if prediction.ndim == 2 else batch.y[:, None]
        return prediction.view(self._tables, -1, *prediction.shape[1:]) - target

    def _errors(self, residual: Tensor) -> Tensor:
        """Give the loss of every row (table, member of it, row): the mean over the outputs."""
        error = self._loss(residual)
        return error if error.ndim == 3 else error.mean(dim=2)

    def _slopes(self, residual: Tensor, batch: Batch) -> Tensor:
        """Give the slope, by every output, of the mean loss over the batch; of the shape of the residuals."""
        share = batch.share if residual.ndim == 3 else batch.share[:, None] / residual.shape[2]
        return self._loss.slope(residual, share)

    def _costs(self, batch: Batch) -> Tensor:
        return self._cost if batch.cost is None else batch.cost

    @torch.no_grad()
    def validate(self, feed: Feed) -> Tensor:
        """RcR loss of every pair, or the loss of every regressor where there is no rejector."""
        total = torch.zeros(len(self.members), device=self.regressor.parameters.device)
        for batch in feed.in_order():
            loss = self._errors(self._residuals(batch, training=False))
            if self.rejector is not None:
                score = self.rejector.forward(batch.rejector_x).view_as(loss)
                # a rejection must not hide that a network is infinite or undefined: 0 * inf is NaN
                loss = torch.where(score > 0, loss, self._costs(batch)) + 0 * loss * score
            share = batch.share * (batch.real / feed.rows)
            total += (loss * share).sum(dim=2).flatten()
        return total

    def forget_moments(self) -> None:
        """Start the regressors' optimiser afresh."""
        self._regressor_adam = StackedAdam(self.regressor, [member.learning_rate for member in self.members])

    def freeze(self, member: int) -> None:
        """Take a diverged member out of training."""
        self._regressor_adam.freeze(member)
        if self._rejector_adam is not None:
            self._rejector_adam.freeze(member)


def by_surrogate(members: Sequence[Member], device: torch.device) -> list[tuple[Surrogate, Tensor]]:
    """Which members use which surrogate."""
    names = list(dict.fromkeys(member.surrogate for member in members))
    return [
        (surrogates.get(name), torch.tensor([i for i, m in enumerate(members) if m.surrogate == name], device=device))
        for name in names
    ]


def surrogate_losses(groups: list[tuple[Surrogate, Tensor]], score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give l(r,-1), l'(r,-1) and l'(r,+1), each (member, row), by the surrogate of each member."""
    if len(groups) == 1:
        return _losses(groups[0][0], score)
    out = tuple(torch.empty_like(score) for _ in range(3))
    for surrogate, rows in groups:
        for whole, part in zip(out, _losses(surrogate, score[rows]), strict=True):
            whole[rows] = part
    return out[0], out[1], out[2]


def _losses(surrogate: Surrogate, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return surrogate(score)[0], *surrogate.derivative(score)


def count_tables(members: Sequence[Member]) -> int:
    """How many tables the members learn from; they must be ordered by table, with as many for each."""
    tables = [member.table for member in members]
    count = max(tables) + 1
    if len(tables) % count or tables != [i * count // len(tables) for i in range(len(tables))]:
        raise ValueError(f"members must be ordered by table, with as many for each table, got tables {tables}")
    return count
