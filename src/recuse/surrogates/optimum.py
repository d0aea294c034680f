"""The lowest conditional surrogate risk, inf over r of D l(r, -1) + c l(r, +1).

The paper's five losses have closed forms; for other losses a search finds the infimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recuse.surrogates.losses import HINGE, LOGISTIC, MAE, SIGMOID, SQUARE, Surrogate

Array: TypeAlias = NDArray[np.float64]

_SMALLEST, _LARGEST, _PER_DECADE = -6, 8, 200
_FINITE = np.finfo(np.float64).max / 4


def score_grid() -> Array:
    """Give scores from -1e8 to 1e8, evenly spaced on a log scale on both sides of an exact 0.

    Examples
    --------
    >>> grid = score_grid()
    >>> float(grid[0]), 0.0 in grid, bool((grid == -grid[::-1]).all())
    (-100000000.0, True, True)
    """
    magnitude = np.logspace(_SMALLEST, _LARGEST, (_LARGEST - _SMALLEST) * _PER_DECADE + 1)
    return np.concatenate([-magnitude[::-1], [0.0], magnitude])


def evaluate(surrogate: Surrogate, scores: Array) -> Array:
    """Evaluate both losses in double precision; the result is (2, *shape of scores), label -1 first.

    Infinity is allowed, since an exponential loss overflows at large scores; NaN is an error.
    """
    with np.errstate(all="ignore"):
        values = np.stack(surrogate(scores)).astype(np.float64)
    if np.isnan(values).any():
        _, *where = np.argwhere(np.isnan(values))[0]
        raise ValueError(
            f"surrogate {surrogate.name!r} must give a number for every score, "
            f"got nan at r = {scores[tuple(where)]:g}; use forms that do not overflow"
        )
    return values


def conditional_risk(D: Array | float, c: Array | float, values: Array) -> Array:
    """Give D l(r, -1) + c l(r, +1) from the two losses; a weight of 0 times an infinite loss is 0."""
    accepted, rejected = np.minimum(values, _FINITE)  # 0 * inf would be NaN
    with np.errstate(over="ignore"):
        return np.asarray(D * accepted + c * rejected)


def refine_minimum(objective: Callable[[Array], Array], left: Array, right: Array) -> Array:
    """Find the minimum in each bracket by thirty refinements around the best of nine points.

    Parameters
    ----------
    objective : callable
        Maps scores (bracket, point) to values (bracket, point).
    left, right : ndarray of shape (bracket,)
        The ends of the brackets.
    """
    rows = np.arange(len(left))
    best = np.full(len(left), np.inf)
    for _ in range(30):  # each one divides the width by 4; 4^-30 is 1e-18
        points = np.linspace(left, right, 9, axis=1)  # (bracket, point)
        values = objective(points)
        lowest = values.argmin(axis=1)
        best = np.minimum(best, values[rows, lowest])
        left, right = points[rows, np.maximum(lowest - 1, 0)], points[rows, np.minimum(lowest + 1, 8)]
    return best


# Rows whose risks are compared at once: with the 5,603 scores they take 11 MB.
_ROWS_AT_ONCE = 256


def optimum(D: Array, c: Array, surrogate: Surrogate) -> Array:
    """Give the infimum of every row; D and c are non-negative and have the same shape.

    Examples
    --------
    >>> optimum(np.array([1.0, 9.0]), np.array([4.0, 4.0]), MAE)
    array([2., 8.])
    """
    if surrogate in _CLOSED_FORM:
        return np.asarray(_CLOSED_FORM[surrogate](D, c))
    return searched_optimum(D, c, surrogate)


def searched_optimum(D: Array, c: Array, surrogate: Surrogate) -> Array:
    """Search for the infimum of every row on |r| <= 1e8, for any loss.

    Examples
    --------
    >>> searched_optimum(np.array([1.0, 9.0]), np.array([4.0, 4.0]), MAE).round(9)
    array([2., 8.])
    """
    flat_D, flat_c = D.reshape(-1, 1), c.reshape(-1, 1)
    starts = range(_ROWS_AT_ONCE, len(flat_D), _ROWS_AT_ONCE)
    chunks = zip(np.split(flat_D, starts), np.split(flat_c, starts), strict=True)
    return np.concatenate([_search(*chunk, surrogate) for chunk in chunks]).reshape(D.shape)


def _search(D: Array, c: Array, surrogate: Surrogate) -> Array:
    grid = score_grid()
    best = conditional_risk(D, c, evaluate(surrogate, grid)).argmin(axis=1)  # (row,)
    left, right = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, len(grid) - 1)]
    return refine_minimum(lambda scores: conditional_risk(D, c, evaluate(surrogate, scores)), left, right)


def _twice_smaller(D: Array, c: Array) -> Array:
    return np.asarray(2 * np.minimum(D, c))  # the optimal score is +1 if D < c, else -1


def _smaller(D: Array, c: Array) -> Array:
    return np.asarray(np.minimum(D, c))  # approached as r goes to +infinity if D < c, else to -infinity


def _harmonic(D: Array, c: Array) -> Array:
    # The optimal score (c - D) / (c + D) has the risk 4 D c / (D + c), written here so that it does not overflow.
    return np.asarray(4 * np.minimum(D, c) / (1 + _ratio(D, c)))


def _entropy(D: Array, c: Array) -> Array:
    # The optimal score log(c / D) has the risk D log(1 + c/D) + c log(1 + D/c).
    ratio = _ratio(D, c)
    log_ratio = np.log(ratio, out=np.zeros(D.shape), where=ratio > 0)  # 0 log 0 = 0
    return np.asarray((D + c) * np.log1p(ratio) - np.minimum(D, c) * log_ratio)


def _ratio(D: Array, c: Array) -> Array:
    larger = np.maximum(D, c)
    return np.asarray(np.divide(np.minimum(D, c), larger, out=np.zeros(D.shape), where=larger > 0))


_CLOSED_FORM: dict[Surrogate, Callable[[Array, Array], Array]] = {
    MAE: _twice_smaller,
    HINGE: _twice_smaller,
    SQUARE: _harmonic,
    LOGISTIC: _entropy,
    SIGMOID: _smaller,
}
