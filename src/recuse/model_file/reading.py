"""Conversion of a user's table or images to the inputs of a graph, in one pass that also finds what is new in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import is_frame, row_index, row_name, to_pandas, unmasked
from recuse.model_file.schema import UNKNOWN_TIME, ImageSchema, input_name, missing_text, unknown_text
from recuse.model_file.table_report import CellComparison
from recuse.tabular.codecs import Cells, State
from recuse.tabular.schema import Column, Kind, TableSchema

__all__ = ["Feeds", "ImageReader", "ReadRows", "TableReader"]

Floats = NDArray[np.float64]
Feeds = dict[str, NDArray[Any]]

_PLAIN = frozenset({float, int, str, bool, type(None)})
_DTYPES: Mapping[str, Any] = {Kind.NUMBER: np.float64, Kind.DATE: np.int64, Kind.CATEGORY: object}
_KNOWN, _UNKNOWN = int(State.KNOWN), int(State.UNKNOWN)
_ONE_ROW = np.zeros((1, 1))  # a table with as many rows as a mapping of plain values


@dataclass(frozen=True)
class ReadRows:
    """Rows as a graph reads them.

    Attributes
    ----------
    feeds : dict of str to ndarray
        One array for each input of the graph.
    comparison : CellComparison or None
        What is unlike the training rows; None for images.
    table : object
        The rows as pandas, Arrow or numpy has them; a stand-in of one row for a mapping of plain values.
    index : pandas Index or None
        Labels of the rows.
    """

    feeds: Feeds
    comparison: CellComparison | None
    table: Any = field(repr=False)
    index: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.feeds.values())))


class _Options(NamedTuple):
    """How a table is read."""

    warn: bool
    source: str

    @property
    def of_source(self) -> str:
        return f" of {self.source}" if self.source else ""


class TableReader:
    """Reads tables as a schema describes them.

    Columns are found by name if both tables have names, else by position. Other columns are ignored.

    Parameters
    ----------
    schema : TableSchema
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self._inputs = [_ColumnInput(column) for column in schema.used]
        self._names = schema.names
        self._all_numbers = all(column.kind == Kind.NUMBER for column in schema.columns)
        self._checked: Any = None  # the labels of the last table, if they are those of the schema in the same order

    def read(
        self,
        X: Any,
        *,
        warn: bool = True,
        as_table: bool = False,
        columns: Mapping[Any, str] | None = None,
        index: Any = None,
        source: str = "",
    ) -> ReadRows:
        """Read a table.

        Parameters
        ----------
        X : array-like, DataFrame of any library, Arrow table, or mapping of column names to values
        warn : bool, default=True
            Whether to warn of text in columns of numbers.
        as_table : bool, default=False
            Whether `ReadRows.table` must have the cells of a mapping.
        columns : mapping, optional
            The names of columns of a DataFrame or an Arrow table by those of the schema.
        index : pandas Index, optional
            Labels of the rows, instead of those of the table.
        source : str, optional
            Name of the table in errors.
        """
        options = _Options(warn, source)
        if isinstance(X, Mapping):
            row = None if as_table else self._read_row(X, options)
            return self._read_frame(_frame_of(X), None, options) if row is None else row
        is_arrow = hasattr(X, "schema") and hasattr(X, "combine_chunks")
        if is_arrow and (columns is not None or self.schema.matrix is None):
            return self._read_arrow(X, columns or {name: name for name in self._names}, index, options)
        table = to_pandas(X)
        if not is_frame(table):
            return self._read_array(table, options)
        if columns is not None:
            table = table[list(columns.values())].set_axis(list(columns), axis=1)
        return self._read_frame(table, row_index(X) if index is None else index, options)

    def _read_arrow(self, table: Any, columns: Mapping[Any, str], index: Any, options: _Options) -> ReadRows:
        if len(table) == 0:
            raise ValueError(f"X must have at least one row, got shape {table.shape}")
        self._check_names(table.column_names, columns.values())
        given = [table.column(columns[name]) for name in self._names]
        cells = [each.column.codec.of_arrow(column) for each, column in zip(self._inputs, given, strict=True)]
        return self._reading(cells, table, index, lambda place, row: given[place][row].as_py(), options)

    def _read_row(self, row: Mapping[Any, Any], options: _Options) -> ReadRows | None:
        """Read a mapping of plain values without a DataFrame; return None if only a table can be read."""
        if not all(type(cell) in _PLAIN for cell in row.values()):
            return None
        if self.schema.matrix is None:
            if not all(name in row for name in self._names):
                return None
            given = [row[name] for name in self._names]
        elif len(row) == len(self.schema.columns):
            cells = zip(row.values(), self.schema.columns, strict=True)
            given = [cell for cell, column in cells if column.kind != Kind.UNUSED]
        else:
            return None
        fed, numbers, state, unlike = [], [], [], False
        for each, cell in zip(self._inputs, given, strict=True):
            value, number, of_cell = each.of_scalar(cell)
            fed.append(value)
            numbers.append(number)
            state.append(of_cell)
            unlike = unlike or of_cell != _KNOWN or number < each.low or number > each.high
        compared = np.array([state], np.int8).T, np.array([numbers], np.float64).T  # (column, row)
        comparison = CellComparison(self.schema.used, *compared, lambda place, _: given[place], unlike)
        if unlike:
            self._check(comparison, None, options)
        if self.schema.matrix is not None:
            return ReadRows(self._matrix(np.array([fed])), comparison, _ONE_ROW)
        feeds = {
            each.name: np.array([[value]], each.dtype)  # (row, 1)
            for each, value in zip(self._inputs, fed, strict=True)
        }
        return ReadRows(feeds, comparison, _ONE_ROW)

    def _read_array(self, X: Any, options: _Options) -> ReadRows:
        values = np.asarray(X)
        if values.dtype.kind not in "fiub" and not isinstance(X, np.ma.MaskedArray):
            from recuse.tabular.rows import as_table  # text among the cells

            table = as_table(X)
            if is_frame(table):
                return self._read_frame(self._named(table), None, options)
            values = np.asarray(table)
        numbers = unmasked(X) if isinstance(X, np.ma.MaskedArray) else values.astype(np.float64, copy=False)
        if numbers.ndim != 2 or 0 in numbers.shape:
            raise ValueError(f"X must have rows and columns, got shape {numbers.shape}")
        self._check_width(numbers.shape[1])
        if self._all_numbers:
            return self._read_numbers(numbers, numbers, None, options)
        import pandas as pd

        return self._read_frame(self._named(pd.DataFrame(numbers)), None, options)

    def _named(self, table: Any) -> Any:
        """Return a table with the names of the schema."""
        self._check_width(table.shape[1])
        return table.set_axis([column.name for column in self.schema.columns], axis=1)

    def _check_width(self, width: int) -> None:
        if width != len(self.schema.columns):
            raise ValueError(f"X must have {len(self.schema.columns)} columns, as in training, got {width}")

    def _read_numbers(self, values: Floats, table: Any, index: Any, options: _Options) -> ReadRows:
        """Read a table (row, column) of numbers only."""
        by_column = values.T
        state = np.isnan(by_column).view(np.int8)
        comparison = CellComparison(self.schema.used, state, by_column, lambda place, row: values[row, place])
        self._check(comparison, index, options)
        if self.schema.matrix is not None:
            return ReadRows({self.schema.matrix: np.ascontiguousarray(values)}, comparison, table, index)
        columns = np.ascontiguousarray(by_column)[:, :, None]  # (column, row, 1)
        feeds = {each.name: columns[place] for place, each in enumerate(self._inputs)}
        return ReadRows(feeds, comparison, table, index)

    def _read_frame(self, table: Any, index: Any, options: _Options) -> ReadRows:
        if len(table) == 0:
            raise ValueError(f"X must have at least one row, got shape {table.shape}")
        frame, in_order = table, True
        if self.schema.matrix is not None:
            frame = self._named(table)
        elif not table.columns.is_(self._checked):  # True for the rows of one table, one by one
            in_order = self._check_names(list(table.columns), self._names)
            self._checked = table.columns if in_order else self._checked
        if self._all_numbers:
            values = (frame if in_order else frame[self._names]).to_numpy()
            if values.dtype.kind in "fiu":
                return self._read_numbers(values.astype(np.float64, copy=False), table, index, options)
        series = [frame[name] for name in self._names]
        cells = [each.column.codec.of_series(column) for each, column in zip(self._inputs, series, strict=True)]
        return self._reading(cells, table, index, lambda place, row: series[place].iloc[row], options)

    def _check_names(self, names: Sequence[Any], wanted: Any) -> bool:
        """Check that a table has some columns; return whether it has no others and they are in order."""
        absent = [name for name in wanted if name not in names]
        if absent:
            more = "" if len(absent) == 1 else f" and {len(absent) - 1} more"
            raise ValueError(
                f"X must have the column {absent[0]!r}{more}, as in training, got columns {list(names)!r:.300}"
            )
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise ValueError(f"column names must be unique, got {twice!r} more than once")
        return list(names) == list(wanted)

    def _reading(
        self, cells: list[Cells], table: Any, index: Any, cell_at: Callable[[int, int], Any], options: _Options
    ) -> ReadRows:
        comparison = CellComparison.of_cells(self.schema.used, cells, cell_at)
        self._check(comparison, index, options)
        fed = [each.of_cells(read)[:, None] for each, read in zip(self._inputs, cells, strict=True)]  # (row, 1)
        if self.schema.matrix is not None:
            return ReadRows(self._matrix(np.concatenate(fed, axis=1)), comparison, table, index)
        feeds = {each.name: values for each, values in zip(self._inputs, fed, strict=True)}
        return ReadRows(feeds, comparison, table, index)

    def _matrix(self, values: Floats) -> Feeds:
        """Return the values (row, used column) of a table without names; columns that are not used are NaN."""
        assert self.schema.matrix is not None
        if len(self._inputs) == len(self.schema.columns):
            return {self.schema.matrix: values}
        matrix = np.full((len(values), len(self.schema.columns)), np.nan)
        used = [place for place, column in enumerate(self.schema.columns) if column.kind != Kind.UNUSED]
        matrix[:, used] = values
        return {self.schema.matrix: matrix}

    def _check(self, found: CellComparison, index: Any, options: _Options) -> None:
        """Raise an error for infinite numbers and, if the model refuses them, for new categories and missing values."""
        infinite = np.isinf(found.numbers)
        if infinite.any():
            place, row = np.argwhere(infinite)[0].tolist()
            name, value = found.columns[place].name, found.numbers[place, row]
            raise ValueError(
                f"column {name!r}{options.of_source} must be finite, got {value} at {row_name(row, index)}"
            )
        if self.schema.unseen == "error":
            from recuse.tabular.encoder import check_seen

            for place, column in enumerate(found.columns):
                cells = Cells(found.numbers[place], found.state[place])
                check_seen(column, cells, partial(found.cell_at, place), index)
        unknown = found.state == State.UNKNOWN
        if options.warn and unknown.any():
            for place, column in enumerate(found.columns):
                if column.kind == Kind.NUMBER and unknown[place].any():
                    column.warn_of_text(unknown[place], found.cell_at(place, int(unknown[place].argmax())))


