"""The surrogate loss of regression with rejection as a torch module, and checks of tensors with one number per row."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from recuse import surrogates
from recuse.costs import row_values
from recuse.surrogates import SurrogateLike


class RejectionLoss(nn.Module):
    """The surrogate loss of regression with cost-based rejection, for any training loop.

    With prediction h, score r (a row is accepted where r > 0), target y and cost c, the loss
    of a row is ``(h - y)^2 * l(r, -1) + c * l(r, +1)``.

    Parameters
    ----------
    surrogate : str, Surrogate or callable, default="mae"
        The binary loss l; see `recuse.surrogates`.
    cost : float or array-like of shape (n_rows,), default=1.0
        The cost of a rejection, in squared units of the target, unless a call passes its own.
    reduction : {"mean", "sum", "none"}, default="mean"

    Examples
    --------
    >>> loss = RejectionLoss("mae", cost=0.5)
    >>> prediction, score = torch.tensor([1.0, 2.0]), torch.tensor([0.8, -0.6], requires_grad=True)
    >>> loss(prediction, score, target=torch.tensor([1.0, 5.0]))
    tensor(2.2500, grad_fn=<MeanBackward0>)

    Gradient descent lowers the score of the row with the large error and raises the other score:

    >>> loss(prediction, score, target=torch.tensor([1.0, 5.0])).backward()
    >>> score.grad
    tensor([-0.2500,  4.2500])
    """

    cost: Tensor

    def __init__(
        self,
        surrogate: SurrogateLike = "mae",
        cost: float | ArrayLike = 1.0,
        *,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.surrogate, self.reduction = surrogates.get(surrogate), reduction
        self.register_buffer("cost", _checked_cost(cost))

    def forward(
        self,
        prediction: Tensor,
        score: Tensor,
        target: Tensor,
        cost: Tensor | float | None = None,
        *,
        regressor_only: bool = False,
    ) -> Tensor:
        """Return the loss, computed in single precision also under autocast.

        Parameters
        ----------
        prediction, score, target : Tensor of shape (n_rows,) or (n_rows, 1)
        cost : float or Tensor of shape (n_rows,) or (n_rows, 1), optional
            Replaces the cost given to the constructor. Its values are not checked, because that would synchronise
            with the accelerator.
        regressor_only : bool, default=False
            Return the squared error, as in the epochs of Slow-Start. The rejector then gets no gradient.
        """
        with torch.autocast(prediction.device.type, enabled=False):
            return self._reduced(self._rows(prediction, score, target, cost, regressor_only))

    def _rows(
        self, prediction: Tensor, score: Tensor, target: Tensor, cost: Tensor | float | None, regressor_only: bool
    ) -> Tensor:
        h, r, y = same_rows(prediction=prediction, score=score, target=target)
        error = (h - y.to(h.dtype)).square()
        if regressor_only:
            return error
        accepted, rejected = self.surrogate(r)
        rows: Tensor = error * accepted + cost_rows(self.cost if cost is None else cost, h) * rejected
        return rows

    def _reduced(self, rows: Tensor) -> Tensor:
        if self.reduction == "none":
            return rows
        return rows.mean() if self.reduction == "mean" else rows.sum()

    def extra_repr(self) -> str:
        """Show the parameters of the loss."""
        cost = f"{self.cost:g}" if self.cost.ndim == 0 else f"<{len(self.cost)} rows>"
        return f"surrogate={self.surrogate.name!r}, cost={cost}, reduction={self.reduction!r}"


def _checked_cost(cost: float | ArrayLike) -> Tensor:
    values = cost.detach().cpu().numpy() if isinstance(cost, Tensor) else np.asarray(cost)
    checked = row_values(values, "cost", values.size if values.ndim else 1)
    return torch.as_tensor(checked if values.ndim else checked[0], dtype=torch.get_default_dtype())


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
