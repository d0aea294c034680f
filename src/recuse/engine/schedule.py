"""The length of Slow-Start, in which the regressor trains without the rejector."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

__all__ = ["slow_start_epochs", "stalled"]


def slow_start_epochs(slow_start: int | Literal["auto"], epochs: int) -> int:
    """Return the maximum number of epochs of Slow-Start.

    It is at most half of the epochs, so that a short training still trains both networks.

    Examples
    --------
    >>> slow_start_epochs(200, epochs=1000), slow_start_epochs(200, epochs=50), slow_start_epochs("auto", epochs=300)
    (200, 25, 150)
    """
    half = epochs // 2
    return half if slow_start == "auto" else min(slow_start, half)


def stalled(history: Tensor, *, patience: int) -> Tensor:
    """Return which members have not improved for `patience` epochs.

    Parameters
    ----------
    history : Tensor of shape (epoch, member)
        Validation loss of every epoch so far.
    patience : int

    Returns
    -------
    Tensor of bool of shape (member,)

    Examples
    --------
    >>> import torch
    >>> stalled(torch.tensor([[3.0, 3.0], [1.0, 2.0], [2.0, 1.0], [2.0, 0.5]]), patience=2)
    tensor([ True, False])
    """
    if len(history) == 0:
        return history.new_zeros(history.shape[1]).bool()
    return len(history) - 1 - history.argmin(dim=0) >= patience
