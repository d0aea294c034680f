"""How features, targets and costs enter the engine, and how results return to the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.losses import SQUARED, TargetLoss
from recuse.tabular.encoder import TableEncoder, Unseen
from recuse.tabular.rows import Rows

__all__ = ["Units", "moments", "target_moments"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """How features, targets and costs enter the engine, learned from the training rows.

    The target is standardised, so that one set of learning rates suits all units; the cost shrinks by what the loss
    does (for the squared error, by the square of the same factor), which leaves every decision as it was. Several
    targets are divided by the same factor, so that the mean over them stays what it is. A cost that varies by row
    becomes one more input of the rejector, as its standardised logarithm.
    """

    encoder: TableEncoder
    target_mean: float | Floats  # of several targets (output,)
    target_scale: float
    log_cost: tuple[float, float, float] | None  # floor, mean, scale
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
        """Learn the features from `everything` and the scales from the part trained on."""
        encoder = TableEncoder(unseen).fit(everything.X, everything.weight)
        mean, scale = target_moments(train.y, train.weight)
        if not scale_target:
            mean = 0.0 * mean
        if scale_target is not True:
            scale = 1.0
        log_cost = None if is_constant(cost) else _learn_log(train)
        return cls(encoder, mean, scale if scale > 0 else 1.0, log_cost, loss)

    @property
    def n_outputs(self) -> int:
        """How many targets there are."""
        return 1 if isinstance(self.target_mean, float) else len(self.target_mean)

    @property
    def engine_loss(self) -> TargetLoss:
        """The loss in the units of the engine."""
        return self.target_loss.scaled(self.target_scale)

    def features(self, X: Any) -> Floats:
        """Give the inputs of the regressor (row, feature)."""
        return self.encoder.transform(X)

    def rejector_features(self, features: Floats, cost: Floats) -> Floats:
        """Give the inputs of the rejector (row, feature): the same, and the cost where it varies."""
        if self.log_cost is None:
            return features
        floor, mean, scale = self.log_cost
        return np.column_stack([features, (np.log(cost + floor) - mean) / scale])

    def cost(self, cost: Floats) -> Floats:
        """Give costs in the units of the engine."""
        return cost / self.target_loss.unit(self.target_scale)

    def loss(self, loss: Floats) -> Floats:
        """Give losses of the engine in the user's units."""
        return loss * self.target_loss.unit(self.target_scale)

    def prediction(self, output: Floats) -> Floats:
        """Give outputs (..., row) of the regressor in the user's units; of several, (..., row, output)."""
        by_row = output if self.n_outputs == 1 else np.swapaxes(output, -1, -2)
        return by_row * self.target_scale + self.target_mean

    def errors(self, output: Floats, rows: Rows) -> Floats:
        """Give the losses (row,) of outputs (row,) or (output, row), in the user's units."""
        return self.target_loss.of_rows(self.prediction(output) - rows.y)


def _learn_log(rows: Rows) -> tuple[float, float, float]:
    floor = 1e-3 * float(rows.cost.mean()) or 1.0  # keeps the logarithm of a free rejection finite
    mean, scale = moments(np.log(rows.cost + floor), rows.weight)
    return floor, mean, scale or 1.0


def moments(values: Floats, weight: Floats) -> tuple[float, float]:
    """Give the weighted mean and standard deviation."""
    mean = np.average(values, weights=weight)
    return float(mean), float(np.average((values - mean) ** 2, weights=weight) ** 0.5)


def target_moments(y: Floats, weight: Floats) -> tuple[float | Floats, float]:
    """Give the weighted mean of each target and one standard deviation: for several, the root of the mean variance."""
    if y.ndim == 1:
        return moments(y, weight)
    mean, scale = zip(*(moments(column, weight) for column in y.T), strict=True)
    return np.array(mean), float(np.mean(np.square(scale)) ** 0.5)
