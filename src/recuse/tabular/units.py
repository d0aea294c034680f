"""Conversion between the user's units and those of the training engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.losses import SQUARED, TargetLoss
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """Conversion of features, targets and costs to the units of the engine, learned from the training rows.

    The target is standardised, so that the same learning rates suit all units. Costs are divided by the same factor as
    the loss (for the squared error, the square of the scale), so that decisions do not change. The standardised
    logarithm of a cost that varies by row is another input of the rejector.

    Attributes
    ----------
    encoder : TableEncoder
    target_mean, target_scale : float
    log_cost : tuple of float or None
        Floor, mean and scale of the logarithm of the cost; None if the cost is constant.
    target_loss : TargetLoss
    """

    encoder: TableEncoder
    target_mean: float
    target_scale: float
    log_cost: tuple[float, float, float] | None
    target_loss: TargetLoss = SQUARED

    @classmethod
    def learn(
        cls,
        train: Rows,
        everything: Rows,
        cost: Cost,
        *,
        scale_target: bool | Literal["centre"],
        loss: TargetLoss = SQUARED,
        unseen: Unseen = "novel",
    ) -> Self:
        """Learn the encoding from `everything`, and the scales of target and cost from `train`."""
        encoder = TableEncoder(unseen).fit(everything.X, everything.weight, everything.schema)
        mean, scale = moments(train.y, train.weight)
        if not scale_target:
            mean = 0.0
        if scale_target is not True:
            scale = 1.0
        log_cost = None if is_constant(cost) else _learn_log(train)
        return cls(encoder, mean, scale if scale > 0 else 1.0, log_cost, loss)

    @property
    def engine_loss(self) -> TargetLoss:
        """The loss in the units of the engine."""
        return self.target_loss.scaled(self.target_scale)

    def features(self, X: Any) -> Floats:
        """Return the inputs of the regressor (row, feature)."""
        return self.encoder.transform(X)

    def rejector_features(self, features: Floats, cost: Floats) -> Floats:
        """Return the inputs of the rejector (row, feature): the features, and the cost if it varies."""
        if self.log_cost is None:
            return features
        floor, mean, scale = self.log_cost
        return np.column_stack([features, (np.log(cost + floor) - mean) / scale])

    def cost(self, cost: Floats) -> Floats:
        """Return costs in the units of the engine."""
        return cost / self.target_loss.unit(self.target_scale)

    def loss(self, loss: Floats) -> Floats:
        """Return losses of the engine in the user's units."""
        return loss * self.target_loss.unit(self.target_scale)

    def prediction(self, output: Floats) -> Floats:
        """Return outputs (..., row) of the regressor in the user's units."""
        return output * self.target_scale + self.target_mean

    def errors(self, output: Floats, rows: Rows) -> Floats:
        """Return the losses (row,) of outputs (row,), in the user's units."""
        return self.target_loss(self.prediction(output) - rows.y)


def _learn_log(rows: Rows) -> tuple[float, float, float]:
    floor = 1e-3 * float(rows.cost.mean()) or 1.0  # keeps the logarithm of a free rejection finite
    mean, scale = moments(np.log(rows.cost + floor), rows.weight)
    return floor, mean, scale or 1.0


def moments(values: Floats, weight: Floats) -> tuple[float, float]:
    """Return the weighted mean and standard deviation."""
    mean = np.average(values, weights=weight)
    return float(mean), float(np.average((values - mean) ** 2, weights=weight) ** 0.5)
