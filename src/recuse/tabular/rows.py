"""Tables of any type as checked rows, and training rows in canonical form: distinct, sorted and weighted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from recuse.costs import row_values
from recuse.dataframes import to_pandas, unmasked
from recuse.tabular.schema import TableSchema, check_finite

Floats = NDArray[np.float64]


def as_table(X: Any) -> pd.DataFrame | Floats:
    """Return features as a DataFrame if they have names or text, else as a float array.

    Parameters
    ----------
    X : array-like, pandas DataFrame, polars DataFrame or pyarrow Table of shape (n_rows, n_columns)
        NaN, None and null are missing values; infinite numbers are an error.

    Returns
    -------
    DataFrame or ndarray of float64
        A pandas DataFrame is returned as it is, with its index. An array or list that holds text becomes a DataFrame
        with the positions of the columns as their names.

    Examples
    --------
    >>> as_table([[1, None], [2, 3]])
    array([[ 1., nan],
           [ 2.,  3.]])
    >>> as_table([["eu", 1.5], ["us", 2.0]])
        0    1
    0  eu  1.5
    1  us  2.0
    """
    X = to_pandas(X)
    if isinstance(X, pd.DataFrame):
        return _checked_frame(X)
    if isinstance(X, np.ma.MaskedArray):
        X = unmasked(X)
    cells = _cells(X)
    if cells is None:
        numbers: Floats = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
        return numbers
    check_array(cells, dtype=object, ensure_all_finite=False, input_name="X")  # checks the shape
    return pd.DataFrame({position: _plain(column) for position, column in enumerate(cells.T)})


def _checked_frame(X: pd.DataFrame) -> pd.DataFrame:
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column, got 0 in shape {X.shape}")
    if X.columns.has_duplicates:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"column names must be unique, got {twice!r} more than once")
    for name in X.columns[[getattr(dtype, "kind", "") == "f" for dtype in X.dtypes]]:
        check_finite(name, X[name].to_numpy(dtype=np.float64, na_value=np.nan), X.index)
    return X


def _cells(X: Any) -> NDArray[Any] | None:
    """Return the cells of an array with text or other objects that are not numbers, None if all are numbers."""
    if not isinstance(X, list | tuple | np.ndarray):
        return None
    cells = np.asarray(X)
    if cells.dtype.kind in "US" and not isinstance(X, np.ndarray):
        cells = np.array(X, dtype=object)  # numpy has converted numbers next to text to text
    if cells.dtype.kind not in "OUSMm":
        return None
    try:
        cells.astype(np.float64)
    except TypeError:
        if any(isinstance(cell, dict | list | set) for cell in cells.flat):
            raise
        return cells
    except ValueError:
        return cells
    return cells if cells.dtype.kind in "Mm" else None


def _plain(column: NDArray[Any]) -> pd.Series[Any]:
    """Return one column with the type of its cells; numbers that numpy has converted to text are restored."""
    if column.dtype.kind not in "US":
        return pd.Series(column).infer_objects()
    try:
        return pd.Series(column.astype(np.float64))
    except ValueError:
        return pd.Series(column)


Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Origin:
    """Positions of the rows passed to `fit` among the canonical rows.

    Attributes
    ----------
    place : ndarray of shape (given row,)
        Position of each given row among the canonical rows; -1 for a row of weight zero.
    index : pandas Index or None
        Labels of the given rows, where `X` was a DataFrame.
    cost, weight : ndarray of shape (given row,)
    """

    place: Indices
    index: pd.Index[Any] | None
    cost: Floats
    weight: Floats


@dataclass(frozen=True)
class Rows:
    """Checked rows in the user's units.

    `fit` merges equal rows into one row with the sum of their weights, and sorts the rows before any random choice. So
    a weight of two equals two copies, the order of the rows does not matter, and copies of a row share a fold.

    Attributes
    ----------
    X : DataFrame or ndarray of shape (row, column)
        Without the column that holds the cost.
    y, cost, weight : ndarray of shape (row,)
    group : ndarray of int of shape (row,)
        Rows of one group are kept together by splits: the groups passed to `fit`, or else rows with equal features.
    part : ndarray of int8 of shape (row, split)
        Role of the row in each split of a user's splitter; empty without one. See `recuse.tabular.folds`.
    origin, schema : Origin and TableSchema, or None
        Only for all rows of a fit; `take` drops them.
    """

    X: pd.DataFrame | Floats
    y: Floats
    cost: Floats
    weight: Floats
    group: Indices
    part: NDArray[np.int8]
    origin: Origin | None = field(default=None, repr=False)
    schema: TableSchema | None = field(default=None, repr=False)

    @classmethod
    def canonical(
        cls,
        X: pd.DataFrame | Floats,
        y: Floats,
        cost: Floats,
        *,
        groups: ArrayLike | None = None,
        merge_costs: bool = False,
        **options: Any,
    ) -> Self:
        """Merge equal rows and sort.

        Parameters
        ----------
        X, y, cost, groups
            As in `as_given`.
        merge_costs : bool, default=False
            Whether rows that differ only in their cost are equal.
        **options
            The other options of `as_given`.
        """
        rows = cls.as_given(X, y, cost, groups=groups, **options)
        costs = [] if merge_costs else [rows.cost]
        columns: list[NDArray[Any]] = [rows.part, *costs, rows.y, _sortable(rows.X)]
        if groups is not None:
            columns.insert(0, rows.group)
        return rows._merged(np.column_stack(columns))

    @classmethod
    def as_given(
        cls,
        X: pd.DataFrame | Floats,
        y: Floats,
        cost: Floats,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        part: NDArray[np.int8] | None = None,
    ) -> Self:
        """Keep the rows of weight > 0 in their order.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (row, column)
        y, cost : ndarray of shape (row,)
        sample_weight : array-like of shape (row,), optional
        groups : array-like of shape (row,), optional
        part : ndarray of shape (row, split), optional
        """
        weight = row_values(1.0 if sample_weight is None else sample_weight, "sample_weight", len(y))
        present = np.flatnonzero(weight > 0)
        if len(present) == 0:
            raise ValueError("sample_weight must be > 0 for at least one row, got only zeros")
        place = np.full(len(y), -1)
        place[present] = np.arange(len(present))
        origin = Origin(place, X.index if isinstance(X, pd.DataFrame) else None, cost, weight)
        marks = np.empty((len(y), 0), np.int8) if part is None else part
        group = np.zeros(len(y), np.intp) if groups is None else _group_codes(groups, len(y))
        rows = cls(X, y, cost, weight, group, marks)
        if len(present) < len(y):
            rows = rows.take(present)
        return replace(rows, origin=origin, group=_row_codes(_sortable(rows.X)) if groups is None else rows.group)

    def __len__(self) -> int:
        return len(self.y)

    def _merged(self, key: Floats) -> Self:
        """Return the distinct rows sorted by key; equal rows become one row with the sum of their weights."""
        assert self.origin is not None
        order, first = _sorted_distinct(key)
        starts = np.zeros(len(order), np.intp)
        starts[first] = 1
        place = self.origin.place.copy()
        place[np.flatnonzero(place >= 0)[order]] = np.cumsum(starts) - 1
        weight = np.add.reduceat(self.weight[order], first)
        return replace(self.take(order[first]), weight=weight, origin=replace(self.origin, place=place))

    def take(self, rows: Indices) -> Self:
        """Return some of the rows."""
        X = self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]
        return type(self)(X, self.y[rows], self.cost[rows], self.weight[rows], self.group[rows], self.part[rows])


def is_constant_target(y: Floats) -> bool:
    """Whether all rows have the same target.

    Examples
    --------
    >>> is_constant_target(np.array([2.0, 2.0])), is_constant_target(np.array([2.0, 3.0]))
    (True, False)
    """
    return bool(np.ptp(y) == 0)


def _sorted_distinct(key: Floats) -> tuple[Indices, Indices]:
    """Return the order that sorts the rows of `key`, and the positions in that order where distinct rows start."""
    key = key + 0.0  # no negative zeros
    order = np.lexsort(key.T)
    key = key[order]
    same = (key[1:] == key[:-1]) | (np.isnan(key[1:]) & np.isnan(key[:-1]))
    return order, np.flatnonzero(np.append(True, ~same.all(axis=1)))


def _row_codes(features: Floats) -> Indices:
    """Return the number of each row's distinct row, counted from 0."""
    if features.shape[1] == 0:
        return np.zeros(len(features), np.intp)
    order, first = _sorted_distinct(features)
    starts = np.zeros(len(features), np.intp)
    starts[first] = 1
    codes = np.empty(len(features), np.intp)
    codes[order] = np.cumsum(starts) - 1
    return codes


