"""Scales of the inputs of rejectors that are trained on errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recuse.engine.cost_range import CostRange
from recuse.rules.networks import RejectorInputs
from recuse.tabular.units import Units, moments, target_moments

__all__ = ["learn_inputs"]

Floats = NDArray[np.float64]


def learn_inputs(
    units: Units,
    cost_range: CostRange | None,
    sizes: tuple[int, ...],
    prediction: Floats,
    spread: Floats,
    weight: Floats,
    *,
    single: bool,
) -> RejectorInputs:
    """Learn the scales from out-of-fold predictions and disagreement; `single` means one member for each fold."""
    mean, scale = target_moments(prediction.T, weight)
    log_spread = None if single else _log_moments(spread, weight)
    return RejectorInputs(units, cost_range, sizes, (mean, scale or 1.0), log_spread)


def _log_moments(spread: Floats, weight: Floats) -> tuple[float, float, float]:
    floor = 1e-3 * float(spread.mean()) or 1.0  # keeps the logarithm of full agreement finite
    mean, scale = moments(np.log(spread + floor), weight)
    return floor, mean, scale or 1.0
