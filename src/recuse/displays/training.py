"""Plot of the loss of a training by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.displays.style import PALETTE, Drawing, label_lines, new_axes
from recuse.metrics.scorer import is_search

# Ratio of the largest to the smallest loss from which the axis is logarithmic.
_WIDE = 30.0
# Ratio of the largest loss to the 98% quantile from which the largest losses are not shown.
_PEAK = 2.0


@dataclass
class TrainingCurveDisplay(Drawing):
    """Loss by epoch, for each network of an ensemble and as median over them.

    Attributes
    ----------
    history : ndarray of shape (n_epochs, n_networks)
    measure : str
        Label of the loss.
    best_epochs : ndarray of int
        The epoch whose weights are used, one for each network; it may be empty.
    first_epoch : int
        The epoch of the first line of `history`.
    ax_, figure_ : matplotlib Axes and Figure, once plotted

    Examples
    --------
    >>> display = TrainingCurveDisplay.from_history([[3.0, 2.8], [2.1, 2.2], [1.9, 2.4]], measure="validation loss")
    >>> display.history.shape
    (3, 2)
    """

    history: NDArray[np.float64]
    measure: str = "loss"
    best_epochs: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    first_epoch: int = 1

    @classmethod
    def from_history(cls, history: ArrayLike, *, measure: str = "loss", first_epoch: int = 1, **plot: Any) -> Self:
        """Plot losses of shape (n_epochs,) or (n_epochs, n_networks)."""
        losses = np.asarray(history, dtype=np.float64)
        if losses.ndim not in (1, 2) or losses.size == 0:
            raise ValueError(f"history must have shape (n_epochs, n_networks), got {losses.shape}")
        return cls(losses.reshape(len(losses), -1), measure, first_epoch=first_epoch).plot(**plot)

    @classmethod
    def from_estimator(cls, estimator: Any, **plot: Any) -> Self:
        """Plot the training of an RcRRegressor or a SelectiveNetRegressor, also at the end of a Pipeline or search."""
        fitted = _innermost(estimator)
        history = getattr(fitted, "history_", None)
        if not isinstance(history, np.ndarray):
            raise ValueError(f"the estimator must be fitted and have a history_, got {type(fitted).__name__}")
        if hasattr(fitted, "validation_coverage_"):
            return cls.from_history(history, measure="training loss (standardised target)", **plot)
        first = _first_epoch(fitted, len(history))
        display = cls(history, "validation RcR loss", _best_epochs(fitted, history), first)
        return display.plot(**plot)

    def plot(self, ax: Any = None, *, color: str = PALETTE[0]) -> Self:
        """Draw each network as a thin line and the median as a thick one; dots mark the epochs that are used."""
        self.figure_, self.ax_ = new_axes(ax)
        epochs = self.first_epoch + np.arange(len(self.history))
        count = self.history.shape[1]
        known = np.isfinite(self.history).any(axis=1)
        for place, losses in enumerate(self.history.T if count > 1 else ()):
            self.ax_.plot(epochs, losses, color=color, lw=0.8, alpha=0.35, label=f"_network {place}")
        median = np.full(len(epochs), np.nan)
        median[known] = np.nanmedian(np.where(np.isfinite(self.history), self.history, np.nan)[known], axis=1)
        name = "_loss" if count == 1 else f"median of {count} networks"
        self.ax_.plot(epochs, median, color=color, lw=2, label=name)
        if len(self.best_epochs) == count:
            best = self.history[self.best_epochs, np.arange(count)]
            self.ax_.plot(epochs[self.best_epochs], best, "o", color=PALETTE[1], ms=5, mec="white", label="_used")
            self.ax_.set_title("● epochs whose weights are used", color=PALETTE[1], loc="left", fontsize="small")
        finite = self.history[np.isfinite(self.history)]
        if len(finite) and finite.min() > 0 and finite.max() / finite.min() > _WIDE:
            self.ax_.set_yscale("log")
        elif len(finite) and finite.max() > _PEAK * (usual := float(np.quantile(finite, 0.98))) > 0:
            self.ax_.set_ylim(None, 1.3 * usual)  # a peak at the start leaves the axes
        self.ax_.set(xlabel="epoch", ylabel=self.measure)
        label_lines(self.ax_)
        return self


def _innermost(estimator: Any) -> Any:
    """Return the regressor at the end of searches, pipelines and transformed targets."""
    while True:
        if is_search(estimator):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_"):
            estimator = estimator.regressor_
        else:
            return estimator


def _first_epoch(fitted: Any, length: int) -> int:
    """Return the epoch after Slow-Start, whose losses are the first in the history."""
    epochs = getattr(fitted, "epochs", None)
    return max(int(epochs) - length + 1, 1) if isinstance(epochs, int) else 1


def _best_epochs(fitted: Any, history: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the lines of the history of the epochs that are used, none if they are not known."""
    lines = np.asarray(getattr(fitted, "best_epoch_", ()), dtype=np.intp) - (_first_epoch(fitted, len(history)) - 1)
    known = len(lines) == history.shape[1] and ((lines >= 0) & (lines < len(history))).all()
    return lines if known else np.empty(0, np.intp)
