"""Measures of a rejecting regressor, each a mean over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.costs import resolve
from recuse.dataframes import aligned, aligned_columns
from recuse.losses import LossLike
from recuse.metrics.rows import DecisionLike, Flags, checked, flags, mean, rcr_loss_rows

__all__ = [
    "accepted_loss",
    "evaluate",
    "false_acceptance_rate",
    "false_rejection_rate",
    "rcr_loss",
    "rejected_loss",
    "rejection_rate",
]


def rcr_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    loss: LossLike = "squared",
) -> float:
    """Mean of the loss of accepted rows and the cost of rejected rows.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions of all rows, also of rejected ones.
    accepted : array-like of bool of shape (n_rows,)
    cost : float or array-like of shape (n_rows,)
        The cost of rejecting a row, in the units of the loss.
    sample_weight : array-like of shape (n_rows,), optional
    loss : str or TargetLoss, default="squared"
        The loss of an accepted row; see `recuse.losses`.

    Examples
    --------
    >>> rcr_loss([1, 2, 3], [1, 4, 3], accepted=[True, False, True], cost=1.5)
    0.5
    """
    error, accepts = checked(y_true, y_pred, accepted, loss)
    rows = rcr_loss_rows(error, accepts, resolve(cost, None, len(error)))
    return mean(rows, np.ones_like(accepts), sample_weight)


def accepted_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    loss: LossLike = "squared",
) -> float:
    """Mean loss over the accepted rows (AL).

    The arguments are those of `rcr_loss`.

    Examples
    --------
    >>> accepted_loss([1, 2, 3], [1, 4, 4], accepted=[True, False, True])
    0.5
    """
    error, accepts = checked(y_true, y_pred, accepted, loss)
    return mean(error, accepts, sample_weight)


def rejected_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    loss: LossLike = "squared",
) -> float:
    """Mean loss over the rejected rows (RL), had they been accepted.

    The arguments are those of `rcr_loss`.

    Examples
    --------
    >>> rejected_loss([1, 2, 3], [1, 4, 4], accepted=[True, False, True])
    4.0
    >>> rejected_loss([1, 2, 3], [1, 4, 4], accepted=[True, False, True], loss="absolute")
    2.0
    """
    error, accepts = checked(y_true, y_pred, accepted, loss)
    return mean(error, ~accepts, sample_weight)


def rejection_rate(accepted: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of rows that were rejected (Rej).

    Examples
    --------
    >>> rejection_rate([True, False, False, True])
    0.5
    """
    accepts = flags(accepted)
    return mean(~accepts, np.ones_like(accepts), sample_weight)


def false_rejection_rate(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    loss: LossLike = "squared",
) -> float:
    """Share rejected among the rows whose loss is below the cost (AR).

    The arguments are those of `rcr_loss`.

    Examples
    --------
    >>> false_rejection_rate([1, 2, 3], [1, 2, 9], accepted=[True, False, False], cost=1.0)
    0.5
    """
    error, accepts = checked(y_true, y_pred, accepted, loss)
    return mean(~accepts, error < resolve(cost, None, len(error)), sample_weight)


def false_acceptance_rate(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    loss: LossLike = "squared",
) -> float:
    """Share accepted among the rows whose loss is at least the cost (RA).

    The arguments are those of `rcr_loss`.

    Examples
    --------
    >>> false_acceptance_rate([1, 2, 3], [1, 2, 9], accepted=[True, True, True], cost=1.0)
    1.0
    """
    error, accepts = checked(y_true, y_pred, accepted, loss)
    return mean(accepts, error >= resolve(cost, None, len(error)), sample_weight)


def evaluate(
    y_true: Any,
    decision: DecisionLike,
    *,
    sample_weight: ArrayLike | None = None,
    loss: LossLike | None = None,
) -> dict[str, float]:
    """All measures of a decision, with three losses to compare it with.

    Parameters
    ----------
    y_true : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, n_outputs)
        If the decision has row labels, a pandas `y_true` with the same labels in another order is reordered. If it has
        target names, the columns of a DataFrame are found by name.
    decision : Decision
    sample_weight : array-like of shape (n_rows,), optional
        Matched by label like `y_true`.
    loss : str or TargetLoss, optional
        By default the loss of the decision.

    Returns
    -------
    dict of str to float
        ``rcr_loss``, ``accepted_loss``, ``rejected_loss``, ``rejection_rate``, ``false_rejection_rate``,
        ``false_acceptance_rate``; ``always_accept`` and ``always_reject``, the losses of accepting and of
        rejecting all rows; ``oracle``, the smallest possible loss with these predictions.

    Examples
    --------
    >>> from recuse import Decision
    >>> measures = evaluate([1.0, 5.0], Decision([1.0, 2.0], [True, False], score=[0.3, -0.2], cost=4.0))
    >>> measures["rcr_loss"], measures["always_accept"], measures["always_reject"], measures["oracle"]
    (2.0, 4.5, 4.0, 2.0)
    """
    stated = getattr(decision, "loss", "squared") if loss is None else loss
    index = getattr(decision, "index", None)
    target = aligned_columns(aligned(y_true, index, "y_true"), getattr(decision, "target_names", None), "y_true")
    sample_weight = aligned(sample_weight, index, "sample_weight")
    error, accepts = checked(target, decision.prediction, decision.accepted, stated)
    cost = resolve(decision.cost, None, len(error))
    everyone = np.ones_like(accepts)

    def over(rows: NDArray[Any], among: Flags) -> float:
        return mean(rows, among, sample_weight)

    return {
        "rcr_loss": over(rcr_loss_rows(error, accepts, cost), everyone),
        "accepted_loss": over(error, accepts),
        "rejected_loss": over(error, ~accepts),
        "rejection_rate": over(~accepts, everyone),
        "false_rejection_rate": over(~accepts, error < cost),
        "false_acceptance_rate": over(accepts, error >= cost),
        "always_accept": over(error, everyone),
        "always_reject": over(cost, everyone),
        "oracle": over(np.minimum(error, cost), everyone),
    }
