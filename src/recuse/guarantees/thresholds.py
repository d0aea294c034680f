"""Acceptance by the cost of a rejection, by a budget of rejections, by both, or by the loss of validation rows.

Rows with a larger score are accepted first, as with `decision_function`. A risk is an expected loss, such as the result
of `RiskRejector.expected_loss`; ``-risk`` is a score.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.costs import resolve
from recuse.dataframes import row_index, row_name

Floats = NDArray[np.float64]

# The noise that breaks ties is far below any relevant difference of scores.
_RELATIVE_NOISE = 1e-9
# The scale of that noise for scores of zero.
_MIN_SCALE = 1e-290


def by_cost(risk: ArrayLike, cost: ArrayLike) -> NDArray[np.bool_]:
    """Accept the rows whose expected loss is below the cost of rejecting them.

    With the true conditional risk of h, no rejector has a lower RcR loss for that h.

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

    The rows need no targets. They must not be training rows, and must come from the same distribution as the new rows.

    Parameters
    ----------
    score : array-like of shape (m,)
        Scores of calibration rows.
    budget : float
        The share g of rows to reject, from 0 to 1.
    finite_sample : bool, default=True
        If True, accept down to the ``ceil((1 - g) (m + 1))``-th largest score. A new row is then rejected with
        probability at most g, for any distribution. If False, accept down to the ``ceil((1 - g) m)``-th, the plug-in
        rule, which rejects at most the share g of the calibration rows.
    random_state : int or RandomState, optional
        Rows whose score equals the smallest accepted one are all accepted, so with ties fewer rows are rejected than
        the budget allows. If `random_state` is given, `break_ties` is applied first, and must be applied to new scores
        as well.

    Returns
    -------
    float
        ``-inf`` if every row is accepted, ``inf`` if none is.

    Examples
    --------
    >>> score = np.array([0.9, 0.1, 0.5, 0.7, 0.3])
    >>> score > by_budget(score, 0.4, finite_sample=False)
    array([ True, False,  True,  True, False])
    >>> score > by_budget(score, 0.4)  # the finite-sample rule accepts one more of these
    array([ True, False,  True,  True,  True])
    >>> by_budget(score, 0.1)  # five rows are too few for a budget of one in ten
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
    return float(np.nextafter(np.partition(rows, -count)[-count], -np.inf))  # accepts that row itself


def by_cost_within_budget(
    score: ArrayLike,
    budget: float,
    *,
    finite_sample: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> float:
    """Find the threshold t such that accepting where ``score > t`` rejects by cost, but no more than the budget.

    It is the smaller of 0, the threshold of the cost, and the threshold of `by_budget`. So the budget is not used up
    where rejection does not pay. If more rows are worth a rejection than the budget allows, those with the smallest
    scores are rejected.

    Parameters
    ----------
    score : array-like of shape (m,)
        Scores of calibration rows, which are > 0 where acceptance is cheaper. With scores that are the cost minus the
        expected loss, the rejected rows are those where rejection saves most, also if each row has its own cost.
    budget : float
        The largest share of rows to reject, from 0 to 1.
    finite_sample, random_state
        As in `by_budget`.

    Returns
    -------
    float
        At most 0; ``-inf`` if every row is accepted.

    Examples
    --------
    >>> score = np.array([3.0, 2.0, 1.0, -1.0, -2.0])
    >>> score > by_cost_within_budget(score, 0.2, finite_sample=False)
    array([ True,  True,  True,  True, False])
    >>> score > by_cost_within_budget(score, 0.8, finite_sample=False)  # the cost rejects fewer than the budget allows
    array([ True,  True,  True, False, False])
    """
    return min(0.0, by_budget(score, budget, finite_sample=finite_sample, random_state=random_state))


def by_validation_loss(score: ArrayLike, loss: ArrayLike, cost: ArrayLike) -> float:
    """Find the threshold t such that accepting where ``score > t`` has the lowest RcR loss on validation rows.

    For scores that order the rows well but have no unit, such as those of a surrogate or of a method of your own. The
    loss of these rows is too low an estimate for new rows, since the threshold was chosen by it.

    Parameters
    ----------
    score : array-like of shape (m,)
        Scores of rows that the model was not fitted to.
    loss : array-like of shape (m,)
        Losses of the predictions of these rows, as `recuse.metrics.row_losses` returns them.
    cost : float or array-like of shape (m,)

    Returns
    -------
    float
        Halfway between two scores; ``-inf`` if it is best to accept every row, ``inf`` to accept none. Of several such
        thresholds, the one that accepts most rows.

    Examples
    --------
    >>> by_validation_loss(score=[0.9, 0.8, 0.4, 0.1], loss=[1.0, 3.0, 2.0, 9.0], cost=4.0)
    0.25
    """
    rows, losses = _rows(score, "score"), _rows(loss, "loss")
    if len(losses) != len(rows):
        raise ValueError(f"loss must have one value for each of {len(rows)} rows, got {len(losses)}")
    falling, place = np.unique(-rows, return_inverse=True)
    excess = np.append(0.0, np.cumsum(np.bincount(place, losses - resolve(cost, None, len(rows)))))
    accepted = len(falling) - int(excess[::-1].argmin())
    if accepted in (0, len(falling)):
        return -math.inf if accepted else math.inf
    above, below = -float(falling[accepted - 1]), -float(falling[accepted])
    middle = above / 2 + below / 2
    return middle if middle < above else below


def break_ties(score: ArrayLike, random_state: int | np.random.RandomState | None = None) -> Floats:
    """Subtract tiny random noise from each score, so that equal scores get a random order.

    The noise is at most 1e-9 of the score, with the same distribution for equal scores. Calibration rows and new rows
    need different random states.

    Parameters
    ----------
    score : array-like of shape (n_rows,)
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> score = np.ones(1000)
    >>> t = by_budget(score, 0.2, random_state=0)
    >>> bool(abs(np.mean(break_ties(score, 1) <= t) - 0.2) < 0.05)
    True
    >>> bool(np.mean(score <= by_budget(score, 0.2)) == 0)
    True
    """
    from sklearn.utils import check_random_state

    rows = _rows(score, "score")
    noise = check_random_state(random_state).uniform(size=len(rows))
    return np.asarray(rows - _RELATIVE_NOISE * np.maximum(np.abs(rows), _MIN_SCALE) * noise)


def _accepted(budget: float, total: int) -> int:
    """Compute ``ceil((1 - g) total)``, rounded first so that a rounding error does not add one."""
    return math.ceil(round((1 - budget) * total, 9))


def _rows(values: ArrayLike, name: str) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or len(rows) == 0:
        raise ValueError(f"{name} must have one value for each of at least one row, got shape {rows.shape}")
    if np.isnan(rows).any():
        raise ValueError(
            f"{name} must be a number, got nan at {row_name(int(np.isnan(rows).argmax()), row_index(values))}"
        )
    return rows
