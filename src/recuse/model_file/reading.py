"""Conversion of a user's table or images to the inputs of a graph, in one pass that also finds what is new in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import is_frame, row_index, row_name, to_pandas, unmasked
from recuse.model_file.schema import UNKNOWN_TIME, ImageSchema, input_name, missing_text, unknown_text
from recuse.model_file.table_report import CellComparison, Unlike, range_of
from recuse.tabular.codecs import Cells, State
from recuse.tabular.schema import Column, Kind, TableSchema

Floats = NDArray[np.float64]
Feeds = dict[str, NDArray[Any]]

_PLAIN = frozenset({float, int, str, bool, type(None)})
_KNOWN, _MISSING, _UNKNOWN = int(State.KNOWN), int(State.MISSING), int(State.UNKNOWN)
# Microseconds at both ends of a range of dates that are compared exactly, since the range is in rounded seconds.
_ROUNDED = 2


class ReadRows(NamedTuple):
    """Rows as a graph reads them.

    Attributes
    ----------
    feeds : dict of str to ndarray
        One array for each input of the graph.
    comparison : CellComparison or None
        What is unlike the training rows; None for images.
    table : object
        The rows as they were given, or as pandas, Arrow or numpy has them.
    index : pandas Index or None
        Labels of the rows.
    """

    feeds: Feeds
    comparison: CellComparison | None
    table: Any
    index: Any = None

    @property
    def n_rows(self) -> int:
        """Number of the rows."""
        return len(next(iter(self.feeds.values())))

    @property
    def frame(self) -> Any:
        """The rows as pandas or numpy has them."""
        return to_pandas(_frame_of(self.table) if isinstance(self.table, Mapping) else self.table)


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
        self._number_names = [each.name for each in self._inputs if each.is_number]
        self._used = [place for place, column in enumerate(schema.columns) if column.kind != Kind.UNUSED]
        self._all_numbers = all(column.kind == Kind.NUMBER for column in schema.columns)
        limits = np.array([(each.low, each.high) for each in self._inputs]).reshape(-1, 2)
        self._low, self._high = limits.T
        self._like_training = CellComparison(schema.used, 1, {}, lambda place, row: None)
        self._checked: Any = None  # the labels of the last table, if they are those of the schema in the same order

    def read(
        self,
        X: Any,
        *,
        warn: bool = True,
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
        columns : mapping, optional
            The names of columns of a DataFrame or an Arrow table by those of the schema.
        index : pandas Index, optional
            Labels of the rows, instead of those of the table.
        source : str, optional
            Name of the table in errors.
        """
        if isinstance(X, Mapping):
            reading = self._read_mapping(X)
        elif hasattr(X, "combine_chunks") and (columns is not None or self.schema.matrix is None):
            reading = self._read_arrow(X, columns or {name: name for name in self._names}, index)
        else:
            table = to_pandas(X)
            if columns is not None:
                table = table[list(columns.values())].set_axis(list(columns), axis=1)
            index = row_index(X) if index is None else index
            reading = self._read_frame(table, index) if is_frame(table) else self._read_array(table)
        if reading.comparison is not None and reading.comparison.unlike:
            self._check(reading.comparison, reading.index, warn, source)
        return reading

    def _read_mapping(self, X: Mapping[Any, Any]) -> ReadRows:
        """Read plain values, or columns of them, without a DataFrame."""
        values, given = list(X.values()), []
        if self.schema.matrix is None:
            with suppress(KeyError):  # a DataFrame is refused with a better message
                given = [X[name] for name in self._names]
        elif len(X) == len(self.schema.columns):
            given = [values[place] for place in self._used]
        if given and _PLAIN.issuperset(map(type, values)):
            return self._read_row(given, X)
        sizes = {len(cells) if type(cells) is list else 0 for cells in values}
        if given and len(sizes) == 1 and 0 not in sizes and all(_PLAIN.issuperset(map(type, each)) for each in given):
            cells = [each.of_list(column) for each, column in zip(self._inputs, given, strict=True)]
            return self._reading(cells, X, None, lambda place, row: given[place][row])
        return self._read_frame(_frame_of(X), None)

    def _read_row(self, given: Sequence[Any], X: Mapping[Any, Any]) -> ReadRows:
        feeds: Feeds = {}
        numbers, unlike = [], {}
        for place, (each, cell) in enumerate(zip(self._inputs, given, strict=True)):
            value, state = each.read(cell)
            is_like = each.low <= value <= each.high if state == _KNOWN else state == _MISSING and each.had_missing
            if not is_like:
                found = each.compare(Cells(np.array([value]), np.array([state], np.int8)))
                if found is not None:
                    unlike[place] = found
                if state == _UNKNOWN and (each.texts is None or value < 0):
                    value = each.unknown
            if each.is_number:
                numbers.append(value)
            else:
                feeds[each.name] = np.array([[value]]) if each.texts is None else each.text_rows[value]  # (row, 1)
        comparison = self._like_training
        if unlike:
            comparison = CellComparison(self.schema.used, 1, unlike, lambda place, _: given[place])
        if self.schema.matrix is not None:
            return ReadRows(self._matrix(np.array([numbers])), comparison, X)
        feeds.update(zip(self._number_names, np.array(numbers)[:, None, None], strict=True))
        return ReadRows(feeds, comparison, X)

    def _read_arrow(self, table: Any, columns: Mapping[Any, str], index: Any) -> ReadRows:
        if len(table) == 0:
            raise ValueError(f"X must have at least one row, got shape {table.shape}")
        self._check_names(table.column_names, columns.values())
        given = [table.column(columns[name]) for name in self._names]
        cells = [each.column.codec.of_arrow(column) for each, column in zip(self._inputs, given, strict=True)]
        return self._reading(cells, table, index, lambda place, row: given[place][row].as_py())

    def _read_array(self, X: Any) -> ReadRows:
        values = np.asarray(X)
        if values.dtype.kind not in "fiub" and not isinstance(X, np.ma.MaskedArray):
            from recuse.tabular.rows import as_table  # text among the cells

            table = as_table(X)
            if is_frame(table):
                return self._read_frame(self._named(table), None)
            values = np.asarray(table)
        numbers = unmasked(X) if isinstance(X, np.ma.MaskedArray) else values.astype(np.float64, copy=False)
        if numbers.ndim != 2 or 0 in numbers.shape:
            raise ValueError(f"X must have rows and columns, got shape {numbers.shape}")
        self._check_width(numbers.shape[1])
        if self._all_numbers:
            return self._read_numbers(numbers, numbers, None)
        import pandas as pd

        return self._read_frame(self._named(pd.DataFrame(numbers)), None)

    def _named(self, table: Any) -> Any:
        """Return a table with the names of the schema."""
        self._check_width(table.shape[1])
        return table.set_axis([column.name for column in self.schema.columns], axis=1)

    def _check_width(self, width: int) -> None:
        if width != len(self.schema.columns):
            raise ValueError(f"X must have {len(self.schema.columns)} columns, as in training, got {width}")

    def _read_numbers(self, values: Floats, table: Any, index: Any) -> ReadRows:
        """Read a table (row, column) of numbers only."""
        within, unlike = (values >= self._low) & (values <= self._high), {}
        if not within.all():
            for place in np.flatnonzero(~within.all(axis=0)).tolist():
                cells = Cells(values[:, place], np.isnan(values[:, place]).view(np.int8))
                found = Unlike.of(self.schema.columns[place], cells)
                if found is not None:
                    unlike[place] = found
        comparison = CellComparison(self.schema.used, len(values), unlike, lambda place, row: values[row, place])
        if self.schema.matrix is not None:
            return ReadRows({self.schema.matrix: np.ascontiguousarray(values)}, comparison, table, index)
        columns = np.ascontiguousarray(values.T)[:, :, None]  # (column, row, 1)
        feeds = {each.name: columns[place] for place, each in enumerate(self._inputs)}
        return ReadRows(feeds, comparison, table, index)

    def _read_frame(self, table: Any, index: Any) -> ReadRows:
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
                return self._read_numbers(values.astype(np.float64, copy=False), table, index)
        series = [frame[name] for name in self._names]
        cells = [each.column.codec.of_series(column) for each, column in zip(self._inputs, series, strict=True)]
        return self._reading(cells, table, index, lambda place, row: series[place].iloc[row])

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

    def _reading(self, cells: Sequence[Cells], table: Any, index: Any, cell_at: Callable[[int, int], Any]) -> ReadRows:
        feeds, unlike = {}, {}
        for place, (each, read) in enumerate(zip(self._inputs, cells, strict=True)):
            found = each.compare(read)
            feeds[each.name] = each.feed(read, found)
            if found is not None:
                unlike[place] = found
        count = len(cells[0].values) if cells else len(table)
        comparison = CellComparison(self.schema.used, count, unlike, cell_at)
        if self.schema.matrix is not None:
            feeds = self._matrix(np.concatenate(list(feeds.values()), axis=1))
        return ReadRows(feeds, comparison, table, index)

    def _matrix(self, values: Floats) -> Feeds:
        """Return the values (row, used column) of a table without names; columns that are not used are NaN."""
        assert self.schema.matrix is not None
        if len(self._inputs) == len(self.schema.columns):
            return {self.schema.matrix: values}
        matrix = np.full((len(values), len(self.schema.columns)), np.nan)
        matrix[:, self._used] = values
        return {self.schema.matrix: matrix}

    def _check(self, found: CellComparison, index: Any, warn: bool, source: str) -> None:
        """Raise an error for infinite numbers and, if the model refuses them, for new categories and missing values."""
        for place, each in found.unlike.items():
            infinite = np.zeros(1, np.bool_) if each.numbers is None else np.isinf(each.numbers)
            if each.numbers is not None and infinite.any():
                row, of_source = int(infinite.argmax()), f" of {source}" if source else ""
                raise ValueError(
                    f"column {found.columns[place].name!r}{of_source} must be finite, got {each.numbers[row]} at "
                    f"{row_name(row, index)}"
                )
        for place, each in found.unlike.items():
            column, cells = found.columns[place], Cells(each.codes, each.codes)
            if self.schema.unseen == "error":
                from recuse.tabular.encoder import check_seen

                check_seen(column, cells, partial(found.cell_at, place), index)
            if warn and column.kind == Kind.NUMBER and cells.unknown.any():
                column.warn_of_text(cells.unknown, found.cell_at(place, int(cells.unknown.argmax())))


