"""Differences between a table and the training rows of a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recuse.tabular.codecs import Cells, State, cell_text
from recuse.tabular.schema import Column, Kind, TableSchema

if TYPE_CHECKING:
    import pandas as pd

MISSING_COLUMN = "missing column"
IGNORED_COLUMN = "ignored column"
WRONG_TYPE = "wrong type"
NEW_CATEGORY = "new category"
NEW_MISSING = "new missing value"
OUT_OF_RANGE = "outside the training range"

_TYPES = {Kind.NUMBER: "numbers", Kind.DATE: "dates or times"}
_MOST = 10  # problems of one row
_LARGEST = float(np.finfo(np.float64).max)

# What is unlike training in a cell: two states, and a known number outside the range.
_GAP, _UNKNOWN, _OUTSIDE = int(State.MISSING), int(State.UNKNOWN), 3

Floats = NDArray[np.float64]


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


def range_of(column: Column) -> tuple[float, float]:
    """Return the range of the numbers in training, or of all finite numbers if it is not known."""
    if column.low is None or column.high is None:
        return -_LARGEST, _LARGEST
    return column.low, column.high


class Unlike(NamedTuple):
    """The cells of a column, some of which are unlike those of the training rows.

    Attributes
    ----------
    codes : ndarray of int8 of shape (row,)
        What is unlike training in each cell: 0 for nothing, 1 for a missing value where training had none, 2 for a cell
        that the column cannot hold, and 3 for a number or a date outside the range.
    numbers : ndarray of shape (row,) or None
        Numbers, and seconds since 1970 of dates; None for categories.
    """

    codes: NDArray[np.int8]
    numbers: Floats | None

    @classmethod
    def of(cls, column: Column, cells: Cells) -> Unlike | None:
        """Compare cells with the training rows; return None if no cell is unlike them."""
        codes = cells.state.copy()
        if column.had_missing:
            codes[cells.missing] = 0
        numbers = None if column.kind == Kind.CATEGORY else column.measured(cells)
        if numbers is not None:
            low, high = range_of(column)
            codes[(numbers < low) | (numbers > high)] = _OUTSIDE
        return cls(codes, numbers) if codes.any() else None


@dataclass(frozen=True)
class CellComparison:
    """Cells that were read, compared with the training rows.

    Attributes
    ----------
    columns : sequence of Column
    count : int
        Number of the rows.
    unlike : mapping of int to Unlike
        The columns with cells that are unlike the training rows, by position.
    cell_at : callable
        Takes the position of a column and a row, and returns the cell as it was given.

    Examples
    --------
    >>> weight = Column("weight", Kind.NUMBER, low=1.0, high=3.0)
    >>> cells = Cells(np.array([2.0, 9.0, np.nan]), np.array([0, 0, 1], np.int8))
    >>> found = CellComparison([weight], 3, {0: Unlike.of(weight, cells)}, lambda column, row: cells.values[row])
    >>> for problem in found.problems():
    ...     print(problem.problem, problem.rows, problem.example)
    new missing value 1
    outside the training range 1 9
    >>> found.by_row()[1]
    [{'column': 'weight', 'problem': 'outside the training range'}]
    """

    columns: Sequence[Column]
    count: int
    unlike: Mapping[int, Unlike]
    cell_at: Callable[[int, int], Any] = field(repr=False)

    @classmethod
    def concatenate(cls, blocks: Sequence[CellComparison]) -> CellComparison:
        """Put the rows of several comparisons with the same columns together, without the cells as they were given."""
        if len(blocks) == 1:
            return blocks[0]
        start, codes = 0, dict[int, NDArray[np.int8]]()
        total = sum(block.count for block in blocks)
        for block in blocks:
            for place, each in block.unlike.items():
                codes.setdefault(place, np.zeros(total, np.int8))[start : start + block.count] = each.codes
            start += block.count
        return cls(blocks[0].columns, total, {place: Unlike(codes[place], None) for place in sorted(codes)}, _no_cell)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: slice) -> CellComparison:
        """Return a copy of some rows, without the cells as they were given."""
        codes = {place: each.codes[rows].copy() for place, each in self.unlike.items()}
        some = {place: Unlike(each, None) for place, each in codes.items() if each.any()}
        return CellComparison(self.columns, len(range(self.count)[rows]), some, _no_cell)

    def of_row(self, row: int) -> CellComparison:
        """Return one row, with its cells as they were given."""
        unlike = {
            place: Unlike(each.codes[[row]], None if each.numbers is None else each.numbers[[row]])
            for place, each in self.unlike.items()
            if each.codes[row]
        }
        return CellComparison(self.columns, 1, unlike, lambda place, _: self.cell_at(place, row))

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of rows with each problem, by column and problem."""
        return {
            (str(self.columns[place].name), _name_of(self.columns[place], code)): int(rows)
            for place, each in self.unlike.items()
            for code, rows in zip(*np.unique(each.codes, return_counts=True), strict=True)
            if code
        }

    def problems(self) -> list[TableProblem]:
        """Return the problems of all rows, in the order of the columns."""
        return [problem for place in self.unlike for problem in self._problems_of(place)]

    def _problems_of(self, place: int) -> Iterator[TableProblem]:
        column, (codes, numbers) = self.columns[place], self.unlike[place]
        _, gaps, unknown, outside = np.bincount(codes, minlength=4).tolist()
        if unknown:
            example = f"{cell_text(self.cell_at(place, int((codes == _UNKNOWN).argmax()))):.40}"
            yield TableProblem(column.name, _name_of(column, _UNKNOWN), unknown, example, _TYPES.get(column.kind, ""))
        if gaps:
            yield TableProblem(column.name, NEW_MISSING, gaps)
        if outside and numbers is not None:
            text, (low, high) = _date if column.kind == Kind.DATE else _number, range_of(column)
            numbers = numbers[codes == _OUTSIDE]
            farthest = numbers[int(np.maximum(low - numbers, numbers - high).argmax())]
            yield TableProblem(column.name, OUT_OF_RANGE, outside, text(farthest), f"{text(low)} to {text(high)}")

    def by_row(self) -> list[list[dict[str, str]]]:
        """Return the first ten problems of each row."""
        found: list[list[dict[str, str]]] = [[] for _ in range(self.count)]
        for place, each in self.unlike.items():
            column = self.columns[place]
            for row in np.flatnonzero(each.codes).tolist():
                if len(found[row]) < _MOST:
                    problem = _name_of(column, int(each.codes[row]))
                    found[row].append({"column": str(column.name), "problem": problem})
        return found


