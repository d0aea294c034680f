"""What a rejector that learns from errors goes by: features, predictions and costs in, its inputs out."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.costs import Cost, resolve
from recuse.engine.cost_range import CostRange
from recuse.tabular.units import Units, moments, target_moments
from recuse.validation import require

__all__ = ["Sight", "costs_within", "disagreement", "read_range"]

Floats = NDArray[np.float64]


def read_range(cost: Cost, residuals: str) -> CostRange | None:
    """Read a tuple of two numbers as a range of costs; every other form of cost is none.

    Examples
    --------
    >>> read_range((1, 9), "crossfit")
    CostRange(low=1.0, high=9.0)
    >>> read_range([1, 9], "crossfit") is None
    True
    """
    if not (isinstance(cost, tuple) and len(cost) == 2 and all(isinstance(end, Real) for end in cost)):
        return None
    if residuals != "crossfit":
        raise ValueError(
            f"a tuple of two numbers is a range of costs and needs residuals='crossfit', got cost={cost} with "
            f"residuals={residuals!r}; give costs of two rows as a list or an array"
        )
    low, high = map(float, cost)
    require(0 < low < high < inf, "a range of costs", "(low, high) with 0 < low < high", cost)
    return CostRange(low, high)


def costs_within(costs: CostRange, cost: Cost | None, X: Any, n_rows: int) -> Floats:
    """Give one cost for each row, all within the range; an error if there is none or it lies outside."""
    span = f"{costs.low} to {costs.high}"
    if cost is None:
        raise ValueError(
            f"the model was fitted for every cost from {span}, so a decision needs one: "
            "pass cost=, a number or one value per row"
        )
    rows = resolve(cost, X, n_rows)
    outside = (rows < costs.low) | (rows > costs.high)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"cost must be within {span}, the range the model was fitted for, got {rows[row]} at row {row}"
        )
    return rows


@dataclass(frozen=True)
class Sight:
    """What the rejectors see, besides the features: h(x), the members' disagreement and the cost where it varies.

    Attributes
    ----------
    units : Units
    costs : CostRange or None
        In the user's units.
    sizes : tuple of int
        How many members each fold has.
    prediction : tuple
        Mean of h(x), of each of several targets, and standard deviation on the training rows.
    spread : tuple or None
        Floor, and mean and standard deviation of the logarithm; None where a fold has one member by design.
    """

    units: Units
    costs: CostRange | None
    sizes: tuple[int, ...]
    prediction: tuple[float | Floats, float]
    spread: tuple[float, float, float] | None

    @classmethod
    def learn(
        cls,
        units: Units,
        costs: CostRange | None,
        sizes: tuple[int, ...],
        said: tuple[Floats, Floats],
        weight: Floats,
        *,
        lonely: bool,
    ) -> Self:
        """Learn the scales from what members said about rows they had not seen: predictions and disagreement."""
        prediction, spread = said
        mean, scale = target_moments(prediction.T, weight)
        return cls(units, costs, sizes, (mean, scale or 1.0), None if lonely else _log_moments(spread, weight))

    def of_new_rows(self, features: Floats, said: Floats, cost: Floats) -> Floats:
        """Give the inputs (row, input) of rows nobody has seen, by what each member says of them (member, ..., row)."""
        by_fold = np.split(said, np.cumsum(self.sizes)[:-1])
        spread = np.mean([disagreement(members) for members in by_fold], axis=0)
        return self.inputs(features, said.mean(axis=0), spread, cost)

    def inputs(self, features: Floats, prediction: Floats, spread: Floats, cost: Floats) -> Floats:
        """Give the inputs (row, input), everything standardised, the cost last where it varies."""
        mean, scale = self.prediction
        columns = [features, (prediction.T - mean) / scale]
        if self.spread is not None:
            floor, log_mean, log_scale = self.spread
            columns.append((np.log(spread + floor) - log_mean) / log_scale)
        if self.costs is not None:
            columns.append(self.costs.feature(torch.as_tensor(cost)).numpy())
        return self.units.rejector_features(np.column_stack(columns), cost)


def disagreement(said: Floats) -> Floats:
    """Standard deviation (row,) among members (member, row); of several outputs (member, output, row), their mean."""
    spread: Floats = said.std(axis=0)
    return spread if spread.ndim == 1 else np.asarray(spread.mean(axis=0))


def _log_moments(spread: Floats, weight: Floats) -> tuple[float, float, float]:
    floor = 1e-3 * float(spread.mean()) or 1.0  # keeps the logarithm of full agreement finite
    mean, scale = moments(np.log(spread + floor), weight)
    return floor, mean, scale or 1.0