class _ColumnInput:
    """Cells of one column as an input of the graph.

    Attributes
    ----------
    column : Column
    name : str
        Name of the input.
    is_number, had_missing : bool
    read : callable
        Returns the value and the state of one cell.
    low, high : float
        Values of the codec between them are like those of training; infinite for categories.
    texts : ndarray of object of shape (text, 1), or None
        Inputs by position among the levels, and the last two for unknown and for missing cells; None for numbers and
        dates, which are inputs themselves.
    unknown : float or int
        The value that stands for a cell that the column cannot hold.
    """

    def __init__(self, column: Column) -> None:
        self.column, self.name, self.had_missing = column, input_name(column), column.had_missing
        self.read, self.is_number = column.codec.of_scalar, column.kind == Kind.NUMBER
        (self.low, self.high), self.texts, self.unknown = range_of(column), None, np.inf
        if column.kind == Kind.DATE:
            self.low, self.high = 1e6 * self.low + _ROUNDED, 1e6 * self.high - _ROUNDED
            self.unknown = UNKNOWN_TIME
        elif column.kind == Kind.CATEGORY:
            texts = [*(level.text for level in column.levels), unknown_text(column), missing_text(column)]
            self.texts, self.unknown = np.array(texts, dtype=object)[:, None], -2
            self.text_rows = [self.texts[place : place + 1] for place in range(len(texts))]

    def of_list(self, cells: list[Any]) -> Cells:
        """Read plain values."""
        kinds = set(map(type, cells))
        if self.is_number and kinds <= {float, int}:
            values = np.array(cells, np.float64)
            return Cells(values, np.isnan(values).view(np.int8))
        if kinds <= {str, type(None)}:
            return self.column.codec.of_text(cells)
        if self.column.kind == Kind.DATE and str in kinds:
            import pandas as pd

            return self.column.codec.of_series(pd.Series(cells, dtype=object))
        read, states = zip(*map(self.read, cells), strict=True)
        return Cells(np.array(read), np.array(states, np.int8))

    def compare(self, cells: Cells) -> Unlike | None:
        """Compare cells with the training rows; return None if none is unlike them."""
        is_like = (
            self.low <= cells.values.min() and cells.values.max() <= self.high  # not for NaN, and times that are none
            if self.texts is None
            else not cells.state.any()
        )
        return None if is_like else Unlike.of(self.column, cells)

    def feed(self, cells: Cells, unlike: Unlike | None) -> NDArray[Any]:
        """Return the inputs (row, 1) of compared cells."""
        values = cells.values
        if unlike is not None and cells.unknown.any():
            values = np.where(cells.unknown & ((values < 0) | (self.texts is None)), self.unknown, values)
        return values[:, None] if self.texts is None else np.asarray(self.texts[values])


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
