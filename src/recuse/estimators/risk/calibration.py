"""Calibration of expected losses by a power law, fitted to out-of-fold errors.

A risk model that is fitted to noisy errors separates rows more than their expected losses differ. The rows with the
lowest risks then have a higher loss than expected, and these are the rows that are accepted. A power below 1 brings the
risks closer together, a power above 1 moves them apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recuse.rules.risk import PowerCalibration

__all__ = ["learn_calibration"]

Floats = NDArray[np.float64]

_PRIOR = 30.0  # prior strength of the power 1, in pseudo-rows whose risks differ as much as those of the rows
_FLOOR = 1e-6  # of the mean risk; keeps logarithms finite
_POWERS = (0.25, 2.0)
_STEPS = 50
_TOLERANCE = 1e-10


def learn_calibration(risk: Floats, error: Floats, weight: Floats) -> PowerCalibration:
    """Fit level and power to errors of rows that the risk models were not fitted to.

    The power has the lowest gamma deviance: rows of low and of high risk count alike, as their relative errors
    have about the same distribution. The deviance is the RcR loss divided by the cost c and averaged over all costs
    with the measure dc / c, up to a constant, so the calibration does not depend on the cost. The level keeps the
    mean loss.

    Parameters
    ----------
    risk, error, weight : ndarray of shape (row,)

    Examples
    --------
    >>> risk = np.repeat([1.0, 4.0, 16.0], 1000)
    >>> calibration = learn_calibration(risk, np.sqrt(risk), np.ones(3000))
    >>> calibration(np.array([1.0, 16.0])).round(1)
    array([1., 4.])
    """
    mean, share = float(np.average(risk, weights=weight)), weight / weight.sum()
    loss = float(share @ error)
    if not (mean > 0 and loss > 0 and np.ptp(risk) > _FLOOR * mean):
        return PowerCalibration()
    floor = _FLOOR * mean
    log_risk = np.log(np.maximum(risk, floor))
    middle = float(share @ log_risk)
    x = log_risk - middle
    positive = risk > floor  # a risk that was clipped at zero has no logarithm, and would decide the power
    known = bool((share * error)[positive].any())
    strength = _PRIOR / len(risk) * float(share @ x**2)
    slope = _fit(x[positive], error[positive] / loss, share[positive], strength) if known else 1.0
    power = float(np.clip(slope, *_POWERS))
    level = loss / float(share @ np.exp(power * x))  # keeps the mean loss
    return PowerCalibration(level, float(np.exp(middle)), power, floor)


def _fit(x: Floats, error: Floats, share: Floats, strength: float) -> float:
    """Return the b of the minimum of sum(share * (error exp(-a - b x) + a + b x)) + strength (b - 1)^2."""

    def value(level: float, power: float) -> float:
        line = level + power * x
        with np.errstate(over="ignore"):  # a step that is too long
            return float(share @ (error * np.exp(-line) + line)) + strength * (power - 1) ** 2

    place = np.array([np.log(float(share @ (error * np.exp(-x)))), 1.0])
    for _ in range(_STEPS):
        relative = share * error * np.exp(-place[0] - place[1] * x)
        gap = share - relative
        gradient = np.array([gap.sum(), gap @ x + 2 * strength * (place[1] - 1)])
        curvature = np.array([[relative.sum(), relative @ x], [relative @ x, relative @ x**2 + 2 * strength]])
        step = np.linalg.solve(curvature, gradient)
        scale, before = 1.0, value(*place)
        while value(*(place - scale * step)) > before and scale > _TOLERANCE:
            scale /= 2
        place = place - scale * step
        if np.abs(step).max() < _TOLERANCE:
            break
    return float(place[1])
