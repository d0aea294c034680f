"""The training rows that are nearest to a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.model_file.schema import ColumnSchema
from recuse.tabular.cells import read_dates, read_numbers

__all__ = ["MOST_ROWS", "nearest_rows", "row_distances"]

MOST_ROWS = 20_000  # training rows that are compared


def nearest_rows(
    rows: pd.DataFrame, training: pd.DataFrame, columns: Sequence[ColumnSchema], count: int = 3
) -> NDArray[np.intp]:
    """Return the places (row, neighbour) of the nearest training rows, by the distance of `row_distances`.

    Examples
    --------
    >>> training = pd.DataFrame({"weight": [1.0, 5.0], "origin": ["eu", "us"]})
    >>> columns = [ColumnSchema("weight", "number", low=1.0, high=5.0), ColumnSchema("origin", "category")]
    >>> nearest_rows(pd.DataFrame({"weight": [2.0], "origin": ["us"]}), training, columns, count=1)
    array([[1]])
    """
    distance = row_distances(rows, training.iloc[:MOST_ROWS], columns)
    return np.argsort(distance, axis=1, kind="stable")[:, :count]


def row_distances(rows: pd.DataFrame, training: pd.DataFrame, columns: Sequence[ColumnSchema]) -> NDArray[np.float64]:
    """Return the distances (row, training row).

    The distance is a sum over the columns: for numbers and dates the difference in units of the range in training, and
    for categories 1 if they differ. A missing cell has the distance 1 to every cell.

    Examples
    --------
    >>> training = pd.DataFrame({"weight": [1.0, 5.0], "origin": ["eu", "us"]})
    >>> columns = [ColumnSchema("weight", "number", low=1.0, high=5.0), ColumnSchema("origin", "category")]
    >>> row_distances(pd.DataFrame({"weight": [2.0], "origin": ["us"]}), training, columns)
    array([[1.25, 0.75]])
    """
    distance = np.zeros((len(rows), len(training)))
    for column in columns:
        ours, theirs = rows[column.name], training[column.name]
        if column.kind in ("number", "date"):
            width = ((column.high or 0.0) - (column.low or 0.0)) or 1.0
            difference = np.abs(_numbers(ours, column)[:, None] - _numbers(theirs, column)[None]) / width
            distance += np.where(np.isnan(difference), 1.0, np.minimum(difference, 1.0))
        elif column.kind == "category":
            distance += _texts(ours)[:, None] != _texts(theirs)[None]
    return distance


def _numbers(column: pd.Series, kind: ColumnSchema) -> NDArray[np.float64]:
    """Return numbers in the units of the schema: durations and dates in seconds; NaN if missing."""
    if kind.kind == "number":
        return read_numbers(column)[0]
    times, _ = read_dates(column, kind.zone)
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)


def _texts(column: pd.Series) -> NDArray[np.object_]:
    return column.astype(object).map(_text, na_action="ignore").fillna("\0").to_numpy(object)


def _text(cell: object) -> str:
    """Return a category as text; 8 and 8.0 are the same one, since a column with missing cells has floats."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
