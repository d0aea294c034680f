"""Plots of the loss against the cost and of the risk against the coverage.

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
from recuse.estimators.composition import decide
from recuse.extras import import_extra
from recuse.losses import SQUARED, LossLike, TargetLoss

__all__ = ["PALETTE", "CostCurveDisplay", "RiskCoverageDisplay"]

# Okabe and Ito (2008): eight colours that can be distinguished with any kind of colour vision
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


@dataclass
class CostCurveDisplay:
    """RcR loss against the cost of a rejection, with the losses of accepting all, rejecting all and the oracle.

    Attributes
    ----------
    curve : DataFrame
        From `recuse.metrics.cost_curve`.
    loss : TargetLoss
        The loss; the cost is in its units.
    ax_, figure_ : matplotlib Axes and Figure, once plotted
    """

    curve: pd.DataFrame
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    loss: TargetLoss = SQUARED

    @classmethod
    def from_predictions(cls, y_true: ArrayLike, decisions: Iterable[metrics.DecisionLike], **plot: Any) -> Self:
        """Plot the measures of decisions at several costs, each by its own loss."""
        at_each_cost = list(decisions)
        curve = metrics.cost_curve(y_true, at_each_cost)
        return cls(curve, loss=getattr(at_each_cost[0], "loss", SQUARED)).plot(**plot)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, costs: Iterable[float], **plot: Any) -> Self:
        """Plot the measures of a fitted estimator that can decide at any cost, also inside a Pipeline or search."""
        return cls.from_predictions(y, [decide(estimator, X, cost=cost) for cost in costs], **plot)

    def plot(self, ax: Any = None, *, name: str = "with rejection") -> Self:
        """Draw the losses; the shaded area is the saving over the better of accepting all and rejecting all rows."""
        self.figure_, self.ax_ = _axes(ax)
        curve, cost = self.curve, self.curve["cost"]
        alternative = np.minimum(curve["always_accept"], curve["always_reject"])
        saves = curve["rcr_loss"] <= alternative
        self.ax_.fill_between(cost, curve["rcr_loss"], alternative, where=saves, alpha=0.15, lw=0)
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
        From `recuse.metrics.risk_coverage_curve`.
    area : float
        Area under the curve.
    loss : TargetLoss
        The loss whose mean is the risk.
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
        """Plot the risk of the rows in the order of their scores."""
        coverage, risk, _ = metrics.risk_coverage_curve(y_true, y_pred, score, loss=loss)
        area = metrics.area_under_risk_coverage(y_true, y_pred, score, loss=loss)
        return cls(coverage, risk, area, loss=losses.get(loss)).plot(**plot)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, cost: Any = None, **plot: Any) -> Self:
        """Plot the risk of the rows in the order of the scores of an estimator, also inside a Pipeline or search."""
        decision = decide(estimator, X, cost=cost)
        return cls.from_predictions(y, decision.prediction, decision.score, loss=decision.loss, **plot)

    def plot(self, ax: Any = None, *, name: str = "model", color: str = PALETTE[0]) -> Self:
        """Draw the curve; several models can share the axes."""
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
