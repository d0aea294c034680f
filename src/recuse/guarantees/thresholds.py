"""Choose when to accept: estimated risks, or scores of rows without labels, in; acceptances or a threshold out.

A score is larger for a row that is easier to accept, as from `decision_function`; a risk is an expected loss,
as from `RiskRejector.expected_loss`, and ``-risk`` is a score.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from recuse.costs import resolve

__all__ = ["break_ties", "by_budget", "by_cost"]

Floats = NDArray[np.float64]

_TINY_SHARE = 1e-9  # of a score: far below any difference that means something
_LEAST = 1e-290  # so that scores of zero get noise too


def by_cost(risk: ArrayLike, cost: ArrayLike) -> NDArray[np.bool_]:
    """Accept the rows whose expected loss is below the cost of rejecting them.

    With the true conditional risk of h this is the best any rejector can do for that h.

    Parameters
    ----------
    risk : array-like of shape (n_rows,)
        Expected loss of each row.
    cost : float or array-like of shape (n_rows,)

    Returns
    -------
    ndarray of bool of shape (n_rows,)

    Examples
    --------
    >>> by_cost([0.5, 2.0, 3.0], cost=2.0)
    array([ True, False, False])
    >>> by_cost([0.5, 2.0, 3.0], cost=[0.1, 4.0, 4.0])
    array([False,  True,  True])
    """
    rows = _rows(risk, "risk")
    return rows < resolve(cost, None, len(rows))


def by_budget(
    score: ArrayLike,
    budget: float,
    *,
    finite_sample: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> float:
    """Find the threshold t such that accepting where ``score > t`` rejects the share `budget`.

    The rows need no labels, but must be fresh: rows the model was not fitted to, drawn like those to come.

    Parameters
    ----------
    score : array-like of shape (m,)
        Scores of calibration rows.
    budget : float
        The share g of rows to reject, from 0 to 1.
    finite_sample : bool, default=True
        Accept down to the ``ceil((1 - g) (m + 1))``-th largest score: the next row is then rejected with
        probability at most g, whatever the distribution. Otherwise the plug-in rule, the ``ceil((1 - g) m)``-th,
        which rejects at most the share g of the calibration rows themselves.
    random_state : int or RandomState, optional
        Where many scores are equal, all of them are accepted, and fewer rows are rejected than the budget allows.
        Given this, the threshold is chosen after `break_ties`; new scores must then pass through it as well.

    Returns
    -------
    float
        ``-inf`` where everything is accepted, ``inf`` where nothing is.

    Examples
    --------
    >>> score = np.array([0.9, 0.1, 0.5, 0.7, 0.3])
    >>> score > by_budget(score, 0.4, finite_sample=False)
    array([ True, False,  True,  True, False])
    >>> score > by_budget(score, 0.4)  # for rows to come, one more of these is accepted
    array([ True, False,  True,  True,  True])
    >>> by_budget(score, 0.1)  # five rows cannot tell where one in ten lies
    -inf
    """
    rows = _rows(score, "score")
    if not 0 <= budget <= 1:
        raise ValueError(f"budget must be between 0 and 1, got {budget}")
    if random_state is not None:
        rows = break_ties(rows, random_state)
    count = _accepted(budget, len(rows) + finite_sample)
    if count == 0:
        return math.inf
    if count > len(rows):
        return -math.inf
    return float(np.nextafter(np.partition(rows, -count)[-count], -np.inf))  # that row itself is accepted


def break_ties(score: ArrayLike, random_state: int | np.random.RandomState | None = None) -> Floats:
    """Lower each score by tiny random noise, so that equal scores come in a random order.

    The noise is at most a 1e-9th of the score, the same for equal scores wherever they stand. Calibration rows and new
    rows need different random states.

    Examples
    --------
    >>> score = np.ones(1000)
    >>> t = by_budget(score, 0.2, random_state=0)
    >>> bool(abs(np.mean(break_ties(score, 1) <= t) - 0.2) < 0.05)
    True
    >>> bool(np.mean(score <= by_budget(score, 0.2)) == 0)
    True
    """
    rows = _rows(score, "score")
    noise = check_random_state(random_state).uniform(size=len(rows))
    return np.asarray(rows - _TINY_SHARE * np.maximum(np.abs(rows), _LEAST) * noise)


def _accepted(budget: float, total: int) -> int:
    """``ceil((1 - g) total)``, where rounding errors do not make one more of it."""
    return math.ceil(round((1 - budget) * total, 9))


def _rows(values: ArrayLike, name: str) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or len(rows) == 0:
        raise ValueError(f"{name} must have one value for each of at least one row, got shape {rows.shape}")
    if np.isnan(rows).any():
        raise ValueError(f"{name} must be a number, got nan at row {int(np.isnan(rows).argmax())}")
    return rows