def _no_cell(place: int, row: int) -> str:
    return ""


def _name_of(column: Column, code: int) -> str:
    if code == _UNKNOWN:
        return NEW_CATEGORY if column.kind == Kind.CATEGORY else WRONG_TYPE
    return NEW_MISSING if code == _GAP else OUT_OF_RANGE


def _number(number: float) -> str:
    return f"{number:g}"


def _date(seconds: float) -> str:
    moment = np.datetime64(int(seconds), "s")
    return str(moment.astype("datetime64[D]")) if seconds % 86400 == 0 else str(moment)


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
    >>> schema = TableSchema.learn(pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]}))
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
    present = [column for column in schema.used if column.name in table.columns]
    compared = [Unlike.of(column, _cells_of(column, table[column.name])) for column in present]
    unlike = {place: each for place, each in enumerate(compared) if each is not None}
    found = CellComparison(present, len(table), unlike, lambda place, row: table[present[place].name].iloc[row])
    absent = [
        TableProblem(column.name, MISSING_COLUMN, len(table), expected=column.expected)
        for column in schema.used
        if column not in present
    ]
    known = {column.name for column in schema.columns}
    ignored = [TableProblem(name, IGNORED_COLUMN, len(table)) for name in table.columns if name not in known]
    return absent + found.problems() + ignored


def _cells_of(column: Column, cells: pd.Series[Any]) -> Cells:
    try:
        return column.codec.of_series(cells)
    except ValueError:  # a type that cannot be converted, such as dates where numbers were
        none, gaps = column.codec.of_scalar(None)[0], cells.isna().to_numpy()
        return Cells(np.full(len(cells), none), np.where(gaps, State.MISSING, State.UNKNOWN).astype(np.int8))
