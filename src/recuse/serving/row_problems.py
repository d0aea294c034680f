"""What is unlike training in each row of a request: missing cells, new categories, and numbers outside the range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from recuse.model_file.row_reading import FALLBACK, read_plain_date
from recuse.model_file.schema import MISSING_TIME, ColumnSchema, TableSchema
from recuse.model_file.table_report import NEW_MISSING, OUT_OF_RANGE, cell_problems

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Problem", "RowProblems"]

_MOST = 10  # problems of one row in an answer
_UNSURE = "unsure"  # a cell that only a column can read

Problem = dict[str, str]
CellCheck = Callable[[Any], str | None]


class RowProblems:
    """Finds the cells of rows that are unlike the training rows, the first ten of each row.

    Parameters
    ----------
    schema : TableSchema

    Examples
    --------
    >>> weight = ColumnSchema("weight", "number", low=1.0, high=3.0)
    >>> RowProblems(TableSchema((weight,))).of_row({"weight": 9.0})
    [{'column': 'weight', 'problem': 'outside the training range'}]
    """

    def __init__(self, schema: TableSchema) -> None:
        used = [column for column in schema.columns if column.kind != "unused"]
        self._columns = [(column, _CHECKS[column.kind](column)) for column in used]

    def of_row(self, row: Mapping[Any, Any]) -> list[Problem]:
        """Return the problems of one row, which has all columns; it needs no DataFrame."""
        found: list[Problem] = []
        for column, check in self._columns:
            problem = check(row[column.name])
            if problem is not None:
                problem = _read_as_column(column, row[column.name]) if problem is _UNSURE else problem
                if problem is not None and len(found) < _MOST:
                    found.append({"column": str(column.name), "problem": problem})
        return found

    def of_table(self, table: pd.DataFrame) -> list[list[Problem]]:
        """Return the problems of each row."""
        found: list[list[Problem]] = [[] for _ in range(len(table))]
        counts = np.zeros(len(table), np.int64)
        for column, _ in self._columns:
            for problem, wrong in cell_problems(column, table[column.name]):
                rows = np.flatnonzero(wrong & (counts < _MOST))
                counts[rows] += 1
                described = {"column": str(column.name), "problem": problem}
                for row in rows.tolist():
                    found[row].append(described)
        return found


def _read_as_column(column: ColumnSchema, cell: Any) -> str | None:
    import pandas as pd

    return next((problem for problem, _ in cell_problems(column, pd.Series([cell], name=column.name))), None)


def _check_number(column: ColumnSchema) -> CellCheck:
    low, high = _range(column)
    missing = None if column.had_missing or column.had_text else NEW_MISSING

    def check(cell: Any) -> str | None:
        if type(cell) is float or type(cell) is int:
            return None if low <= cell <= high else OUT_OF_RANGE if cell == cell else missing
        return missing if cell is None else _UNSURE

    return check


def _check_date(column: ColumnSchema) -> CellCheck:
    low, high = _range(column)
    missing = None if column.had_missing else NEW_MISSING

    def check(cell: Any) -> str | None:
        time = read_plain_date(cell)
        if time is FALLBACK:
            return _UNSURE
        if time == MISSING_TIME:
            return missing
        return None if low <= time / 1e6 <= high else OUT_OF_RANGE

    return check


def _check_category(column: ColumnSchema) -> CellCheck:
    values = {level.value for level in column.levels if level.seen and level.value is not None}
    missing = None if column.had_missing else NEW_MISSING
    return lambda cell: missing if cell is None else None if cell in values else _UNSURE


def _range(column: ColumnSchema) -> tuple[float, float]:
    if column.low is None or column.high is None:
        return -np.inf, np.inf
    return column.low, column.high


_CHECKS: Mapping[str, Callable[[ColumnSchema], CellCheck]] = {
    "number": _check_number,
    "date": _check_date,
    "category": _check_category,
}
