"""Settings of a training: epochs, batches, Slow-Start and the decay of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from recuse.losses import SQUARED, TargetLoss


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of a training of regressors, rejectors or pairs.

    Attributes
    ----------
    epochs : int
    slow_start : int
        Epochs in which the regressor trains alone, at most half of all.
    batch_size : int
    decay : bool
        Whether regressors that are trained alone lower their learning rates to zero, along half a cosine.
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done; for progress bars.
    """

    epochs: int = 1000
    slow_start: int = 200
    batch_size: int = 1024
    decay: bool = False
    on_epoch: Callable[[int], None] | None = None

    def after(self, epochs: int) -> TrainingPlan:
        """Return a plan whose progress includes a number of epochs that are already done."""
        report = self.on_epoch
        return self if report is None else replace(self, on_epoch=lambda done: report(epochs + done))


@dataclass(frozen=True)
class SelectivePlan:
    """Settings of a training of SelectiveNets.

    Attributes
    ----------
    epochs : int
    batch_size : int
        Maximum number of rows of a batch. All batches have about the same size, because a small last batch would
        disturb batch norm.
    weight_decay : float
        Adds ``weight_decay * parameter`` to the gradient, as ``torch.optim.Adam`` does.
    alpha, lam, loss
        See `recuse.engine.selective.selective_loss`.
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done; for progress bars.
    """

    epochs: int = 800
    batch_size: int = 256
    weight_decay: float = 1e-4
    alpha: float = 0.5
    lam: float = 32.0
    loss: TargetLoss = SQUARED
    on_epoch: Callable[[int], None] | None = None

    def even_batch(self, rows: int) -> int:
        """Return the size of the batches for a number of rows.

        Examples
        --------
        >>> SelectivePlan(batch_size=256).even_batch(258)
        129
        """
        return math.ceil(rows / math.ceil(rows / self.batch_size))


def slow_start_epochs(slow_start: int, epochs: int) -> int:
    """Return the number of epochs of Slow-Start: at most half of all, so that a short training trains both networks.

    Examples
    --------
    >>> slow_start_epochs(200, epochs=1000), slow_start_epochs(200, epochs=50)
    (200, 25)
    """
    return min(slow_start, epochs // 2)


def half_cosine(epoch: int, *, epochs: int) -> float:
    """Return the factor of the learning rate in an epoch: from 1 in the first to nearly 0 in the last.

    Examples
    --------
    >>> [round(half_cosine(epoch, epochs=4), 2) for epoch in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    """
    return 0.5 * (1 + math.cos(math.pi * epoch / epochs))
