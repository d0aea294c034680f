"""OperatingPoints: selections and errors of validation rows in, thresholds for a coverage or a cost out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["OperatingPoints"]

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_ACCEPT_ALL, _REJECT_ALL = -1e-12, 1.0  # thresholds beyond every selection, also one that rounds to 0 or 1


@dataclass(frozen=True)
class OperatingPoints:
    """Ways to operate, one an entry: the networks to use, the threshold, and what both did on the validation rows."""

    place: Places  # of the coverage in the grid
    threshold: Floats
    rejected: Floats  # share of the rows
    error: Floats  # sum of the errors of the accepted rows, per row of all

    @classmethod
    def curve(cls, place: int, selection: Floats, error: Floats, weight: Floats) -> Self:
        """Every threshold on the selection that makes a difference, from rejecting all rows to accepting all.

        Rows of equal selection are accepted together, so nothing depends on their order.
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
        """Leave out what cannot be the best at any cost: as many rejections as another, or more, and no less error."""
        names = ("place", "threshold", "rejected", "error")
        place, threshold, rejected, error = (np.concatenate([getattr(c, name) for c in curves]) for name in names)
        order = np.lexsort([error, rejected])
        least = np.minimum.accumulate(np.append(np.inf, error[order][:-1]))
        front = order[error[order] < least]
        return cls(place[front], threshold[front], rejected[front], error[front])

    def nearest(self, coverage: float) -> Self:
        """Give the one point, of those that accept anything, whose share of accepted rows is nearest the coverage."""
        point = 1 + np.abs(1 - self.rejected[1:] - coverage).argmin()
        only = slice(point, point + 1)
        return type(self)(self.place[only], self.threshold[only], self.rejected[only], self.error[only])

    def at(self, cost: Floats) -> Places:
        """Which point has the lowest RcR loss at the cost of each row; of equals, the one that rejects less."""
        costs, which = np.unique(cost, return_inverse=True)
        loss = self.error[:, None] + self.rejected[:, None] * costs  # (point, cost)
        return np.asarray(loss.argmin(axis=0)[which])
