"""The sequence of thresholds that a certificate tests, fixed before the calibration rows are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recuse.guarantees.betting import bets_to_choose_from, imagined_value

__all__ = ["BoundedValues", "Pilot", "thresholds_to_test"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_LEVELS = 100  # thresholds, at equal steps of the share of accepted rows


@dataclass(frozen=True)
class BoundedValues:
    """What a draw counts in a certificate, scaled to [0, 1].

    The accepted loss counts accepted rows only. In the RcR loss an accepted row counts its loss and a rejected row its
    cost. A draw is a row, or a group of rows.

    Attributes
    ----------
    loss : ndarray of shape (row, ...)
        Losses, clipped and divided by `limit`.
    cost : ndarray of shape (row, ...) or None
        Costs divided by `limit`; None for the accepted loss.
    mean : float
        The target, divided by `limit`.
    starts : ndarray of int of shape (draw,) or None
        The first row of each draw, if a draw has several rows; the rows of a draw follow each other.
    """

    loss: Floats
    cost: Floats | None
    mean: float
    starts: NDArray[np.intp] | None = None

    @classmethod
    def of_rows(
        cls,
        loss: Floats,
        cost: Floats | None,
        target: float,
        bound: float,
        limit: float,
        starts: NDArray[np.intp] | None = None,
    ) -> Self:
        """Clip the losses at their bound, and scale by the largest value that a row can have."""
        return cls(np.minimum(loss, bound) / limit, None if cost is None else cost / limit, target / limit, starts)

    def at(self, accepted: Flags) -> tuple[Floats, Flags | None]:
        """Return the values and which of them count, for acceptances (row, ..., threshold)."""
        if self.cost is None:
            values, used = self.loss[..., None], accepted
        else:
            values, used = np.where(accepted, self.loss[..., None], self.cost[..., None]), None
        return (values, used) if self.starts is None else self._of_draws(self.starts, values, used)

    def _of_draws(self, starts: NDArray[np.intp], values: Floats, used: Flags | None) -> tuple[Floats, Flags | None]:
        """Return one value for each draw.

        A draw g counts Z_g, the mean over its rows of A (L - m), where A is 1 for rows that count and m is the target.
        The promise is E[Z_g] <= 0, that is E[mean A L] <= m E[mean A] for a draw taken at random. Draws are
        independent and have the same distribution, whatever the dependence of the rows within them, and Z_g is a mean
        of numbers in [-m, 1 - m], so it is in there too. Hence 1 - b Z_g >= 0 for every bet b < 1 / (1 - m), and if the
        promise does not hold, its expectation given earlier draws is at most 1: the wealth stays a supermartingale. The
        value returned is m + Z_g, in [0, 1]; a draw without a row that counts has Z_g = 0, which leaves the wealth as
        it was, and is not counted among the draws to come.
        """
        excess = values - self.mean if used is None else np.where(used, values - self.mean, 0.0)
        size = np.diff(np.append(starts, len(excess)))
        mean = np.add.reduceat(excess, starts, axis=0) / size.reshape(-1, *[1] * (excess.ndim - 1))
        of_draws = np.clip(self.mean + mean, 0.0, 1.0)  # against rounding
        return of_draws, None if used is None else np.logical_or.reduceat(used, starts, axis=0)


@dataclass(frozen=True)
class Pilot:
    """Rows that are no calibration rows, to choose thresholds by: scores and values."""

    score: Floats
    values: BoundedValues


def thresholds_to_test(pilot: Pilot, n_rows: int, n_least: int = 0) -> Floats:
    """Return thresholds on the score from strict to accepting, that is in decreasing order.

    They are quantiles of the scores of the pilot, and 0. The first one is where a bet gains most on the rows of the
    pilot, since a first threshold that few rows pass, or whose loss is near the target, would end the sequence at once.

    Parameters
    ----------
    pilot : Pilot
    n_rows : int
        Number of calibration rows, or of their groups.
    n_least : int, default=0
        Number of accepted calibration rows to expect at the first threshold, or half of the rows if that is fewer.

    Examples
    --------
    >>> score = np.linspace(-1.0, 1.0, 201)
    >>> loss = np.where(score > 0, 0.01, 0.5)
    >>> t = thresholds_to_test(Pilot(score, BoundedValues(loss, None, mean=0.1)), n_rows=500)
    >>> bool(t[0] <= 0.05), bool(t[-1] < -0.99), bool(np.all(np.diff(t) < 0))
    (True, True, True)
    """
    ranked = np.sort(pilot.score)[::-1]
    places = np.ceil(np.linspace(0, len(ranked), _LEVELS + 1)[1:]).astype(np.intp) - 1
    candidates = np.unique(np.append(np.nextafter(ranked[places], -np.inf), 0.0))[::-1]
    growth = np.array([_growth(pilot, threshold, n_rows) for threshold in candidates])
    expected = np.array([np.mean(pilot.score > threshold) for threshold in candidates]) * n_rows
    growth[expected < min(n_least, n_rows / 2)] = -np.inf
    return candidates[int(growth.argmax()) :]


def _growth(pilot: Pilot, threshold: float, n_rows: int) -> float:
    """Return the largest logarithm of the wealth to expect of one constant bet on the calibration rows."""
    values, used = pilot.values.at((pilot.score > threshold)[:, None])
    excess = values[:, 0] - pilot.values.mean
    excess = excess if used is None else excess[used[:, 0]]
    if len(excess) == 0:
        return 0.0
    bets = bets_to_choose_from(pilot.values.mean)
    gain = np.log1p(-bets[:, None] * excess).sum(axis=1) - imagined_value(bets, pilot.values.mean)
    return float(gain.max()) * n_rows / (len(pilot.score) + 1)