class _ColumnInput:
    """Cells of one column as an input of the graph.

    Attributes
    ----------
    column : Column
    name : str
        Name of the input.
    dtype : type
    low, high : float
        Range of the numbers in training; infinite for categories.
    """

    def __init__(self, column: Column) -> None:
        self.column, self.name, self.dtype = column, input_name(column), _DTYPES[column.kind]
        self.low = -np.inf if column.low is None else column.low
        self.high = np.inf if column.high is None else column.high
        self._read, self._is_date = column.codec.of_scalar, column.kind == Kind.DATE
        self._is_number = column.kind == Kind.NUMBER
        # by position among the levels, then for unknown and for missing cells
        texts = [*(level.text for level in column.levels), unknown_text(column), missing_text(column)]
        self._texts = np.array(texts, dtype=object)

    def of_scalar(self, cell: Any) -> tuple[Any, float, int]:
        """Return the input, the number and the state of one cell."""
        value, state = self._read(cell)
        if self._is_number:
            return np.inf if state == _UNKNOWN else value, value, state
        if self._is_date:
            number = np.nan if state else value / 1e6
            return UNKNOWN_TIME if state == _UNKNOWN else value, number, state
        return self._texts[value if value >= 0 else -state], np.nan, state

    def of_cells(self, cells: Cells) -> NDArray[Any]:
        """Return the inputs (row,) of some cells."""
        if self._is_number or self._is_date:
            unknown = cells.unknown
            return (
                np.where(unknown, np.inf if self._is_number else UNKNOWN_TIME, cells.values)
                if unknown.any()
                else cells.values
            )
        return np.asarray(self._texts[np.where(cells.values >= 0, cells.values, -cells.state.astype(np.intp))])


