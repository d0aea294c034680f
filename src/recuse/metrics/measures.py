"""Measures of a rejecting regressor, each a mean over rows, and the checks of targets, predictions and acceptances."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.costs import resolve
from recuse.dataframes import aligned, check_target_type, float_array, row_index, row_name, to_pandas
from recuse.losses import SQUARED, LossLike, get

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class DecisionLike(Protocol):
    """An object with the fields of a `recuse.Decision`.

    The fields `loss` and `index` are optional; without `loss`, the cost is in squared-error units.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from recuse.metrics import evaluate
    >>> decision = SimpleNamespace(prediction=[1.0, 4.0], accepted=[True, False], cost=[3.0, 3.0])
    >>> evaluate([2.0, 4.0], decision)["rcr_loss"]
    2.0
    """

    @property
    def prediction(self) -> Floats: ...  # noqa: D102
    @property
    def accepted(self) -> Flags: ...  # noqa: D102
    @property
    def cost(self) -> Floats: ...  # noqa: D102


def row_losses(y_true: ArrayLike, y_pred: ArrayLike, loss: LossLike = SQUARED) -> Floats:
    """Loss of every row.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
    loss : str or TargetLoss, default="squared"
        See `recuse.losses`.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> row_losses([1.0, 2.0], [1.5, 2.0], loss="absolute")
    array([0.5, 0. ])
    """
    check_target_type(y_true, "y_true")
    target, prediction = numbers(y_true, "y_true"), numbers(y_pred, "y_pred")
    same_length(y_true=target, y_pred=prediction)
    return get(loss)(prediction - target)


def squared_error(y_true: ArrayLike, y_pred: ArrayLike) -> Floats:
    """Squared error of every row.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [1.5, 2.0])
    array([0.25, 0.  ])
    """
    return row_losses(y_true, y_pred, SQUARED)


def rcr_loss_rows(error: Floats, accepted: Flags, cost: Floats) -> Floats:
    """Loss of the prediction for accepted rows, cost for rejected rows.

    Examples
    --------
    >>> rcr_loss_rows(np.array([1.0, 9.0]), np.array([True, False]), np.array([4.0, 4.0]))
    array([1., 4.])
    """
    return np.where(accepted, error, cost)


def checked(y_true: ArrayLike, y_pred: ArrayLike, accepted: ArrayLike, loss: LossLike) -> tuple[Floats, Flags]:
    """Give the loss of every row, and whether it was accepted."""
    error, accepts = row_losses(y_true, y_pred, loss), flags(accepted)
    same_length(y_true=error, accepted=accepts)
    return error, accepts


def numbers(values: ArrayLike, name: str) -> Floats:
    """Check one finite number for each of at least one row, also in a table of one column.

    Examples
    --------
    >>> numbers([1, 2], "score")
    array([1., 2.])
    """
    rows = float_array(values, name)
    if rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    if rows.ndim != 1:
        raise ValueError(f"{name} must have one value per row, got shape {rows.shape}")
    if len(rows) == 0:
        raise ValueError(f"{name} must have at least one row, got none")
    wrong = ~np.isfinite(rows)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name} must be finite, got {rows[row]} at {row_name(row, row_index(values))}")
    return rows


def flags(accepted: ArrayLike) -> Flags:
    """Check one bool for each of at least one row."""
    index, values = row_index(accepted), np.asarray(to_pandas(accepted))
    if values.ndim != 1:
        raise ValueError(f"accepted must have one value per row, got shape {values.shape}")
    if len(values) == 0:
        raise ValueError("accepted must have at least one row, got none")
    wrong = ~np.isin(values, (0, 1))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"accepted must be True or False, got {values[row]} at {row_name(row, index)}")
    return values.astype(np.bool_)


def same_length(**columns: Any) -> None:
    """Raise an error unless all columns have the same number of rows."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"all inputs must have the same number of rows, got {lengths}")


def mean(rows: NDArray[Any], among: Flags, sample_weight: ArrayLike | None) -> float:
    """Weighted mean of the rows selected by `among`; NaN if their weights sum to 0."""
    weight = np.ones(len(rows)) if sample_weight is None else numbers(sample_weight, "sample_weight")
    same_length(y_true=rows, sample_weight=weight)
    if (weight < 0).any():
        row = int((weight < 0).argmax())
        raise ValueError(f"sample_weight must be >= 0, got {weight[row]} at {row_name(row, row_index(sample_weight))}")
    total = weight[among].sum()
    return float((weight[among] * rows[among]).sum() / total) if total > 0 else float("nan")


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
    y_true, y_pred : array-like of shape (n_rows,)
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
    y_true : array-like or Series of shape (n_rows,)
        If the decision has row labels, a pandas `y_true` with the same labels in another order is reordered.
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
    sample_weight = aligned(sample_weight, index, "sample_weight")
    error, accepts = checked(aligned(y_true, index, "y_true"), decision.prediction, decision.accepted, stated)
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
