"""Conversion of feature tables of any type to a pandas DataFrame or a float array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_array

from recuse.dataframes import aligned, check_target_type, row_index, to_pandas, unmasked
from recuse.tabular.schema import check_finite

__all__ = ["aligned", "as_table", "check_target_type", "row_index"]

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
