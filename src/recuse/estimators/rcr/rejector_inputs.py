"""Inputs of rejectors that are trained on errors: features, predictions, disagreement and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.engine.cost_range import CostRange
from recuse.tabular.units import Units, moments, target_moments

__all__ = ["RejectorInputs", "disagreement"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RejectorInputs:
    """Computes the inputs of the rejectors: features, h(x), disagreement of members, and the cost if it varies.

    Attributes
    ----------
    units : Units
    cost_range : CostRange or None
        Costs in the user's units.
    sizes : tuple of int
        Number of members of each fold.
    prediction : tuple
        Mean (for each of several targets) and standard deviation of h(x) over the training rows.
    spread : tuple or None
        Floor of the disagreement, and mean and standard deviation of its logarithm; None with one member for each fold.
    """

    units: Units
    cost_range: CostRange | None
    sizes: tuple[int, ...]
    prediction: tuple[float | Floats, float]
    spread: tuple[float, float, float] | None

    @classmethod
    def learn(
        cls,
        units: Units,
        cost_range: CostRange | None,
        sizes: tuple[int, ...],
        prediction: Floats,
        spread: Floats,
        weight: Floats,
        *,
        single: bool,
    ) -> Self:
        """Learn the scales from out-of-fold predictions and disagreement; `single` means one member for each fold."""
        mean, scale = target_moments(prediction.T, weight)
        return cls(units, cost_range, sizes, (mean, scale or 1.0), None if single else _log_moments(spread, weight))

    def of_new_rows(self, features: Floats, predictions: Floats, cost: Floats) -> Floats:
        """Return the inputs (row, input) of new rows, given the predictions of all members (member, ..., row)."""
        by_fold = np.split(predictions, np.cumsum(self.sizes)[:-1])
        spread = np.mean([disagreement(members) for members in by_fold], axis=0)
        return self.of_rows(features, predictions.mean(axis=0), spread, cost)

    def of_rows(self, features: Floats, prediction: Floats, spread: Floats, cost: Floats) -> Floats:
        """Return the inputs (row, input), all standardised; a varying cost is the last."""
        mean, scale = self.prediction
        columns = [features, (prediction.T - mean) / scale]
        if self.spread is not None:
            floor, log_mean, log_scale = self.spread
            columns.append((np.log(spread + floor) - log_mean) / log_scale)
        return self.with_cost(np.column_stack(columns), cost)

    def with_cost(self, inputs: Floats, cost: Floats) -> Floats:
        """Append the cost to the other inputs if it varies."""
        if self.cost_range is not None:
            return np.column_stack([inputs, self.cost_range.feature(torch.as_tensor(cost)).numpy()])
        return self.units.rejector_features(inputs, cost)

    @property
    def has_cost(self) -> bool:
        """Whether the cost is an input."""
        return self.cost_range is not None or self.units.log_cost is not None


def disagreement(predictions: Floats) -> Floats:
    """Return the standard deviation (row,) among members (member, row), averaged over outputs (member, output, row)."""
    spread: Floats = predictions.std(axis=0)
    return spread if spread.ndim == 1 else np.asarray(spread.mean(axis=0))


def _log_moments(spread: Floats, weight: Floats) -> tuple[float, float, float]:
    floor = 1e-3 * float(spread.mean()) or 1.0  # keeps the logarithm of full agreement finite
    mean, scale = moments(np.log(spread + floor), weight)
    return floor, mean, scale or 1.0
