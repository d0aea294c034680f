"""Plots of losses against the cost, the share accepted or rejected, and the expected loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse import losses, metrics
from recuse.dataframes import aligned, row_index
from recuse.decision import LOSS_SAVED, Decision
from recuse.displays.style import GREY, PALETTE, Drawing, finish, label_lines, loss_measure, loss_units, new_axes
from recuse.estimators.composition import decide, expected_loss
from recuse.inspection.explanations import calibration_bins, has_expected_loss
from recuse.inspection.savings import Prices, saved_per_row
from recuse.losses import SQUARED, LossLike, TargetLoss
from recuse.metrics import cost_curve
from recuse.metrics.measures import numbers, row_losses, same_length
from recuse.validation import check_count, is_rate, require


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
        names = {"always_accept": "always predict", "always_reject": "always reject"}
        _draw_alternatives(self.ax_, cost, curve["rcr_loss"], {label: curve[key] for key, label in names.items()})
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
        points = pd.DataFrame(columns=["cost", "rejection_rate", "accepted_loss"], dtype=float)
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
        costs, *marks = self.points.dropna().to_numpy(np.float64).T
        self.ax_.plot(*marks, "o", color=color, ms=6, mec="white", label="_marks")
        beside: dict[str, Any] = {"xytext": (4, 6), "textcoords": "offset points"}
        for cost, *place in zip(costs, *marks, strict=True):
            self.ax_.annotate(f"cost {cost:.3g}", place, fontsize="small", **beside)
        ylabel = f"mean {loss_measure(self.loss)} of accepted rows"
        finish(self.ax_, "share of rows rejected", ylabel, share=True)
        return self


def _draw_alternatives(ax: Any, cost: pd.Series[float], ours: pd.Series[float], others: dict[str, Any]) -> None:
    """Draw the costs of accepting and of rejecting all rows, and shade what is saved over the better of the two."""
    better = np.minimum(*others.values())
    ax.fill_between(cost, ours, better, where=ours <= better, color=PALETTE[0], alpha=0.12, lw=0)
    for (label, values), (style, width) in zip(others.items(), (("--", 1.2), (":", 1.6)), strict=True):
        ax.plot(cost, values, style, color=GREY, lw=width, label=label)


def _rejection_curve(
    y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, loss: LossLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the rejection rate, the accepted loss by the score, and that of the best order of the rows."""
    coverage, risk, _ = metrics.risk_coverage_curve(y_true, y_pred, score, loss=loss)
    error = np.sort(metrics.row_losses(y_true, y_pred, loss))
    counts = np.rint(coverage * len(error)).astype(np.intp)
    best = np.cumsum(error)[counts - 1] / counts
    return (1 - coverage)[::-1], risk[::-1], best[::-1]


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
        target, risk = aligned(y, decision.index, "y"), decision.cost - decision.score
        return cls.from_predictions(target, decision.prediction, risk, loss=decision.loss, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Plot the expected losses of an estimator, also inside a Pipeline or search."""
        decision, target, risk = decide(estimator, X), aligned(y, row_index(X), "y"), expected_loss(estimator, X)
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


# Rows that money is given for.
_PER = 1000


@dataclass
class MoneySavedDisplay(Drawing):
    """Money per 1,000 rows against the price of one review: with rejection, accepting all, and reviewing all rows.

    Attributes
    ----------
    curve : DataFrame
        Columns "review_cost", the price of one review, and "with_rejection", "accept_all", "review_all" and "saved",
        in money per 1,000 rows. "saved" is the difference to the cheaper of accepting all and reviewing all rows.
    review_cost : float or None
        The price of a review that is marked.
    currency : str
    ax_, figure_ : matplotlib Axes and Figure, once plotted

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = RiskRejector(Ridge(), Ridge(), cost=1.0).fit(X[:200], y[:200])
    >>> prices = {"error": 1.0, "error_cost": 5.0, "review_cost": 4.0}
    >>> display = MoneySavedDisplay.from_estimator(model, X[200:], y[200:], review_costs=[2.0, 4.0, 8.0], **prices)
    >>> display.curve["review_cost"].round(2).tolist()
    [2.0, 4.0, 8.0]
    """

    curve: pd.DataFrame
    review_cost: float | None = None
    currency: str = "money"

    @classmethod
    def from_decisions(
        cls,
        decisions: Sequence[Decision],
        y: Any,
        *,
        loss_price: float | None = None,
        error: float | None = None,
        error_cost: float | None = None,
        review_cost: float | None = None,
        currency: str = "money",
        **plot: Any,
    ) -> Self:
        """Plot the money of decisions at several costs; the arguments are those of `from_estimator`."""
        price = _loss_price(loss_price, error, error_cost)
        if error is not None and any(decision.loss != SQUARED for decision in decisions):
            raise ValueError("error and error_cost are prices of squared errors: pass loss_price for other losses")
        curve = cost_curve(y, decisions)
        names = {"rcr_loss": "with_rejection", "always_accept": "accept_all", "always_reject": "review_all"}
        priced = curve[list(names)] * price * _PER
        money = priced.rename(columns=names).assign(saved=saved_per_row(priced))
        money.insert(0, "review_cost", curve["cost"] * price)
        return cls(money, review_cost, currency).plot(**plot)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        review_cost: float,
        error: float | None = None,
        error_cost: float | None = None,
        loss_price: float | None = None,
        review_costs: Sequence[float] | None = None,
        currency: str = "money",
        **plot: Any,
    ) -> Self:
        """Plot the money of an estimator that can decide at any cost.

        Parameters
        ----------
        estimator : fitted estimator
        X, y : rows that it was not fitted to
        review_cost : float
            The price of one review, which is marked.
        error, error_cost : float, optional
            The size of an error and its price, as for `recuse.costs.from_money`.
        loss_price : float, optional
            The price of one unit of the loss, instead of `error` and `error_cost`.
        review_costs : sequence of float, optional
            Prices of a review along the axis. By default from a quarter of `review_cost` to twice as much.
        currency : str, default="money"
        **plot
            Options of `plot`.
        """
        require(is_rate(review_cost), "review_cost", "a finite number > 0", review_cost)
        price = _loss_price(loss_price, error, error_cost)
        prices = review_cost * np.linspace(0.25, 2.0, 15) if review_costs is None else np.asarray(review_costs)
        costs = np.unique(np.append(prices, review_cost)) / price
        decisions = [decide(estimator, X, cost=float(cost)) for cost in costs]
        options = {"error": error, "error_cost": error_cost, "loss_price": loss_price}
        return cls.from_decisions(decisions, y, review_cost=review_cost, currency=currency, **options, **plot)

    def plot(self, ax: Any = None, *, name: str = "with rejection") -> Self:
        """Draw the money; the shaded area is what rejection saves."""
        self.figure_, self.ax_ = new_axes(ax)
        money, price = self.curve, self.curve["review_cost"]
        alternatives = {"accept all": money["accept_all"], "review all": money["review_all"]}
        _draw_alternatives(self.ax_, price, money["with_rejection"], alternatives)
        self.ax_.plot(price, money["with_rejection"], "-", color=PALETTE[0], lw=2, label=name)
        self._mark()
        self.ax_.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        finish(self.ax_, f"price of one review ({self.currency})", f"{self.currency} per {_PER:,} rows")
        return self

    def _mark(self) -> None:
        """Mark the price of a review, and write what is saved at it."""
        if self.review_cost is None:
            return
        place = int((self.curve["review_cost"] - self.review_cost).abs().argmin())
        line = self.curve.iloc[place]
        top = line["with_rejection"] + line["saved"]
        ends = [self.review_cost] * 2, [line["with_rejection"], top]
        self.ax_.plot(*ends, "-", color=PALETTE[1], lw=2, label="_saved")
        saved = f"saves {line['saved']:,.0f}" if line["saved"] >= 0 else f"loses {-line['saved']:,.0f}"
        text = f"{saved} {self.currency}\nper {_PER:,} rows\nat a review price of {self.review_cost:g}"
        corner = self.review_cost, min(line["with_rejection"], top)
        beside: dict[str, Any] = {"xytext": (12, -8), "textcoords": "offset points", "va": "top"}
        self.ax_.annotate(text, corner, color=PALETTE[1], fontsize="small", **beside)


def _loss_price(loss_price: float | None, error: float | None, error_cost: float | None) -> float:
    """Return the price of one unit of the loss."""
    if loss_price is not None and error is None and error_cost is None:
        require(is_rate(loss_price), "loss_price", "a finite number > 0", loss_price)
        return float(loss_price)
    if loss_price is None and error is not None and error_cost is not None:
        return Prices(error, error_cost, review_cost=1.0).per_unit
    raise ValueError("pass either loss_price, or both error and error_cost")
