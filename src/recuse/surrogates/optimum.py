"""The lowest surrogate risk: squared errors D and costs c in, inf over r of D l(r, -1) + c l(r, +1) out.

The paper's five losses have closed forms; for any other the infimum is searched.
"""

from collections.abc import Callable

import numpy as np

from recuse.surrogates.losses import HINGE, LOGISTIC, MAE, SIGMOID, SQUARE
from recuse.surrogates.search import Array, conditional_risk, evaluate, refine_minimum, score_grid
from recuse.surrogates.surrogate import Surrogate

_ROWS_AT_ONCE = 256  # times 5603 scores: 11 MB


def optimum(D: Array, c: Array, surrogate: Surrogate) -> Array:
    """Give the infimum of every row; D and c are non-negative and of one shape.

    Examples
    --------
    >>> optimum(np.array([1.0, 9.0]), np.array([4.0, 4.0]), MAE)
    array([2., 8.])
    """
    if surrogate in _CLOSED_FORM:
        return np.asarray(_CLOSED_FORM[surrogate](D, c))
    return searched_optimum(D, c, surrogate)


def searched_optimum(D: Array, c: Array, surrogate: Surrogate) -> Array:
    """Search the infimum of every row on |r| <= 1e8, for any loss.

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
    return np.asarray(2 * np.minimum(D, c))  # at r = +1 if D < c, else at r = -1


def _smaller(D: Array, c: Array) -> Array:
    return np.asarray(np.minimum(D, c))  # approached as r goes to +infinity if D < c, else to -infinity


def _harmonic(D: Array, c: Array) -> Array:
    # at r = (c - D) / (c + D) the risk is 4 D c / (D + c), here in a form that does not overflow
    return np.asarray(4 * np.minimum(D, c) / (1 + _ratio(D, c)))


def _entropy(D: Array, c: Array) -> Array:
    # at r = log(c / D) the risk is D log(1 + c/D) + c log(1 + D/c)
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
