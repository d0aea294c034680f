"""Settings of a training: networks, epochs, batches and progress callback."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recuse.engine.stack import Stack
from recuse.losses import SQUARED, TargetLoss

__all__ = ["Networks", "Plan", "SelectivePlan"]


@dataclass(frozen=True)
class Networks:
    """Functions that build the stack of regressors and the stack of rejectors from the seeds of the members."""

    regressors: Callable[[Sequence[int]], Stack]
    rejectors: Callable[[Sequence[int]], Stack]


@dataclass(frozen=True)
class Plan:
    """Settings of a training.

    Attributes
    ----------
    epochs : int
    slow_start : int or "auto"
        Epochs in which the regressor trains alone. With "auto", each member trains alone until the validation loss of
        the regressor has not improved for `patience` epochs, but for at most half of the epochs. If `steady`, a number
        of steps replaces `patience`.
    batch_size : int
    patience : int
    decay : bool
        Whether regressors that are trained alone lower their learning rates to zero, along half a cosine.
    device : str
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done; for progress bars.
    steady : bool
        Whether pairs are trained more steadily than in the paper. The rejector is trained in Slow-Start too, with the
        logistic surrogate; scores beyond -1 and 1 are penalised; the weights are averaged over the epochs; the length
        of Slow-Start is limited; pairs that differ in seed and table only share their best epoch; and the training of
        a pair ends if its validation loss stalls.
    """

    epochs: int = 1000
    slow_start: int | Literal["auto"] = 200
    batch_size: int = 1024
    patience: int = 20
    decay: bool = False
    device: str = "cpu"
    on_epoch: Callable[[int], None] | None = None
    steady: bool = False

    def after(self, epochs: int) -> Plan:
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
    weight_decay, alpha, lam, loss
        See `recuse.engine.objectives.selective.SelectiveNets`.
    device : str
    on_epoch : callable, optional
        Called after each epoch with the number of epochs done; for progress bars.
    """

    epochs: int = 800
    batch_size: int = 256
    weight_decay: float = 1e-4
    alpha: float = 0.5
    lam: float = 32.0
    loss: TargetLoss = SQUARED
    device: str = "cpu"
    on_epoch: Callable[[int], None] | None = None

    def even_batch(self, rows: int) -> int:
        """Return the size of the batches for a number of rows.

        Examples
        --------
        >>> SelectivePlan(batch_size=256).even_batch(258)
        129
        """
        return math.ceil(rows / math.ceil(rows / self.batch_size))
