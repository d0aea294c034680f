"""Conversion of rejection costs (a number, one per row, a callable or a column name) to one checked value per row.

All costs are in the units of the loss. For the default loss these are squared-error units, those of
``(h(x) - y) ** 2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.dataframes import aligned, float_array, is_frame, row_index, row_name, to_pandas

if TYPE_CHECKING:
    import pandas as pd

Cost = float | ArrayLike | Callable[[Any], ArrayLike] | str

__all__ = ["Cost", "cost_of_rows", "from_money", "is_constant", "needs_rows", "resolve", "row_values"]


def from_money(error: float, error_cost: float, review_cost: float) -> float:
    """Convert prices to squared-error units, for models that minimise the squared error.

    Parameters
    ----------
    error : float
        The size of an error, in the units of the target.
    error_cost : float
        The price of an error of that size. Twice the error costs four times as much.
    review_cost : float
        The price of one review, that is of one rejection.

    Returns
    -------
    float
        The cost of a rejection in squared-error units.

    Examples
    --------
    An error of 10 kW in a forecast costs 50 euros, and the time of an engineer 18:

    >>> from_money(error=10, error_cost=50, review_cost=18)
    36.0
    """
    size = _price("error", error, positive=True)
    price = _price("error_cost", error_cost, positive=True)
    review = _price("review_cost", review_cost, positive=False)
    try:
        cost = float(review * size**2 / price)  # the fractions are exact, so no intermediate product overflows
    except OverflowError:
        cost = math.inf
    if not math.isfinite(cost) or (cost == 0 and review > 0):
        raise ValueError(
            "review_cost * error ** 2 / error_cost must be a finite number that does not round to 0, "
            f"got {cost} for error={error}, error_cost={error_cost}, review_cost={review_cost}"
        )
    return cost


def _price(name: str, value: Any, *, positive: bool) -> Fraction:
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{name} must be a finite number {'> 0' if positive else '>= 0'}, got {value!r:.80}")
    return Fraction(number)


def is_constant(cost: Cost) -> bool:
    """Whether the cost is one number for all rows.

    Examples
    --------
    >>> is_constant(3.0), is_constant([3.0, 4.0]), is_constant("fee")
    (True, False, False)
    """
    return isinstance(cost, Real) or (isinstance(cost, np.ndarray) and cost.ndim == 0)


def needs_rows(cost: Cost) -> bool:
    """Whether the cost is an array, which is valid only for the rows it was passed with.

    Examples
    --------
    >>> needs_rows([3.0, 4.0]), needs_rows(3.0), needs_rows("fee")
    (True, False, False)
    """
    return not (is_constant(cost) or isinstance(cost, str) or callable(cost))


def resolve(cost: Cost, X: Any, n_rows: int) -> NDArray[np.float64]:
    """Convert any form of cost to one finite, non-negative value per row.

    Parameters
    ----------
    cost : float, array-like of shape (n_rows,), callable or str
        A callable receives `X` and returns a number or an array-like; a string names a column of `X`. A pandas Series
        with the labels of a pandas `X` in another order is brought into the order of `X`.
    X : array-like, DataFrame or None
        The rows, for callables, column names and labels.
    n_rows : int
        Number of values.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> resolve(2.5, None, 3)
    array([2.5, 2.5, 2.5])
    >>> resolve(lambda X: X[:, 0] + 1, np.array([[0.0], [3.0]]), 2)
    array([1., 4.])
    """
    source = "cost"
    if isinstance(cost, str):
        source, cost = f"cost column {cost!r}", _column(to_pandas(X), cost)
    elif callable(cost):
        source, cost = "the cost returned by the callable", cost(X)
    if cost is None:
        raise ValueError(f"{source} is missing: pass a number, one value per row, a callable or a column name")
    index = row_index(X)
    return row_values(aligned(cost, index, source), source, n_rows, index)


def cost_of_rows(
    cost: Cost | None,
    X: Any,
    rows: Any,
    *,
    fitted: Cost | None,
    cost_range: tuple[float, float] | None,
    serves_any_cost: bool,
    name: str,
) -> NDArray[np.float64]:
    """Return the cost of each row in a decision: the cost passed, or else that of the model.

    Parameters
    ----------
    cost : float, array-like, callable, str or None
    X : array-like or DataFrame
        The rows passed by the user, possibly with the column of the cost.
    rows : array-like or DataFrame
        The same rows, checked and without that column. A callable cost receives them.
    fitted : float, array-like, callable, str or None
        The cost that the model was fitted for; None if it is not known.
    cost_range : tuple of float or None
        The range of costs that the model was fitted for.
    serves_any_cost : bool
        Whether the model can decide at other costs than the one it was fitted for.
    name : str
        Name of the model in errors.

    Examples
    --------
    >>> rows = np.zeros((2, 1))
    >>> cost_of_rows(None, rows, rows, fitted=3.0, cost_range=None, serves_any_cost=False, name="model")
    array([3., 3.])
    """
    if cost_range is not None:
        return _within(cost_range, cost, X, rows)
    if cost is None and (fitted is None or needs_rows(fitted)):
        raise ValueError(
            f"{name} was fitted with one cost per row, so new rows need theirs: "
            "pass cost=, a number or one value per row"
        )
    if cost is None:
        assert fitted is not None
        return _resolved(fitted, X, rows)
    row_cost = _resolved(cost, X, rows)
    if not serves_any_cost and fitted is not None and is_constant(fitted) and not np.all(row_cost == fitted):
        other = row_cost[row_cost != fitted][0]
        raise ValueError(
            f"{name} was fitted for cost {fitted} and cannot decide at cost {other}: "
            "fit it again with that cost, or with one cost per row"
        )
    return row_cost


def _resolved(cost: Cost, X: Any, rows: Any) -> NDArray[np.float64]:
    """Resolve a column name in the table of the user, and a callable on the checked rows."""
    return resolve(cost, X if isinstance(cost, str) else rows, len(rows))


def _within(cost_range: tuple[float, float], cost: Cost | None, X: Any, rows: Any) -> NDArray[np.float64]:
    """Resolve one cost for each row, all within the range."""
    low, high = cost_range
    if cost is None:
        raise ValueError(
            f"the model was fitted for every cost from {low} to {high}, so a decision needs one: "
            "pass cost=, a number or one value per row"
        )
    row_cost = _resolved(cost, X, rows)
    outside = (row_cost < low) | (row_cost > high)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"cost must be within {low} to {high}, the range the model was fitted for, got {row_cost[row]} at row {row}"
        )
    return row_cost


def row_values(values: ArrayLike, source: str, n_rows: int, index: pd.Index[Any] | None = None) -> NDArray[np.float64]:
    """Convert a number or one value per row to finite, non-negative values.

    Parameters
    ----------
    values : float or array-like of shape (n_rows,)
    source : str
        Name of the values in errors.
    n_rows : int
        Number of values.
    index : pandas Index, optional
        Labels of the rows in errors.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> row_values([1, -2], "sample_weight", 2)
    Traceback (most recent call last):
    ValueError: sample_weight must be >= 0, got -2.0 at row 1
    """
    rows = _broadcast(float_array(values, source), source, n_rows)
    for wrong, rule in ((~np.isfinite(rows), "finite"), (rows < 0, ">= 0")):
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"{source} must be {rule}, got {rows[row]} at {row_name(row, index)}")
    return rows


def _column(X: Any, name: str) -> pd.Series[Any]:
    if not is_frame(X):
        raise ValueError(f"cost={name!r} names a column, so X must be a DataFrame, got {type(X).__name__}")
    if name not in X.columns:
        raise ValueError(f"cost={name!r} must name a column of X, got columns {list(X.columns)}")
    return X[name]


def _broadcast(values: NDArray[np.float64], source: str, n_rows: int) -> NDArray[np.float64]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_rows):
        raise ValueError(
            f"{source} must be a number or have one value for each of {n_rows} rows, got shape {values.shape}"
        )
    return np.broadcast_to(values, (n_rows,)).copy()
