"""Plots of losses against the cost, the share accepted and the share rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse import losses, metrics
from recuse.dataframes import aligned
from recuse.decision import Decision
from recuse.displays.style import GREY, PALETTE, Drawing, finish, loss_measure, loss_units, new_axes
from recuse.estimators.composition import decide
from recuse.inspection.savings import better_alternative
from recuse.losses import SQUARED, LossLike, TargetLoss

__all__ = ["AcceptedLossDisplay", "CostCurveDisplay", "RiskCoverageDisplay"]


@dataclass
class CostCurveDisplay(Drawing):
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
        self.figure_, self.ax_ = new_axes(ax)
        curve, cost = self.curve, self.curve["cost"]
        alternative = better_alternative(curve)
        saves = curve["rcr_loss"] <= alternative
        self.ax_.fill_between(cost, curve["rcr_loss"], alternative, where=saves, color=PALETTE[0], alpha=0.12, lw=0)
        self.ax_.plot(cost, curve["always_accept"], "--", color=GREY, lw=1.2, label="always predict")
        self.ax_.plot(cost, curve["always_reject"], ":", color=GREY, lw=1.6, label="always reject")
        self.ax_.plot(cost, curve["oracle"], "-", color=PALETTE[2], lw=1.2, label="if errors were known")
        self.ax_.plot(cost, curve["rcr_loss"], "o-", color=PALETTE[0], lw=2, ms=4, label=name)
        units = loss_units(self.loss)
        finish(self.ax_, f"cost of a rejection ({units})", f"mean loss per row ({units})")
        return self


@dataclass
class RiskCoverageDisplay(Drawing):
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
        self.figure_, self.ax_ = new_axes(ax)
        self.ax_.plot(self.coverage, self.risk, color=color, lw=2, label=f"{name} (area {self.area:.3g})")
        ylabel = f"mean {loss_measure(self.loss)} of accepted rows"
        finish(self.ax_, "share of rows accepted", ylabel, share=True)
        return self


@dataclass
class AcceptedLossDisplay(Drawing):
    """Mean loss of the accepted rows against the share rejected, for every threshold on the score.

    Attributes
    ----------
    rejection_rate, accepted_loss : ndarray
        The curve, from rejecting no row.
    best : ndarray
        The accepted loss at the same rejection rates if the rows of the largest losses were rejected.
    points : DataFrame
        Columns "cost", "rejection_rate" and "accepted_loss" of decisions; it may have no rows.
    loss : TargetLoss
    ax_, figure_ : matplotlib Axes and Figure, once plotted
    """

    rejection_rate: NDArray[np.float64]
    accepted_loss: NDArray[np.float64]
    best: NDArray[np.float64]
    points: pd.DataFrame
    loss: TargetLoss = SQUARED

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, *, loss: LossLike = SQUARED, **plot: Any
    ) -> Self:
        """Plot the accepted loss if rows are rejected in the order of their scores."""
        points = pd.DataFrame({"cost": [], "rejection_rate": [], "accepted_loss": []})
        return cls(*_rejection_curve(y_true, y_pred, score, loss), points, losses.get(loss)).plot(**plot)

    @classmethod
    def from_decision(cls, decision: Decision, y: Any, **plot: Any) -> Self:
        """Plot the accepted loss by the scores of a decision, and mark the decision itself."""
        return cls._of_decisions([decision], y).plot(**plot)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, costs: Iterable[float] | None = None, **plot: Any
    ) -> Self:
        """Plot the accepted loss by the scores of an estimator, and mark its decisions at each cost."""
        chosen: list[Any] = [None] if costs is None else list(costs)
        return cls._of_decisions([decide(estimator, X, cost=cost) for cost in chosen], y).plot(**plot)

    @classmethod
    def _of_decisions(cls, decisions: list[Decision], y: Any) -> Self:
        curve = metrics.cost_curve(y, decisions)
        first = decisions[0]
        target = aligned(y, first.index, "y")
        points = curve[["cost", "rejection_rate", "accepted_loss"]]
        return cls(*_rejection_curve(target, first.prediction, first.score, first.loss), points, first.loss)

    def plot(self, ax: Any = None, *, name: str = "by score", color: str = PALETTE[0]) -> Self:
        """Draw the curve between rejection at random and rejection of the largest losses."""
        self.figure_, self.ax_ = new_axes(ax)
        share, mean = self.rejection_rate, self.accepted_loss[0]
        self.ax_.plot(share, np.full(len(share), mean), "--", color=GREY, lw=1.2, label="at random")
        self.ax_.plot(share, self.best, "-", color=PALETTE[2], lw=1.2, label="if errors were known")
        self.ax_.plot(share, self.accepted_loss, "-", color=color, lw=2, label=name)
        marks = self.points.dropna()
        self.ax_.plot(
            marks["rejection_rate"], marks["accepted_loss"], "o", color=color, ms=6, mec="white", label="_marks"
        )
        for cost, place, loss in marks.itertuples(index=False):
            self.ax_.annotate(
                f"cost {cost:.3g}", (place, loss), xytext=(4, 6), textcoords="offset points", fontsize="small"
            )
        ylabel = f"mean {loss_measure(self.loss)} of accepted rows"
        finish(self.ax_, "share of rows rejected", ylabel, share=True)
        return self


def _rejection_curve(
    y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, loss: LossLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the rejection rate, the accepted loss by the score, and that of the best order of the rows."""
    coverage, risk, _ = metrics.risk_coverage_curve(y_true, y_pred, score, loss=loss)
    error = np.sort(metrics.row_losses(y_true, y_pred, loss))
    counts = np.rint(coverage * len(error)).astype(np.intp)
    best = np.cumsum(error)[counts - 1] / counts
    return (1 - coverage)[::-1], risk[::-1], best[::-1]
