"""Numerical search over scores: a loss in, its values on a wide grid and refined minima out."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.surrogates.surrogate import Surrogate

Array: TypeAlias = NDArray[np.float64]

_SMALLEST, _LARGEST, _PER_DECADE = -6, 8, 200
_FINITE = np.finfo(np.float64).max / 4


def score_grid() -> Array:
    """Give scores from -1e8 to 1e8, evenly spaced on a log scale each side of an exact 0.

    Examples
    --------
    >>> grid = score_grid()
    >>> float(grid[0]), 0.0 in grid, bool((grid == -grid[::-1]).all())
    (-100000000.0, True, True)
    """
    magnitude = np.logspace(_SMALLEST, _LARGEST, (_LARGEST - _SMALLEST) * _PER_DECADE + 1)
    return np.concatenate([-magnitude[::-1], [0.0], magnitude])


def evaluate(surrogate: Surrogate, scores: Array) -> Array:
    """Evaluate both losses in double precision: scores of any shape in, (2, *shape) out, label -1 first.

    Infinity is a value like another (an exponential loss overflows far out); NaN is an error.
    """
    # no_grad, not inference_mode: the caller's loss may hold parameters, and may differentiate inside
    with torch.no_grad():
        accepted, rejected = surrogate(torch.from_numpy(scores))
    values = np.stack([accepted.double().numpy(force=True), rejected.double().numpy(force=True)])
    if np.isnan(values).any():
        _, *where = np.argwhere(np.isnan(values))[0]
        raise ValueError(
            f"surrogate {surrogate.name!r} must give a number for every score, "
            f"got nan at r = {scores[tuple(where)]:g}; use forms that do not overflow, as torch.sigmoid"
        )
    return values


def conditional_risk(D: Array | float, c: Array | float, values: Array) -> Array:
    """Give D l(r, -1) + c l(r, +1) from the two losses; a weight of 0 silences even an infinite loss."""
    accepted, rejected = np.minimum(values, _FINITE)  # 0 * inf would be NaN
    with np.errstate(over="ignore"):
        return np.asarray(D * accepted + c * rejected)


def refine_minimum(objective: Callable[[Array], Array], left: Array, right: Array) -> Array:
    """Find the minimum inside each bracket by zooming in on the best of nine points, thirty times.

    Parameters
    ----------
    objective : callable
        Scores (bracket, point) in, values (bracket, point) out.
    left, right : ndarray of shape (bracket,)
        The ends of the brackets.
    """
    rows = np.arange(len(left))
    best = np.full(len(left), np.inf)
    for _ in range(30):  # each round divides the width by 4, so the last is 4^-30 = 1e-18 of the first
        points = np.linspace(left, right, 9, axis=1)  # (bracket, point)
        values = objective(points)
        lowest = values.argmin(axis=1)
        best = np.minimum(best, values[rows, lowest])
        left, right = points[rows, np.maximum(lowest - 1, 0)], points[rows, np.minimum(lowest + 1, 8)]
    return best
