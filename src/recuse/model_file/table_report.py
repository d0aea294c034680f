"""Differences between a table and the training rows of a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.tabular.codecs import Cells, State, cell_text
from recuse.tabular.schema import Column, Kind, TableSchema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "IGNORED_COLUMN",
    "MISSING_COLUMN",
    "NEW_CATEGORY",
    "NEW_MISSING",
    "OUT_OF_RANGE",
    "WRONG_TYPE",
    "CellComparison",
    "TableProblem",
    "table_report",
]

MISSING_COLUMN = "missing column"
IGNORED_COLUMN = "ignored column"
WRONG_TYPE = "wrong type"
NEW_CATEGORY = "new category"
NEW_MISSING = "new missing value"
OUT_OF_RANGE = "outside the training range"

_TYPES = {Kind.NUMBER: "numbers", Kind.DATE: "dates or times"}
_MOST = 10  # problems of one row
_NONE, _UNKNOWN, _GAP, _OUTSIDE = range(4)  # what is unlike training in a cell

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


@dataclass(frozen=True)
class CellComparison:
    """Cells that were read, compared with the training rows.

    Attributes
    ----------
    columns : sequence of Column
    state : ndarray of int8 of shape (column, row)
        The `State` of each cell.
    numbers : ndarray of shape (column, row)
        Numbers, and seconds since 1970 of dates; NaN for missing and unknown cells, and for categories.
    cell_at : callable
        Takes the position of a column and a row, and returns the cell as it was given.
    unlike : bool
        False if no cell is unlike the training rows.

    Examples
    --------
    >>> columns = [Column("weight", Kind.NUMBER, low=1.0, high=3.0)]
    >>> weights = [2.0, 9.0, np.nan]
    >>> found = CellComparison(columns, np.array([[0, 0, 1]]), np.array([weights]), lambda column, row: weights[row])
    >>> for problem in found.problems():
    ...     print(problem.problem, problem.rows, problem.example)
    new missing value 1
    outside the training range 1 9
    >>> found.by_row()[1]
    [{'column': 'weight', 'problem': 'outside the training range'}]
    """

    columns: Sequence[Column]
    state: NDArray[np.int8]
    numbers: Floats
    cell_at: Callable[[int, int], Any] = field(repr=False)
    unlike: bool = True

    @classmethod
    def of_cells(
        cls, columns: Sequence[Column], cells: Sequence[Cells], cell_at: Callable[[int, int], Any]
    ) -> CellComparison:
        """Put the cells of columns together."""
        count = len(cells[0].state) if cells else 0
        state, numbers = np.empty((len(cells), count), np.int8), np.full((len(cells), count), np.nan)
        for place, (column, each) in enumerate(zip(columns, cells, strict=True)):
            state[place] = each.state
            if column.kind != Kind.CATEGORY:
                numbers[place] = column.measured(each)
        return cls(columns, state, numbers, cell_at)

    @classmethod
    def concatenate(cls, blocks: Sequence[CellComparison]) -> CellComparison:
        """Put the rows of several comparisons with the same columns together."""
        if len(blocks) == 1:
            return blocks[0]
        ends = np.cumsum([len(block) for block in blocks])

        def cell_at(place: int, row: int) -> Any:
            number = int(np.searchsorted(ends, row, side="right"))
            return blocks[number].cell_at(place, row - int(ends[number]) + len(blocks[number]))

        state = np.concatenate([block.state for block in blocks], axis=1)
        numbers = np.concatenate([block.numbers for block in blocks], axis=1)
        return cls(blocks[0].columns, state, numbers, cell_at)

    def __len__(self) -> int:
        return int(self.state.shape[1])

    def __getitem__(self, rows: slice) -> CellComparison:
        """Return a copy of some rows, without the cells as they were given."""
        return CellComparison(self.columns, self.state[:, rows].copy(), self.numbers[:, rows].copy(), lambda *_: "")

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of rows with each problem, by column and problem."""
        if not self.unlike:
            return {}
        return {
            (str(column.name), _name_of(column, code)): count
            for column, of_column in zip(self.columns, self._codes, strict=True)
            for code, count in enumerate(np.bincount(of_column, minlength=4).tolist())
            if code != _NONE and count
        }

    @cached_property
    def _codes(self) -> NDArray[np.int8]:
        """What is unlike training in each cell (column, row)."""
        ends = [[-np.inf if column.low is None else column.low for column in self.columns]]
        ends += [[np.inf if column.high is None else column.high for column in self.columns]]
        low, high = np.array(ends)[:, :, None]
        may_miss = np.array([column.had_missing for column in self.columns], np.bool_)[:, None]
        codes = np.where((self.numbers < low) | (self.numbers > high), _OUTSIDE, _NONE).astype(np.int8)
        codes[(self.state == State.MISSING) & ~may_miss] = _GAP
        codes[self.state == State.UNKNOWN] = _UNKNOWN
        return codes

    def problems(self) -> list[TableProblem]:
        """Return the problems of all rows, in the order of the columns."""
        if not self._codes.any():
            return []
        return [problem for place in range(len(self.columns)) for problem in self._problems_of(place)]

    def _problems_of(self, place: int) -> Iterator[TableProblem]:
        column, codes = self.columns[place], self._codes[place]
        counts = np.bincount(codes, minlength=4).tolist()
        if counts[_UNKNOWN]:
            example = f"{cell_text(self.cell_at(place, int((codes == _UNKNOWN).argmax()))):.40}"
            expected = _TYPES.get(column.kind, "")
            yield TableProblem(column.name, _name_of(column, _UNKNOWN), counts[_UNKNOWN], example, expected)
        if counts[_GAP]:
            yield TableProblem(column.name, NEW_MISSING, counts[_GAP])
        if counts[_OUTSIDE]:
            text, numbers = _date if column.kind == Kind.DATE else _number, self.numbers[place]
            assert column.low is not None
            assert column.high is not None
            farthest = numbers[int(np.nanargmax(np.maximum(column.low - numbers, numbers - column.high)))]
            limits = f"{text(column.low)} to {text(column.high)}"
            yield TableProblem(column.name, OUT_OF_RANGE, counts[_OUTSIDE], text(farthest), limits)

    def by_row(self) -> list[list[dict[str, str]]]:
        """Return the first ten problems of each row."""
        found: list[list[dict[str, str]]] = [[] for _ in range(len(self))]
        if not self.unlike:
            return found
        for row, place in zip(*(each.tolist() for each in np.nonzero(self._codes.T)), strict=True):
            if len(found[row]) < _MOST:
                column = self.columns[place]
                problem = _name_of(column, int(self._codes[place, row]))
                found[row].append({"column": str(column.name), "problem": problem})
        return found


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
    cells = [_cells_of(column, table[column.name]) for column in present]
    found = CellComparison.of_cells(present, cells, lambda place, row: table[present[place].name].iloc[row]).problems()
    absent = [
        TableProblem(column.name, MISSING_COLUMN, len(table), expected=column.expected)
        for column in schema.used
        if column not in present
    ]
    known = {column.name for column in schema.columns}
    ignored = [TableProblem(name, IGNORED_COLUMN, len(table)) for name in table.columns if name not in known]
    return absent + found + ignored


def _cells_of(column: Column, cells: pd.Series[Any]) -> Cells:
    try:
        return column.codec.of_series(cells)
    except ValueError:  # a type that cannot be converted, such as dates where numbers were
        none, gaps = column.codec.of_scalar(None)[0], cells.isna().to_numpy()
        return Cells(np.full(len(cells), none), np.where(gaps, State.MISSING, State.UNKNOWN).astype(np.int8))
