"""A range of rejection costs, and training and validation rows at costs from the range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recuse.engine.batches import Batch, Table, random_stream

__all__ = ["CostRange", "at_drawn_costs", "at_several_costs"]

_COSTS_PER_VALIDATION_ROW = 8
_DRAW = 2  # makes the random streams of costs differ from those of minibatches


@dataclass(frozen=True)
class CostRange:
    """Costs from `low` to `high`, uniform in the logarithm.

    Examples
    --------
    >>> costs = CostRange(low=1.0, high=100.0)
    >>> costs.at(torch.tensor([0.0, 0.5, 1.0]))
    tensor([  1.,  10., 100.])
    >>> costs.offset(torch.tensor([1.0, 10.0, 100.0]))
    tensor([-1.,  0.,  1.])
    """

    low: float
    high: float

    def offset(self, cost: Tensor) -> Tensor:
        """Return what a cost adds to the score: 0 at the geometric mean of the range, -1 and 1 at its ends."""
        half = 0.5 * (math.log(self.high) - math.log(self.low)) or 1.0
        return (cost.log() - 0.5 * (math.log(self.low) + math.log(self.high))) / half

    def feature(self, cost: Tensor) -> Tensor:
        """Return the feature of a cost, of unit variance over the range."""
        return self.offset(cost) * 3**0.5

    def at(self, quantile: Tensor) -> Tensor:
        """Return the cost at a quantile of the range."""
        return self.low * (self.high / self.low) ** quantile


def at_drawn_costs(
    batches: Iterable[Batch], costs: CostRange, *, feature: int, seed: int, epoch: int
) -> Iterator[Batch]:
    """Yield the batches of an epoch with a random cost for every row.

    Parameters
    ----------
    batches : iterable of Batch
    costs : CostRange
    feature : int
        Index of the feature that holds the cost.
    seed, epoch : int
        Determine the costs.
    """
    for number, batch in enumerate(batches):
        quantile = torch.rand(batch.y.shape, generator=random_stream(seed, _DRAW, epoch, number))
        cost = costs.at(quantile).to(batch.y)
        x = batch.x.clone()
        x[:, feature] = costs.feature(cost)[:, 0]
        yield replace(batch, x=x, rejector_x=x, cost=cost)


def at_several_costs(table: Table, costs: CostRange) -> Table:
    """Repeat every row at costs from low to high. The cost is the last feature."""
    count = _COSTS_PER_VALIDATION_ROW
    cost = costs.at((torch.arange(count) + 0.5) / count).repeat(len(table.y))
    x, error = table.x.repeat_interleave(count, dim=0), table.y.repeat_interleave(count)
    x[:, -1] = costs.feature(cost)
    weight = None if table.weight is None else table.weight.repeat_interleave(count)
    return replace(table, x=x, y=error, weight=weight, cost=cost)
