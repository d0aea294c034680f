"""Cells of a file in the types that a model expects, by rules that look at one cell at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from recuse.model_file.schema import ColumnSchema

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_expected", "convert_csv", "text_columns"]


def text_columns(columns: Mapping[str, ColumnSchema]) -> set[str]:
    """Return the names of the columns that are read as text from CSV files: dates, and categories that are text."""
    return {name for name, column in columns.items() if column.kind == "date" or _has_text_levels(column)}


def _has_text_levels(column: ColumnSchema) -> bool:
    return column.kind == "category" and any(isinstance(level.value, str) for level in column.levels)


def as_expected(column: ColumnSchema, cells: pd.Series[Any]) -> pd.Series[Any]:
    """Return the cells of a column in the types of its categories; other columns are returned as they are.

    Whole numbers and truth values become text where the categories are text. Words for truth values become truth values
    where the categories are truth values.
    """
    if column.kind != "category":
        return cells
    if _has_text_levels(column):
        return _as_text(cells)
    values = {level.text.lower(): level.value for level in column.levels if isinstance(level.value, bool)}
    if not values:
        return cells
    return _mapped(cells, lambda cell: values.get(str(cell).lower(), cell))


def _as_text(cells: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    if isinstance(cells.dtype, pd.CategoricalDtype | pd.StringDtype):
        return cells
    return _mapped(cells, _text_of)


def _text_of(cell: Any) -> Any:
    import numpy as np

    if isinstance(cell, float | np.floating) and cell % 1 == 0:  # a whole number in a column with gaps
        return str(int(cell))
    return str(cell) if isinstance(cell, bool | int | np.bool_ | np.integer) else cell


def _mapped(cells: pd.Series[Any], function: Any) -> pd.Series[Any]:
    mapped: pd.Series[Any] = cells.astype(object).map(function, na_action="ignore")
    return mapped


def _csv_cells(column: ColumnSchema, cells: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """Return the cells of a block of a CSV file, whose types were inferred from the block alone.

    A column of numbers has text in the blocks in which one cell is not a number. Then each cell is converted by itself,
    so that the result does not depend on the other rows of the block.
    """
    if column.kind == "number" or (column.kind == "category" and not _has_text_levels(column)):
        truth = any(isinstance(level.value, bool) for level in column.levels)
        return cells if truth else _number_cells(cells, decimal)
    return cells


def _number_cells(cells: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """Return the cells as numbers where they are numbers; truth values and other cells stay text."""
    import pandas as pd
    from pandas.api import types

    if types.is_numeric_dtype(cells.dtype) and not types.is_bool_dtype(cells.dtype):
        return cells
    values = _mapped(cells, lambda cell: _number(str(cell), decimal))
    whole = pd.api.types.infer_dtype(values, skipna=True) in ("floating", "empty")
    return values.astype("float64") if whole else values


def _number(text: str, decimal: str) -> float | str:
    if "_" in text:  # a number in Python only
        return text
    try:
        return float(text if decimal == "." else text.replace(decimal, "."))
    except ValueError:
        return text


def convert_csv(
    columns: Mapping[str, ColumnSchema], frame: pd.DataFrame, decimal: str, others: Iterable[str] = ()
) -> pd.DataFrame:
    """Return a block of a CSV file with the columns of a model, and `others` that hold numbers, converted.

    Parameters
    ----------
    columns : mapping of str to ColumnSchema
        By the names in the file.
    frame : DataFrame
    decimal : str
        The decimal sign.
    others : iterable of str
    """
    converted = {name: _csv_cells(column, frame[name], decimal) for name, column in columns.items()}
    numbers = {name: _number_cells(frame[name], decimal) for name in others}
    return frame.assign(**{**numbers, **converted})
