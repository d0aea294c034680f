"""Checked training rows in canonical form: distinct, sorted, with costs and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse.costs import Cost, resolve, row_values

__all__ = ["Rows", "is_constant_target", "without"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Checked rows with their targets, costs and weights, in the user's units.

    The targets are (row,), or (row, output) where there are several. Where the caller divides the rows into parts,
    `part` (row, division) says how; only rows of one part are merged.
    """

    X: pd.DataFrame | Floats
    y: Floats
    cost: Floats
    weight: Floats
    part: NDArray[np.int8]

    @classmethod
    def check(
        cls,
        X: pd.DataFrame | Floats,
        y: Floats,
        cost: Cost,
        sample_weight: ArrayLike | None,
        part: NDArray[np.int8] | None = None,
    ) -> Self:
        """Bring cost and weights to one value per row, and the rows to their canonical form."""
        weight = row_values(1.0 if sample_weight is None else sample_weight, "sample_weight", len(y))
        if weight.sum() <= 0:
            raise ValueError("sample_weight must be > 0 for at least one row, got only zeros")
        part = np.empty((len(y), 0), np.int8) if part is None else part
        return cls(X, y, resolve(cost, X, len(y)), weight, part)._merged()

    def __len__(self) -> int:
        return len(self.y)

    def _merged(self) -> Self:
        """Give the distinct rows in a fixed order, equal ones as one row of their joint weight.

        So a weight of two is the same as two copies, the order of the rows does not matter, and two copies of
        a row never stand on both sides of a division into training and validation.
        """
        present = np.flatnonzero(self.weight > 0)
        key = np.column_stack([self.part, self.cost, self.y, _sortable(self.X)])[present] + 0.0  # no negative zeros
        order = np.lexsort(key.T)
        key, present = key[order], present[order]
        same = (key[1:] == key[:-1]) | (np.isnan(key[1:]) & np.isnan(key[:-1]))
        first = np.flatnonzero(np.append(True, ~same.all(axis=1)))
        merged = self.take(present[first])
        return replace(merged, weight=np.add.reduceat(self.weight[present], first))

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Give some of the rows."""
        X = self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]
        return type(self)(X, self.y[rows], self.cost[rows], self.weight[rows], self.part[rows])


def _sortable(X: pd.DataFrame | Floats) -> Floats:
    """Numbers that are equal where the cells are, whatever the type of the column."""
    if not isinstance(X, pd.DataFrame):
        return X
    return np.column_stack([np.empty((len(X), 0)), *(_sortable_column(X[name]) for name in X.columns)])


def _sortable_column(column: pd.Series[Any]) -> Floats:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    text = column.astype(object).map(repr).to_numpy(dtype=object)  # tells 1 from "1"
    text[column.isna()] = ""
    codes, _ = pd.factorize(text, sort=True)
    return codes.astype(np.float64)


def without(X: Any, column: str | None) -> Any:
    """Give the table without the column that holds the cost, if there is one."""
    if column is None:
        return X
    if not isinstance(X, pd.DataFrame):
        raise ValueError(f"cost={column!r} names a column, so X must be a DataFrame, got {type(X).__name__}")
    return X.drop(columns=column)


def is_constant_target(y: Floats) -> bool:
    """Whether all rows have the same target, or the same of several.

    Examples
    --------
    >>> is_constant_target(np.array([2.0, 2.0])), is_constant_target(np.array([[2.0, 1.0], [2.0, 3.0]]))
    (True, False)
    """
    return not np.ptp(y, axis=0).any()
