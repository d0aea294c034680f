"""Plot of the money that rejection saves, against the price of a review."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from recuse.decision import Decision
from recuse.displays.style import GREY, PALETTE, Drawing, finish, new_axes
from recuse.estimators.composition import decide
from recuse.inspection.savings import Prices, saved_per_row
from recuse.losses import SQUARED
from recuse.metrics import cost_curve
from recuse.validation import is_rate, require

__all__ = ["MoneySavedDisplay"]

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
        alternative = money["with_rejection"] + money["saved"]
        saves = money["saved"] >= 0
        self.ax_.fill_between(
            price, money["with_rejection"], alternative, where=saves, color=PALETTE[0], alpha=0.12, lw=0
        )
        self.ax_.plot(price, money["accept_all"], "--", color=GREY, lw=1.2, label="accept all")
        self.ax_.plot(price, money["review_all"], ":", color=GREY, lw=1.6, label="review all")
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
        self.ax_.plot(
            [self.review_cost] * 2, [line["with_rejection"], top], "-", color=PALETTE[1], lw=2, label="_saved"
        )
        text = f"saves {line['saved']:,.0f}" if line["saved"] >= 0 else f"loses {-line['saved']:,.0f}"
        self.ax_.annotate(
            f"{text} {self.currency}\nper {_PER:,} rows\nat a review price of {self.review_cost:g}",
            (self.review_cost, min(line["with_rejection"], top)),
            xytext=(12, -8),
            textcoords="offset points",
            va="top",
            color=PALETTE[1],
            fontsize="small",
        )


def _loss_price(loss_price: float | None, error: float | None, error_cost: float | None) -> float:
    """Return the price of one unit of the loss."""
    if loss_price is not None and error is None and error_cost is None:
        require(is_rate(loss_price), "loss_price", "a finite number > 0", loss_price)
        return float(loss_price)
    if loss_price is None and error is not None and error_cost is not None:
        return Prices(error, error_cost, review_cost=1.0).per_unit
    raise ValueError("pass either loss_price, or both error and error_cost")
