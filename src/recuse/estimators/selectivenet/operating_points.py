"""Choice of the networks and thresholds of SelectiveNet for a coverage or a cost, on validation rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recuse.rules.networks import OperatingPoints

Floats = NDArray[np.float64]

_ACCEPT_ALL, _REJECT_ALL = -1e-12, 1.0  # below and above every selection, even if it is rounded to 0 or 1


def curve(place: int, selection: Floats, error: Floats, weight: Floats) -> OperatingPoints:
    """Return all thresholds that lead to different decisions, from rejecting all rows to accepting all.

    Rows of equal selection are accepted together, so the order of the rows does not matter.
    """
    falling, group = np.unique(-selection, return_inverse=True)
    share = weight / weight.sum()
    accepted = np.cumsum(np.bincount(group, share))
    between = -(falling[1:] + falling[:-1]) / 2
    return OperatingPoints(
        np.full(len(falling) + 1, place),
        np.concatenate([[_REJECT_ALL], between, [_ACCEPT_ALL]]),
        np.concatenate([[1.0], 1 - accepted[:-1], [0.0]]),
        np.concatenate([[0.0], np.cumsum(np.bincount(group, share * error))]),
    )


def best_of(curves: Sequence[OperatingPoints]) -> OperatingPoints:
    """Keep the points with the lowest RcR loss at some cost, by decreasing share of rejections.

    The loss at cost c is error + c * rejected, so these are the corners of the lower convex hull.
    """
    names = ("place", "threshold", "rejected", "error")
    every = OperatingPoints(*(np.concatenate([getattr(c, name) for c in curves]) for name in names))
    rejected, error, corners = every.rejected, every.error, list[int]()
    for point in np.lexsort([rejected, error]):  # from the lowest error, which rejects all rows
        if corners and rejected[point] >= rejected[corners[-1]]:
            continue
        while len(corners) > 1 and _slope(rejected, error, corners[-1], point) <= _slope(
            rejected, error, corners[-2], corners[-1]
        ):
            corners.pop()
        corners.append(int(point))
    return every.take(corners)


def nearest(points: OperatingPoints, coverage: float) -> OperatingPoints:
    """Return the point with a share of accepted rows > 0 that is nearest to the coverage."""
    return points.take([1 + int(np.abs(1 - points.rejected[1:] - coverage).argmin())])


def _slope(rejected: Floats, error: Floats, one: int, other: int) -> float:
    """Return the extra error per avoided rejection between two points: the cost at which both have the same loss."""
    return float((error[other] - error[one]) / (rejected[one] - rejected[other]))
