"""Differences between a table and the training rows of a saved model."""

from __future__ import annotations

from collections.abc import Iterator
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
    "cell_problems",
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
    for found in _found(column, cells):
        if found.problem == OUT_OF_RANGE:
            yield _out_of_range(column, found)
        else:
            example = "" if found.problem == NEW_MISSING else _shown(cells.iloc[int(found.wrong.argmax())])
            expected = _TYPES[column.kind] if found.problem == WRONG_TYPE else ""
            yield TableProblem(column.name, found.problem, int(found.wrong.sum()), example, expected)


def cell_problems(column: ColumnSchema, cells: pd.Series[Any]) -> Iterator[tuple[str, Flags]]:
    """Compare the cells of one column with those of the training rows, cell by cell.

    Parameters
    ----------
    column : ColumnSchema
    cells : Series

    Yields
    ------
    problem : str
        One of the constants of this module.
    wrong : ndarray of bool
        The cells that have it; no cell has two problems.

    Examples
    --------
    >>> import pandas as pd
    >>> weight = ColumnSchema("weight", "number", low=1.0, high=3.0)
    >>> for problem, wrong in cell_problems(weight, pd.Series([2, 9, None])):
    ...     print(problem, wrong)
    new missing value [False False  True]
    outside the training range [False  True False]
    """
    for found in _found(column, cells):
        yield found.problem, found.wrong


@dataclass(frozen=True)
class _Found:
    """A problem, the cells that have it, and the numbers of the column if they are outside the range."""

    problem: str
    wrong: Flags
    values: NDArray[np.float64] | None = None


def _found(column: ColumnSchema, cells: pd.Series[Any]) -> list[_Found]:
    try:
        found = _FINDERS[column.kind](column, cells)
    except ValueError:  # a type that cannot be converted, such as dates where numbers were
        found = [_Found(WRONG_TYPE, cells.notna().to_numpy())]
    return [each for each in found if each.wrong.any()]


def _find_in_numbers(column: ColumnSchema, cells: pd.Series[Any]) -> list[_Found]:
    from recuse.tabular.cells import read_numbers

    values, text = read_numbers(cells)
    outside = _Found(OUT_OF_RANGE, _outside(column, values), values)
    if column.had_text:
        return [outside]
    missing = np.isnan(values) & ~text & (not column.had_missing)
    return [_Found(WRONG_TYPE, text), _Found(NEW_MISSING, missing), outside]


def _find_in_dates(column: ColumnSchema, cells: pd.Series[Any]) -> list[_Found]:
    from recuse.tabular.cells import read_dates

    times, wrong = read_dates(cells, column.zone)
    gaps = np.isnat(times)
    seconds = np.where(gaps, np.nan, times.astype(np.int64) / 1e6)
    missing = gaps & ~wrong & (not column.had_missing)
    outside = _Found(OUT_OF_RANGE, _outside(column, seconds), seconds)
    return [_Found(WRONG_TYPE, wrong), _Found(NEW_MISSING, missing), outside]


def _find_in_categories(column: ColumnSchema, cells: pd.Series[Any]) -> list[_Found]:
    from recuse.tabular.cells import read_levels

    codes, levels = read_levels(cells)
    values = {level.value for level in column.levels if level.seen and level.value is not None}
    texts = {level.text for level in column.levels if level.seen and level.value is None}  # JSON has no such values
    new = [level not in values and (isinstance(level, str) or str(level) not in texts) for level in levels]
    missing = (codes < 0) & (not column.had_missing)
    return [_Found(NEW_CATEGORY, np.array([*new, False])[codes]), _Found(NEW_MISSING, missing)]


_FINDERS = {"number": _find_in_numbers, "date": _find_in_dates, "category": _find_in_categories}


def _outside(column: ColumnSchema, values: NDArray[np.float64]) -> Flags:
    return _distance(column, values) > 0  # false for NaN


def _distance(column: ColumnSchema, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far numbers are outside of the range of training."""
    if column.low is None or column.high is None:
        return np.zeros(len(values))
    with np.errstate(invalid="ignore"):
        return np.maximum(column.low - values, values - column.high)


def _out_of_range(column: ColumnSchema, found: _Found) -> TableProblem:
    assert found.values is not None
    assert column.low is not None
    assert column.high is not None
    text = _date if column.kind == "date" else _number
    farthest = found.values[int(np.nanargmax(_distance(column, found.values)))]
    limits = f"{text(column.low)} to {text(column.high)}"
    return TableProblem(column.name, OUT_OF_RANGE, int(found.wrong.sum()), text(farthest), limits)


def _number(number: float) -> str:
    return f"{number:g}"


def _date(seconds: float) -> str:
    moment = np.datetime64(int(seconds), "s")
    return str(moment.astype("datetime64[D]")) if seconds % 86400 == 0 else str(moment)


def _shown(cell: Any) -> str:
    return f"{cell!s:.40}"
