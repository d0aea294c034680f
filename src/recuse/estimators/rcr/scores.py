"""Scores of an ensemble of rejectors, non-decreasing in the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["REJECT_ALL", "CostGrid", "mean_score"]

Floats = NDArray[np.float64]
ScoreAt = Callable[[NDArray[np.intp], float], Floats]  # rows, cost -> scores (member, row)

_KNOTS = 16
REJECT_ALL = exp(-2)  # at this share of the lowest cost, every row is rejected


def mean_score(scores: Floats) -> Floats:
    """Average the scores (member, row) of an ensemble; a single member keeps its own.

    Scores beyond +-1 do not measure confidence, so they are clipped. Otherwise one member could dominate the mean.

    Examples
    --------
    >>> mean_score(np.array([[0.5, 9.0], [-0.5, 0.0]]))
    array([0. , 0.5])
    """
    return np.asarray(scores[0] if len(scores) == 1 else scores.clip(-1, 1).mean(axis=0))


@dataclass(frozen=True)
class CostGrid:
    """Costs at which rejectors are evaluated to make their score non-decreasing in the cost.

    A network that has the cost as an input may accept a row at one cost and reject it at a higher one. The score of a
    row is therefore the largest score of the network at any cost of the grid up to its own, interpolated linearly in
    the logarithm of the cost. A cost above the grid is treated like the highest. Below the grid, the logarithm of
    the ratio to the lowest cost is added to the score, so that every row is rejected at cost 0.

    Attributes
    ----------
    low, high : float
        The lowest and highest cost, 0 < low <= high.
    """

    low: float
    high: float

    @classmethod
    def of(cls, cost: Floats) -> Self:
        """Return the grid of the costs of some rows, without costs of 0.

        Examples
        --------
        >>> CostGrid.of(np.array([0.0, 2.0, 8.0]))
        CostGrid(low=2.0, high=8.0)
        """
        positive = cost[cost > 0]
        return cls(float(positive.min()), float(positive.max())) if len(positive) else cls(1.0, 1.0)

    def extended(self, cost: Floats) -> Self:
        """Return a grid that also covers the costs of more rows."""
        return self.of(np.append(cost, [self.low, self.high]))

    @property
    def knots(self) -> Floats:
        """The costs of the grid, in increasing order."""
        return np.unique(np.geomspace(self.low, self.high, _KNOTS))

    def scores(self, score_at: ScoreAt, cost: Floats) -> Floats:
        """Return the score (row,) of every row at its cost.

        Parameters
        ----------
        score_at : callable
            Returns the scores (member, row) of the networks for some rows, all at one cost.
        cost : ndarray of shape (row,)
        """
        score = self._running_maximum(score_at, np.clip(cost, self.low, self.high))
        return score + np.log(np.clip(cost / self.low, REJECT_ALL, 1.0))

    def _running_maximum(self, score_at: ScoreAt, cost: Floats) -> Floats:
        """Interpolate the running maximum of the clipped scores over the grid, averaged over the members."""
        knots = self.knots
        last = np.minimum(np.searchsorted(knots, cost), len(knots) - 1)  # the knot above the cost, or at it
        score = np.empty(len(cost))
        rows, below = np.arange(len(cost)), np.empty((0, len(cost)))
        for number, knot in enumerate(knots):
            remaining = last[rows] >= number
            rows, below = rows[remaining], below[:, remaining]
            if len(rows) == 0:
                break
            now = score_at(rows, float(knot)).clip(-1, 1)  # (member, row)
            if number > 0:
                now = np.maximum(now, below)
            done = last[rows] == number
            if number == 0:
                score[rows[done]] = now[:, done].mean(axis=0)
            else:
                share = np.log(cost[rows[done]] / knots[number - 1]) / np.log(knot / knots[number - 1])
                start, end = below[:, done].mean(axis=0), now[:, done].mean(axis=0)
                score[rows[done]] = np.minimum(start + share.clip(0, 1) * (end - start), end)
            below = now
        return score
