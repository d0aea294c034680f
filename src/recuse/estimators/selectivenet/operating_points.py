"""Networks and thresholds of SelectiveNet for a coverage or a cost, chosen on validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["OperatingPoints"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_ACCEPT_ALL, _REJECT_ALL = -1e-12, 1.0  # below and above every selection, even if it is rounded to 0 or 1


@dataclass(frozen=True)
class OperatingPoints:
    """Networks with a threshold each, and their results on the validation rows.

    Attributes
    ----------
    place : ndarray of shape (point,)
        Position of the coverage in the grid; it determines the networks.
    threshold : ndarray of shape (point,)
    rejected : ndarray of shape (point,)
        Share of the rows that are rejected.
    error : ndarray of shape (point,)
        Sum of the errors of the accepted rows, divided by the number of all rows.
    """

    place: Indices
    threshold: Floats
    rejected: Floats
    error: Floats

    @classmethod
    def curve(cls, place: int, selection: Floats, error: Floats, weight: Floats) -> Self:
        """Return all thresholds that lead to different decisions, from rejecting all rows to accepting all.

        Rows of equal selection are accepted together, so the order of the rows does not matter.
        """
        falling, group = np.unique(-selection, return_inverse=True)
        share = weight / weight.sum()
        accepted = np.cumsum(np.bincount(group, share))
        between = -(falling[1:] + falling[:-1]) / 2
        return cls(
            np.full(len(falling) + 1, place),
            np.concatenate([[_REJECT_ALL], between, [_ACCEPT_ALL]]),
            np.concatenate([[1.0], 1 - accepted[:-1], [0.0]]),
            np.concatenate([[0.0], np.cumsum(np.bincount(group, share * error))]),
        )

    @classmethod
    def best_of(cls, curves: Sequence[OperatingPoints]) -> Self:
        """Keep the points with the lowest RcR loss at some cost, by decreasing share of rejections.

        The loss at cost c is error + c * rejected, so these are the corners of the lower convex hull.
        """
        names = ("place", "threshold", "rejected", "error")
        place, threshold, rejected, error = (np.concatenate([getattr(c, name) for c in curves]) for name in names)
        corners: list[int] = []
        for point in np.lexsort([rejected, error]):  # from the lowest error, which rejects all rows
            if corners and rejected[point] >= rejected[corners[-1]]:
                continue
            while len(corners) > 1 and _slope(rejected, error, corners[-1], point) <= _slope(
                rejected, error, corners[-2], corners[-1]
            ):
                corners.pop()
            corners.append(int(point))
        return cls(place[corners], threshold[corners], rejected[corners], error[corners])

    def nearest(self, coverage: float) -> Self:
        """Return the point with a share of accepted rows > 0 that is nearest to the coverage."""
        point = 1 + np.abs(1 - self.rejected[1:] - coverage).argmin()
        only = slice(point, point + 1)
        return type(self)(self.place[only], self.threshold[only], self.rejected[only], self.error[only])

    def at(self, cost: Floats) -> Indices:
        """Find the point with the lowest RcR loss at the cost of each row; in a tie, the one that rejects more."""
        costs, which = np.unique(cost, return_inverse=True)
        loss = self.error[:, None] + self.rejected[:, None] * costs  # (point, cost)
        return np.asarray(loss.argmin(axis=0)[which])

    def score(self, selection: Floats, points: Indices) -> Floats:
        """Return the score (row,) at the point of each row: the maximum margin at this point and all earlier ones.

        Earlier points belong to lower costs. So a row that is accepted at one cost is accepted at all higher costs,
        even if these use other networks.

        Parameters
        ----------
        selection : ndarray of shape (place, row)
        points : ndarray of shape (row,)

        Examples
        --------
        >>> strict_then_lax = OperatingPoints(np.array([0, 1]), np.array([0.5, 0.5]), np.array([0.5, 0.1]), np.ones(2))
        >>> selection = np.array([[0.75], [0.25]])  # accepted by the first network, not by the second
        >>> strict_then_lax.score(selection, np.array([0])), strict_then_lax.score(selection, np.array([1]))
        (array([0.25]), array([0.25]))
        """
        margin = selection[self.place] - self.threshold[:, None]  # (point, row)
        return np.asarray(np.maximum.accumulate(margin, axis=0)[points, np.arange(len(points))])


def _slope(rejected: Floats, error: Floats, one: int, other: int) -> float:
    """Return the extra error per avoided rejection between two points: the cost at which both have the same loss."""
    return float((error[other] - error[one]) / (rejected[one] - rejected[other]))
