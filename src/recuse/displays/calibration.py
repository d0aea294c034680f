"""Plot of the expected loss against the observed loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from recuse import losses
from recuse.dataframes import aligned, row_index
from recuse.decision import LOSS_SAVED, Decision
from recuse.displays.style import GREY, PALETTE, Drawing, label_lines, loss_measure, loss_units, new_axes
from recuse.estimators.composition import decide, expected_loss
from recuse.inspection.explanations import calibration_bins, has_expected_loss
from recuse.losses import SQUARED, LossLike, TargetLoss
from recuse.metrics.measures import numbers, row_losses, same_length
from recuse.validation import check_count

__all__ = ["LossCalibrationDisplay"]

# Ratio of the largest to the smallest loss from which the axes are logarithmic.
_WIDE = 30.0


@dataclass
class LossCalibrationDisplay(Drawing):
    """Observed mean loss against the expected loss, in bins of equally many rows.

    Attributes
    ----------
    bins : DataFrame
        Columns "rows", "expected", "observed", "low" and "high", the ends of the interval of the observed loss.
    loss : TargetLoss
    confidence : float
    ax_, figure_ : matplotlib Axes and Figure, once plotted
    """

    bins: pd.DataFrame
    loss: TargetLoss = SQUARED
    confidence: float = 0.95

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        expected: ArrayLike,
        *,
        loss: LossLike = SQUARED,
        n_bins: int = 10,
        confidence: float = 0.95,
        **plot: Any,
    ) -> Self:
        """Plot the expected losses of some rows against those of their predictions."""
        check_count("n_bins", n_bins, least=1)
        error, risk = row_losses(y_true, y_pred, loss), numbers(expected, "expected")
        same_length(y_true=error, expected=risk)
        bins = calibration_bins(risk, error, n_bins, confidence)
        return cls(bins, losses.get(loss), confidence).plot(**plot)

    @classmethod
    def from_decision(cls, decision: Decision, y: Any, **options: Any) -> Self:
        """Plot the expected losses that the scores of a decision imply; `options` as in `from_predictions`."""
        if not has_expected_loss(decision):
            raise ValueError(
                f"the score must be the {LOSS_SAVED}, as that of RiskRejector and AutoRejector, "
                f"got {decision.score_unit or 'a score without unit'}"
            )
        target = aligned(y, decision.index, "y")
        risk = decision.cost - decision.score
        return cls.from_predictions(target, decision.prediction, risk, loss=decision.loss, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Plot the expected losses of an estimator, also inside a Pipeline or search."""
        decision = decide(estimator, X)
        target = aligned(y, row_index(X), "y")
        risk = expected_loss(estimator, X)
        return cls.from_predictions(target, decision.prediction, risk, loss=decision.loss, **options)

    def plot(self, ax: Any = None, *, color: str = PALETTE[0]) -> Self:
        """Draw the bins; above the diagonal the loss is higher than expected."""
        self.figure_, self.ax_ = new_axes(ax, size=(5.2, 4.8))
        bins = self.bins
        bars = np.abs(bins[["low", "high"]].to_numpy().T - bins["observed"].to_numpy())
        self.ax_.errorbar(bins["expected"], bins["observed"], yerr=bars, fmt="o", color=color, ms=5, lw=1.4)
        low, high = self._limits()
        self.ax_.plot([low, high], [low, high], "--", color=GREY, lw=1.2, label="as expected")
        if low > 0:
            self.ax_.set(xscale="log", yscale="log")
        else:
            self.ax_.set_ylim(0, None, auto=True)
        measure, units = loss_measure(self.loss), loss_units(self.loss)
        unit = f" ({units})" if self.loss == SQUARED else ""
        self.ax_.set(xlabel=f"expected {measure}{unit}", ylabel=f"observed mean {measure}{unit}")
        rows = f"{bins['rows'].min():,}" if bins["rows"].nunique() == 1 else f"about {int(bins['rows'].median()):,}"
        title = f"{len(bins)} bins of {rows} rows, bars: {self.confidence:.0%} intervals"
        self.ax_.set_title(title, fontsize="small", color=GREY, loc="left")
        label_lines(self.ax_)
        return self

    def _limits(self) -> tuple[float, float]:
        """Return the ends of the diagonal; the first is 0 unless the losses differ by orders of magnitude."""
        values = self.bins[["expected", "observed"]].to_numpy()
        least, most = float(values.min()), float(values.max())
        return (least if least > 0 and most / least > _WIDE else 0.0), most