class ImageReader:
    """Reads images of one size.

    Parameters
    ----------
    schema : ImageSchema
    """

    def __init__(self, schema: ImageSchema) -> None:
        self.schema = schema

    def read(self, X: Any, **options: Any) -> ReadRows:
        """Return images (row, channel, height, width) as floats; bytes are scaled to [-1, 1]."""
        images = np.asarray(X)
        if images.ndim != 4 or images.shape[1:] != self.schema.shape or len(images) == 0:
            expected = ", ".join(map(str, self.schema.shape))
            raise ValueError(f"images must have shape (n, {expected}), as in training, got {images.shape}")
        if images.dtype == np.uint8:
            floats = images.astype(np.float32) / np.float32(127.5) - np.float32(1)
            return ReadRows({"image": floats}, None, images)
        if images.dtype.kind != "f":
            raise ValueError(f"images must be uint8 (0 to 255) or floats, got {images.dtype}")
        if not np.isfinite(images).all():
            row = int(np.argmin(np.isfinite(images).all(axis=(1, 2, 3))))
            raise ValueError(f"images must be finite, got NaN or infinity in row {row}")
        return ReadRows({"image": np.ascontiguousarray(images, dtype=np.float32)}, None, images)


def _frame_of(columns: Mapping[Any, Any]) -> Any:
    import pandas as pd

    scalar = all(np.ndim(values) == 0 for values in columns.values())
    return pd.DataFrame({name: [value] if scalar else value for name, value in columns.items()})
