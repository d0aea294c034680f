"""Schedules of a training: the length of Slow-Start, and the decay of the learning rate."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

__all__ = ["half_cosine", "slow_start_epochs", "stalled"]


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


def half_cosine(epoch: int, *, epochs: int) -> float:
    """Return the factor of the learning rate in an epoch: from 1 in the first to nearly 0 in the last.

    Examples
    --------
    >>> [round(half_cosine(epoch, epochs=4), 2) for epoch in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    """
    return 0.5 * (1 + math.cos(math.pi * epoch / epochs))