def _group_codes(groups: ArrayLike, n_rows: int) -> Indices:
    """Return the number of each row's group."""
    values = pd.Series(groups) if not isinstance(groups, pd.Series) else groups
    if len(values) != n_rows:
        raise ValueError(f"groups must have one value for each of {n_rows} rows, got {len(values)}")
    if values.isna().any():
        raise ValueError(f"groups must not be missing, got a missing value at row {int(values.isna().argmax())}")
    codes, names = pd.factorize(_sortable_column(values), sort=True)  # whatever the order of the rows
    if len(names) < 2 <= n_rows:
        raise ValueError(f"groups must have at least 2 different values, got {values.iloc[0]!r} in all {n_rows} rows")
    return codes.astype(np.intp)


def _sortable(X: pd.DataFrame | Floats) -> Floats:
    """Return numbers (row, column) that are equal if and only if the cells are, for columns of any type."""
    if not isinstance(X, pd.DataFrame):
        return X
    return np.column_stack([np.empty((len(X), 0)), *(_sortable_column(X[name]) for name in X.columns)])


def _sortable_column(column: pd.Series[Any]) -> Floats:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    text = column.astype(object).map(repr).to_numpy(dtype=object)  # distinguishes 1 from "1"
    text[column.isna()] = ""
    codes, _ = pd.factorize(text, sort=True)
    return codes.astype(np.float64)
