"""One-sided tests of the mean of bounded values, by betting.

Somebody who claims that the mean of values x in [0, 1] is above m is offered a game that is fair, or worse for the
player, if the claim is true: before each value the player chooses a bet b with 0 <= b < 1 / (1 - m), and the wealth is
then multiplied by 1 - b (x - m). If the claim is true, the wealth is a non-negative supermartingale, so it ever reaches
1 / delta with probability at most delta (Ville's inequality). A wealth of 1 / delta therefore refutes the claim. This
holds for every way to choose the bets that uses earlier values only.

The bet recalculates its target before each value, as STaR-Bets do (Voracek and Orabona, arXiv:2505.22422). With r
values to come, a bet b takes the wealth W to 1 / delta if the mean is below m by
d(b) = (ln(1 / (delta W)) / r + psi(b)) / b, where psi(b) = E[-log(1 - b (x - m)) - b (x - m)]. The bet is the b with
the smallest d. The published form replaces psi by b^2 / 2 times a variance. Here psi is the mean over earlier values
and over imagined ones, which are 1 with probability m and else 0; so the bet also fits values with a few large ones.
There are sqrt(n) / 5 imagined values, but at least one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The bets to choose from, as shares of the largest bet.
_SHARES = np.array([*np.geomspace(0.01, 0.9, 14), 0.96, 0.99, 0.999])
# With more values than this, several in a row get the same bet.
_MOST_UPDATES = 1000


def refutes(values: Floats, mean: float, delta: float, used: Flags | None = None) -> Flags:
    """Whether each sequence of values refutes, at level delta, that its mean is above a number.

    Parameters
    ----------
    values : ndarray of shape (row, ...)
        Independent values in [0, 1]; each place of the other axes is a sequence of its own.
    mean : float
        Between 0 and 1.
    delta : float
        The probability that a mean above `mean` is refuted is at most delta.
    used : ndarray of bool of shape (row, ...), optional
        Which values belong to the sequence; others are ignored.

    Returns
    -------
    ndarray of bool of shape (...)

    Examples
    --------
    >>> low, high = np.zeros(100), np.full(100, 0.2)
    >>> refutes(np.column_stack([low, high]), mean=0.1, delta=0.05)
    array([ True, False])
    """
    return np.asarray(largest_log_wealth(values, mean, delta, used) >= math.log(1 / delta))


def largest_log_wealth(values: Floats, mean: float, delta: float, used: Flags | None = None) -> Floats:
    """Return the largest logarithm of the wealth of each sequence; the parameters are those of `refutes`.

    Examples
    --------
    >>> bool(largest_log_wealth(np.zeros(31), mean=0.1, delta=0.05) >= np.log(20))
    True
    >>> bool(largest_log_wealth(np.full(31, 0.1), mean=0.1, delta=0.05) > 0)
    False
    """
    if used is None:
        used = np.ones((len(values),) + (1,) * (values.ndim - 1), np.bool_)
    shape = np.broadcast_shapes(values.shape, used.shape)
    goal, step = math.log(1 / delta), max(1, len(values) // _MOST_UPDATES)
    remaining = np.broadcast_to(used, shape).sum(axis=0, dtype=np.float64)
    wealth, largest = np.zeros(shape[1:]), np.zeros(shape[1:])  # logarithms
    bets = bets_to_choose_from(mean).reshape(-1, *[1] * len(shape[1:]))
    seen = np.maximum(np.sqrt(remaining) / 5, 1.0)  # the imagined values
    psi = seen * imagined_value(bets, mean)
    for start in range(0, len(values), step):
        excess = np.where(used[start : start + step], values[start : start + step] - mean, 0.0)
        missing = np.maximum(goal - wealth, 0.0)
        needed = (missing / np.maximum(remaining, 1.0) + psi / seen) / bets
        bet = np.where(missing > 0, bets.ravel()[needed.argmin(axis=0)], 0.0)
        gains = wealth + np.cumsum(np.log1p(-bet * excess), axis=0)
        largest, wealth = np.maximum(largest, gains.max(axis=0)), gains[-1]
        for each in excess:
            psi -= np.log1p(-bets * each) + bets * each
        count = np.broadcast_to(used[start : start + step], (len(excess), *shape[1:])).sum(axis=0)
        remaining, seen = remaining - count, seen + count
    return largest


def bets_to_choose_from(mean: float) -> Floats:
    """Return bets from 0 to nearly the largest, with which a value of 1 takes all wealth.

    Examples
    --------
    >>> float(bets_to_choose_from(0.5).max())
    1.998
    """
    return np.asarray(_SHARES / (1 - mean))


def imagined_value(bets: Floats, mean: float) -> Floats:
    """Return psi of each bet for a value that is 1 with probability `mean` and else 0."""
    return np.asarray(-mean * np.log1p(-bets * (1 - mean)) - (1 - mean) * np.log1p(bets * mean))
