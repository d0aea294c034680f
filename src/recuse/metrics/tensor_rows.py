"""Checks of tensors with one number per row, of shape (n,) or (n, 1)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["cost_rows", "same_rows"]


def same_rows(**columns: Tensor) -> list[Tensor]:
    """Reshape columns to (n,) and check that they have the same number of rows.

    Nothing is broadcast: the difference of (n,) and (n, 1) would be an (n, n) table.

    Examples
    --------
    >>> [tuple(rows.shape) for rows in same_rows(prediction=torch.zeros(3, 1), target=torch.zeros(3))]
    [(3,), (3,)]
    >>> same_rows(prediction=torch.zeros(3), target=torch.zeros(2))
    Traceback (most recent call last):
    ValueError: all inputs must have the same number of rows, got prediction (3,), target (2,)
    """
    rows = [_column(name, values) for name, values in columns.items()]
    if any(len(row) != len(rows[0]) for row in rows):
        shapes = ", ".join(f"{name} {tuple(values.shape)}" for name, values in columns.items())
        raise ValueError(f"all inputs must have the same number of rows, got {shapes}")
    return rows


def cost_rows(cost: Tensor | float, like: Tensor) -> Tensor:
    """Give one cost for each row, on the device and in the precision of `like`.

    Examples
    --------
    >>> cost_rows(2.0, torch.zeros(3))
    tensor([2., 2., 2.])
    >>> cost_rows(torch.tensor([1.0, 2.0]), torch.zeros(3))
    Traceback (most recent call last):
    ValueError: cost must be a number or have one value for each of 3 rows, got shape (2,)
    """
    values = torch.as_tensor(cost, dtype=like.dtype, device=like.device)
    if values.ndim == 0:
        return values.expand(len(like))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != like.shape:
        raise ValueError(
            f"cost must be a number or have one value for each of {len(like)} rows, got shape {tuple(values.shape)}"
        )
    return values


def _column(name: str, values: Tensor) -> Tensor:
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(values).__name__}")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must have one value per row, got shape {tuple(values.shape)}")
    if values.dtype in (torch.float32, torch.float64, torch.bool):
        return values
    return values.float()  # a squared error of 300^2 overflows in half precision
