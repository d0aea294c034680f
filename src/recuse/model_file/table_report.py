"""Differences between a table and the training rows of a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.schema import ColumnSchema, TableSchema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "IGNORED_COLUMN",
    "MISSING_COLUMN",
    "NEW_CATEGORY",
    "NEW_MISSING",
    "OUT_OF_RANGE",
    "WRONG_TYPE",
    "TableProblem",
    "column_report",
    "table_report",
]

MISSING_COLUMN = "missing column"
IGNORED_COLUMN = "ignored column"
WRONG_TYPE = "wrong type"
NEW_CATEGORY = "new category"
NEW_MISSING = "new missing value"
OUT_OF_RANGE = "outside the training range"

_TYPES = {"number": "numbers", "date": "dates or times", "category": "categories"}

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class TableProblem:
    """A difference between a column and the training rows.

    Attributes
    ----------
    column : str or int
    problem : str
        One of the constants of this module.
    rows : int
        Number of rows with the problem.
    example : str
        The first such cell, the most distant number, or "" if there is none.
    expected : str
        What the training rows had, or "".
    """

    column: str | int
    problem: str
    rows: int
    example: str = ""
    expected: str = ""


def table_report(schema: TableSchema, table: pd.DataFrame) -> list[TableProblem]:
    """Compare a table with the training rows that a schema describes.

    Parameters
    ----------
    schema : TableSchema
    table : DataFrame

    Returns
    -------
    list of TableProblem
        First missing columns, then problems of cells in the order of the columns, then columns that are ignored.

    Examples
    --------
    >>> import pandas as pd
    >>> from recuse.model_file.schema import schema_of
    >>> from recuse.tabular.encoder import TableEncoder
    >>> schema = schema_of(TableEncoder().fit(pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]})))
    >>> new = pd.DataFrame({"weight": [2.0, 9.0], "origin": ["mars", "eu"], "id": [1, 2]})
    >>> for problem in table_report(schema, new):
    ...     print(problem.column, "-", problem.problem, "-", problem.rows, problem.example)
    weight - outside the training range - 1 9
    origin - new category - 1 mars
    id - ignored column - 2
    """
    if schema.matrix is not None:
        if table.shape[1] != len(schema.columns):
            width = f"{len(schema.columns)} columns"
            return [TableProblem(table.shape[1], MISSING_COLUMN, len(table), expected=width)]
        table = table.set_axis([column.name for column in schema.columns], axis=1)
    used = [column for column in schema.columns if column.kind != "unused"]
    known = {column.name for column in schema.columns}
    absent = [
        TableProblem(column.name, MISSING_COLUMN, len(table), expected=column.expected)
        for column in used
        if column.name not in table.columns
    ]
    cells = [
        problem
        for column in used
        if column.name in table.columns
        for problem in column_report(column, table[column.name])
    ]
    ignored = [TableProblem(name, IGNORED_COLUMN, len(table)) for name in table.columns if name not in known]
    return absent + cells + ignored


def column_report(column: ColumnSchema, cells: pd.Series[Any]) -> Iterator[TableProblem]:
    """Compare the cells of one column with those of the training rows.

    Parameters
    ----------
    column : ColumnSchema
    cells : Series

    Yields
    ------
    TableProblem
    """
    try:
        yield from _REPORTS[column.kind](column, cells)
    except ValueError:  # a type that cannot be converted, such as dates where numbers were
        yield TableProblem(column.name, WRONG_TYPE, len(cells), _shown(cells.dropna().iloc[0]), _TYPES[column.kind])


def _report_numbers(column: ColumnSchema, cells: pd.Series[Any]) -> Iterator[TableProblem]:
    from recuse.tabular.cells import read_numbers

    values, text = read_numbers(cells)
    if not column.had_text:
        yield from _counted(column, WRONG_TYPE, cells, text, _TYPES["number"])
        yield from _counted(column, NEW_MISSING, cells, np.isnan(values) & ~text & (not column.had_missing))
    yield from _out_of_range(column, values, lambda number: f"{number:g}")


def _report_dates(column: ColumnSchema, cells: pd.Series[Any]) -> Iterator[TableProblem]:
    from recuse.tabular.cells import read_dates

    times, wrong = read_dates(cells, column.zone)
    missing = np.isnat(times)
    yield from _counted(column, WRONG_TYPE, cells, wrong, _TYPES["date"])
    yield from _counted(column, NEW_MISSING, cells, missing & ~wrong & (not column.had_missing))
    seconds = np.where(missing, np.nan, times.astype(np.int64) / 1e6)
    yield from _out_of_range(column, seconds, _date)


def _report_categories(column: ColumnSchema, cells: pd.Series[Any]) -> Iterator[TableProblem]:
    from recuse.tabular.cells import read_levels

    codes, levels = read_levels(cells)
    values = {level.value for level in column.levels if level.seen and level.value is not None}
    texts = {level.text for level in column.levels if level.seen and level.value is None}  # JSON has no such values
    new = [level not in values and (isinstance(level, str) or str(level) not in texts) for level in levels]
    yield from _counted(column, NEW_CATEGORY, cells, np.array([*new, False])[codes])
    yield from _counted(column, NEW_MISSING, cells, (codes < 0) & (not column.had_missing))


_REPORTS = {"number": _report_numbers, "date": _report_dates, "category": _report_categories}


def _counted(
    column: ColumnSchema, problem: str, cells: pd.Series[Any], wrong: Flags, expected: str = ""
) -> Iterator[TableProblem]:
    if wrong.any():
        example = "" if problem == NEW_MISSING else _shown(cells.iloc[int(wrong.argmax())])
        yield TableProblem(column.name, problem, int(wrong.sum()), example, expected)


def _out_of_range(
    column: ColumnSchema, values: NDArray[np.float64], text: Callable[[float], str]
) -> Iterator[TableProblem]:
    if column.low is None or column.high is None:
        return
    with np.errstate(invalid="ignore"):
        distance = np.maximum(column.low - values, values - column.high)
    outside = distance > 0  # false for NaN
    if outside.any():
        farthest = values[int(np.nanargmax(distance))]
        limits = f"{text(column.low)} to {text(column.high)}"
        yield TableProblem(column.name, OUT_OF_RANGE, int(outside.sum()), text(farthest), limits)


def _date(seconds: float) -> str:
    moment = np.datetime64(int(seconds), "s")
    return str(moment.astype("datetime64[D]")) if seconds % 86400 == 0 else str(moment)


def _shown(cell: Any) -> str:
    return f"{cell!s:.40}"
