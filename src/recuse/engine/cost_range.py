"""A range of rejection costs, and training and validation rows at costs from the range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from recuse.engine.batches import Batch, Table
from recuse.engine.stack import Array

_COSTS_PER_VALIDATION_ROW = 8
_DRAW = 2  # makes the random streams of costs differ from those of minibatches


@dataclass(frozen=True)
class CostRange:
    """Costs from `low` to `high`, uniform in the logarithm.

    Examples
    --------
    >>> costs = CostRange(low=1.0, high=100.0)
    >>> costs.at(np.array([0.0, 0.5, 1.0]))
    array([  1.,  10., 100.])
    >>> costs.offset(np.array([1.0, 10.0, 100.0]))
    array([-1.,  0.,  1.])
    """

    low: float
    high: float

    def offset(self, cost: Array) -> Array:
        """Return what a cost adds to the score: 0 at the geometric mean of the range, -1 and 1 at its ends."""
        half = 0.5 * (math.log(self.high) - math.log(self.low)) or 1.0
        return np.asarray((np.log(cost) - 0.5 * (math.log(self.low) + math.log(self.high))) / half)

    def feature(self, cost: Array) -> Array:
        """Return the feature of a cost, of unit variance over the range."""
        return self.offset(cost) * math.sqrt(3)

    def at(self, quantile: Array) -> Array:
        """Return the cost at a quantile of the range."""
        return np.asarray(self.low * (self.high / self.low) ** quantile)


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
        random = np.random.default_rng([seed, _DRAW, epoch, number])
        cost = costs.at(random.random(batch.y.shape, np.float32))
        x = batch.x.copy()
        x[:, feature] = costs.feature(cost)[:, 0]
        yield replace(batch, x=x, rejector_x=x, cost=cost)


def at_several_costs(table: Table, costs: CostRange) -> Table:
    """Repeat every row at costs from low to high. The cost is the last feature."""
    count = _COSTS_PER_VALIDATION_ROW
    cost = np.tile(costs.at((np.arange(count) + 0.5) / count), len(table.y)).astype(table.y.dtype)
    x, error = table.x.repeat(count, axis=0), table.y.repeat(count)
    x[:, -1] = costs.feature(cost)
    weight = None if table.weight is None else table.weight.repeat(count)
    return replace(table, x=x, y=error, weight=weight, cost=cost)
