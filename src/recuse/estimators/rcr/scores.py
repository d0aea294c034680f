"""Scores of an ensemble of rejectors, which never fall when the cost rises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["CostGrid", "mean_score"]

Floats = NDArray[np.float64]
ScoreAt = Callable[[NDArray[np.intp], float], Floats]  # rows, cost -> scores (member, row)

_KNOTS = 16
_LOWEST = exp(-2)  # share of the lowest cost from which on every row is rejected


def mean_score(scores: Floats) -> Floats:
    """Average the scores (member, row) of an ensemble; a single member keeps its own.

    Beyond +-1 a surrogate no longer measures confidence. Scores are clipped, so that no member dominates the mean.

    Examples
    --------
    >>> mean_score(np.array([[0.5, 9.0], [-0.5, 0.0]]))
    array([0. , 0.5])
    """
    return np.asarray(scores[0] if len(scores) == 1 else scores.clip(-1, 1).mean(axis=0))


@dataclass(frozen=True)
class CostGrid:
    """Costs at which rejectors are evaluated, so that their score is a rising function of the cost.

    A network that has the cost as an input may accept a row at one cost and reject it at a higher one. The score of a
    row is therefore the largest score of the network at any cost of the grid up to its own, interpolated linearly in
    the logarithm of the cost. A cost above the grid is served like the highest. Below the grid the score falls
    by the logarithm of the ratio to the lowest cost, and every row is rejected at cost 0.

    Attributes
    ----------
    low, high : float
        The lowest and highest cost, 0 < low <= high.
    """

    low: float
    high: float

    @classmethod
    def of(cls, cost: Floats) -> Self:
        """Cover the costs of some rows; those of 0 do not count.

        Examples
        --------
        >>> CostGrid.of(np.array([0.0, 2.0, 8.0]))
        CostGrid(low=2.0, high=8.0)
        """
        positive = cost[cost > 0]
        return cls(float(positive.min()), float(positive.max())) if len(positive) else cls(1.0, 1.0)

    def extended(self, cost: Floats) -> Self:
        """Cover the costs of more rows as well."""
        return self.of(np.append(cost, [self.low, self.high]))

    @property
    def knots(self) -> Floats:
        """The costs of the grid, rising."""
        return np.unique(np.geomspace(self.low, self.high, _KNOTS))

    def scores(self, score_at: ScoreAt, cost: Floats) -> Floats:
        """Give the score (row,) of every row at its cost.

        Parameters
        ----------
        score_at : callable
            Gives the scores (member, row) of the networks for some rows, all at one cost.
        cost : ndarray of shape (row,)
        """
        rising = self._rising(score_at, np.clip(cost, self.low, self.high))
        return rising + np.log(np.clip(cost / self.low, _LOWEST, 1.0))

    def _rising(self, score_at: ScoreAt, cost: Floats) -> Floats:
        """Interpolate the running maximum over the grid, for costs within it; a mean of clipped scores."""
        knots = self.knots
        last = np.minimum(np.searchsorted(knots, cost), len(knots) - 1)  # the knot above the cost, or at it
        score = np.empty(len(cost))
        rows, below = np.arange(len(cost)), np.empty((0, len(cost)))
        for number, knot in enumerate(knots):
            going_on = last[rows] >= number
            rows, below = rows[going_on], below[:, going_on]
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
