"""Checks of targets, predictions and acceptances, and the loss of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.dataframes import check_target_type, float_array, row_index, row_name, to_pandas
from recuse.losses import SQUARED, LossLike, get

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DecisionLike",
    "checked",
    "flags",
    "mean",
    "numbers",
    "rcr_loss_rows",
    "row_losses",
    "same_length",
    "squared_error",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class DecisionLike(Protocol):
    """An object with the fields of a `recuse.Decision`.

    The fields `loss`, `index` and `target_names` are optional; without `loss`, the cost is in squared-error units.

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
    """Loss of every row; with several targets, the mean over them.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
    loss : str or TargetLoss, default="squared"
        See `recuse.losses`.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> row_losses([1.0, 2.0], [1.5, 2.0], loss="absolute")
    array([0.5, 0. ])
    >>> row_losses([[1.0, 2.0]], [[3.0, 2.0]])
    array([2.])
    """
    target, prediction = _targets(y_true, "y_true"), _targets(y_pred, "y_pred")
    same_length(y_true=target, y_pred=prediction)
    if target.shape != prediction.shape:
        raise ValueError(
            f"y_true and y_pred must have the same number of outputs, got shapes {target.shape} and {prediction.shape}"
        )
    return get(loss).of_rows(prediction - target)


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
    """Check one finite number for each of at least one row.

    Examples
    --------
    >>> numbers([1, 2], "score")
    array([1., 2.])
    """
    rows = float_array(values, name)
    if rows.ndim != 1:
        raise ValueError(f"{name} must have one value per row, got shape {rows.shape}")
    return _finite(rows, name, row_index(values))


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


def _targets(values: ArrayLike, name: str) -> Floats:
    """Check one target per row, (row,) or a single column, or several of them in columns."""
    check_target_type(values, name)
    rows = float_array(values, name)
    if rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name} must have one value per row and target, got shape {rows.shape}")
    return _finite(rows, name, row_index(values))


def _finite(rows: Floats, name: str, index: pd.Index[Any] | None) -> Floats:
    if len(rows) == 0:
        raise ValueError(f"{name} must have at least one row, got none")
    wrong = ~np.isfinite(rows)
    if wrong.any():
        row, *output = np.unravel_index(int(wrong.argmax()), rows.shape)
        where = row_name(int(row), index) + "".join(f", output {place}" for place in output)
        raise ValueError(f"{name} must be finite, got {rows[row, *output]} at {where}")
    return rows
