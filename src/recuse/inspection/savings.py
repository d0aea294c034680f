"""What rejection saves, in units of the loss and in money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Prices:
    """The price of an error and of a review, for models of the squared loss.

    Attributes
    ----------
    error : float
        Size of an error, in the units of the target.
    error_cost : float
        Price of an error of that size.
    review_cost : float
        Price of one review, that is of one rejection.

    Examples
    --------
    >>> prices = Prices(error=10, error_cost=50, review_cost=18)
    >>> prices.cost, prices.per_unit
    (36.0, 0.5)
    """

    error: float
    error_cost: float
    review_cost: float

    def __post_init__(self) -> None:
        _ = self.cost  # raises an error for prices that cannot be used

    @property
    def cost(self) -> float:
        """The cost of a rejection, in units of the squared loss."""
        from recuse.costs import from_money

        return from_money(self.error, self.error_cost, self.review_cost)

    @property
    def per_unit(self) -> float:
        """The price of one unit of the squared loss."""
        from recuse.costs import from_money

        return 1.0 / from_money(self.error, self.error_cost, review_cost=1.0)


def better_alternative(measures: Mapping[str, Any] | pd.DataFrame) -> Any:
    """Return the mean loss of accepting all rows or of rejecting all rows, whichever is lower.

    Parameters
    ----------
    measures : mapping or DataFrame
        Measures of `recuse.metrics`; columns of numbers give one result for each line.
    """
    import numpy as np

    return np.minimum(measures["always_accept"], measures["always_reject"])


def saved_per_row(measures: Mapping[str, Any] | pd.DataFrame) -> Any:
    """Return what the decisions save per row, compared with the better of accepting and rejecting all rows.

    Parameters
    ----------
    measures : mapping or DataFrame
        As in `better_alternative`.

    Examples
    --------
    >>> float(saved_per_row({"rcr_loss": 4.0, "always_accept": 9.0, "always_reject": 6.0}))
    2.0
    """
    return better_alternative(measures) - measures["rcr_loss"]
