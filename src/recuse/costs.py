"""What a rejection costs: a number, one value per row, a callable or a column -> one checked array.

Every cost in the package is in the units of the loss: squared-error units, those of ``(h(x) - y) ** 2``, unless a model
was told to aim at another. Whatever form a user gives it in, `resolve` is the one place that turns it into an array
and says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Cost = float | ArrayLike | Callable[[Any], ArrayLike] | str

__all__ = ["Cost", "from_money", "is_constant", "needs_rows", "resolve", "row_values"]


def from_money(error: float, error_cost: float, review_cost: float) -> float:
    """Turn prices into squared-error units, for models that aim at the squared error.

    Parameters
    ----------
    error : float
        The size of an error, in the units of the target ...
    error_cost : float
        ... and the money such an error costs. Twice the error costs four times as much.
    review_cost : float
        The money one review, that is one rejection, costs.

    Returns
    -------
    float
        The cost of a rejection in squared-error units.

    Examples
    --------
    A forecast that is 10 kW off costs 50 euros; asking the engineer costs 18:

    >>> from_money(error=10, error_cost=50, review_cost=18)
    36.0
    """
    for name, value in (("error", error), ("error_cost", error_cost)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a finite number > 0, got {value}")
    if not (np.isfinite(review_cost) and review_cost >= 0):
        raise ValueError(f"review_cost must be a finite number >= 0, got {review_cost}")
    return float(review_cost) * float(error) ** 2 / float(error_cost)


def is_constant(cost: Cost) -> bool:
    """Whether one number serves every row.

    Examples
    --------
    >>> is_constant(3.0), is_constant([3.0, 4.0]), is_constant("fee")
    (True, False, False)
    """
    return isinstance(cost, Real) or (isinstance(cost, np.ndarray) and cost.ndim == 0)


def needs_rows(cost: Cost) -> bool:
    """Whether the cost is an array that belongs to the rows it was given with, and to no others."""
    return not (is_constant(cost) or isinstance(cost, str) or callable(cost))


def resolve(cost: Cost, X: Any, n_rows: int) -> NDArray[np.float64]:
    """Turn any form of cost into one finite, non-negative value per row.

    Parameters
    ----------
    cost : float, array-like of shape (n_rows,), callable or str
        A callable receives `X` and returns one of the other forms; a string names a column of `X`.
    X : array-like or DataFrame
        The rows, for callables and column names.
    n_rows : int
        How many values are needed.

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
        source, cost = f"cost column {cost!r}", _column(X, cost)
    elif callable(cost):
        source, cost = "the cost returned by the callable", cost(X)
    if cost is None:
        raise ValueError(f"{source} is missing: give a number, one value per row, a callable or a column name")
    return row_values(cost, source, n_rows)


def row_values(values: ArrayLike, source: str, n_rows: int) -> NDArray[np.float64]:
    """Turn a number or one value per row into finite, non-negative values; errors speak of `source`.

    Examples
    --------
    >>> row_values([1, -2], "sample_weight", 2)
    Traceback (most recent call last):
    ValueError: sample_weight must be >= 0, got -2.0 at row 1
    """
    return _checked(_numbers(values, source), source, n_rows)


def _column(X: Any, name: str) -> pd.Series[Any]:
    if not isinstance(X, pd.DataFrame):
        raise ValueError(f"cost={name!r} names a column, so X must be a DataFrame, got {type(X).__name__}")
    if name not in X.columns:
        raise ValueError(f"cost={name!r} must name a column of X, got columns {list(X.columns)}")
    return X[name]


def _numbers(values: Any, source: str) -> NDArray[np.float64]:
    try:
        if isinstance(values, pd.Series):  # its gaps may be of any type
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source} must be numeric, got {values!r:.80}") from error


def _checked(values: NDArray[np.float64], source: str, n_rows: int) -> NDArray[np.float64]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_rows):
        raise ValueError(
            f"{source} must be a number or have one value for each of {n_rows} rows, got shape {values.shape}"
        )
    rows = np.broadcast_to(values, (n_rows,)).copy()
    for wrong, rule in ((~np.isfinite(rows), "finite"), (rows < 0, ">= 0")):
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"{source} must be {rule}, got {rows[row]} at row {row}")
    return rows
