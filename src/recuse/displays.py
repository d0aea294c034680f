"""Pictures of what a rejecting regressor is worth: measures in, matplotlib axes out.

As in scikit-learn, a Display computes in ``from_*`` and draws in ``plot``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse import losses, metrics
from recuse.extras import import_extra
from recuse.losses import SQUARED, LossLike, TargetLoss

__all__ = ["PALETTE", "CostCurveDisplay", "RiskCoverageDisplay"]

# Okabe and Ito (2008): eight colours that people with any kind of colour vision tell apart
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


@dataclass
class CostCurveDisplay:
    """RcR loss against the cost of a rejection, between the yardsticks.

    Attributes
    ----------
    curve : DataFrame
        As `recuse.metrics.cost_curve` gives it.
    loss : TargetLoss
        What the cost is stated in.
    ax_, figure_ : matplotlib Axes and Figure, once plotted
    """

    curve: pd.DataFrame
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    loss: TargetLoss = SQUARED

    @classmethod
    def from_predictions(cls, y_true: ArrayLike, decisions: Iterable[metrics.DecisionLike], **plot: Any) -> Self:
        """Measure decisions taken at several costs, each by its own loss, and draw."""
        taken = list(decisions)
        curve = metrics.cost_curve(y_true, taken)
        return cls(curve, loss=getattr(taken[0], "loss", SQUARED)).plot(**plot)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, costs: Iterable[float], **plot: Any) -> Self:
        """Let one estimator that serves any cost decide at several, and draw."""
        return cls.from_predictions(y, [estimator.decide(X, cost=cost) for cost in costs], **plot)

    def plot(self, ax: Any = None, *, name: str = "with rejection") -> Self:
        """Draw the loss, what always accepting and always rejecting would cost, and what they lose."""
        self.figure_, self.ax_ = _axes(ax)
        curve, cost = self.curve, self.curve["cost"]
        best = np.minimum(curve["always_accept"], curve["always_reject"])
        self.ax_.fill_between(cost, curve["rcr_loss"], best, where=curve["rcr_loss"] <= best, alpha=0.15, lw=0)
        self.ax_.plot(cost, curve["always_accept"], "--", color=PALETTE[6], lw=1, label="always predict")
        self.ax_.plot(cost, curve["always_reject"], ":", color=PALETTE[6], lw=1.4, label="always reject")
        self.ax_.plot(cost, curve["rcr_loss"], "o-", color=PALETTE[0], lw=2, label=name)
        self.ax_.plot(cost, curve["oracle"], "-", color=PALETTE[2], lw=1, label="if errors were known")
        units = "squared units" if self.loss == SQUARED else f"{self.loss.name} loss"
        self.ax_.set(xlabel=f"cost of a rejection ({units})", ylabel="mean loss per row", ylim=(0, None))
        self.ax_.legend(frameon=False)
        return self


@dataclass
class RiskCoverageDisplay:
    """Mean squared error, or other loss, of the accepted rows against the share accepted.

    Attributes
    ----------
    coverage, risk : ndarray
        As `recuse.metrics.risk_coverage_curve` gives them.
    area : float
        Area under the curve.
    loss : TargetLoss
        What the risk is the mean of.
    ax_, figure_ : matplotlib Axes and Figure, once plotted
    """

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    area: float
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    loss: TargetLoss = SQUARED

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, *, loss: LossLike = SQUARED, **plot: Any
    ) -> Self:
        """Order the rows by their score, and draw."""
        coverage, risk, _ = metrics.risk_coverage_curve(y_true, y_pred, score, loss=loss)
        area = metrics.area_under_risk_coverage(y_true, y_pred, score, loss=loss)
        return cls(coverage, risk, area, loss=losses.get(loss)).plot(**plot)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, cost: Any = None, **plot: Any) -> Self:
        """Let a fitted estimator score the rows, and draw."""
        decision = estimator.decide(X, cost=cost)
        return cls.from_predictions(y, decision.prediction, decision.score, loss=decision.loss, **plot)

    def plot(self, ax: Any = None, *, name: str = "model", color: str = PALETTE[0]) -> Self:
        """Draw the curve; call it again with the same axes to compare several models."""
        self.figure_, self.ax_ = _axes(ax)
        self.ax_.plot(self.coverage, self.risk, color=color, lw=2, label=f"{name} (area {self.area:.3g})")
        measure = "squared error" if self.loss == SQUARED else f"{self.loss.name} loss"
        self.ax_.set(xlabel="share of rows accepted", ylabel=f"mean {measure} of accepted rows", xlim=(0, 1))
        self.ax_.legend(frameon=False)
        return self


def _axes(ax: Any) -> tuple[Any, Any]:
    if ax is not None:
        return ax.figure, ax
    figure, ax = import_extra("matplotlib.pyplot", "plot").subplots(figsize=(6.4, 4.2), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax
