"""Conversion of a user's table or images to the inputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import is_frame, row_name, to_pandas, unmasked
from recuse.model_file.schema import (
    MISSING_TIME,
    UNKNOWN_TIME,
    ColumnSchema,
    ImageSchema,
    TableSchema,
    free_text,
    level_text,
)

__all__ = ["Feeds", "ImageReader", "TableReader"]

Floats = NDArray[np.float64]
Feeds = dict[str, NDArray[Any]]


class TableReader:
    """Reads tables as a schema describes them.

    Columns are found by name if both tables have names, else by position. Other columns are ignored.

    Parameters
    ----------
    schema : TableSchema
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self._used = [column for column in schema.columns if column.kind != "unused"]
        self._names = [column.name for column in self._used]
        self._all_numbers = all(column.kind == "number" for column in schema.columns)
        self._texts = {column.name: _Texts(column) for column in self._used if column.kind == "category"}
        self._checked: Any = None  # the labels of the last table, if they are those of the schema in the same order

    def read(self, X: Any, *, warn: bool = True) -> Feeds:
        """Return one array for each input of the graph.

        Parameters
        ----------
        X : array-like, DataFrame of any library, or mapping of column names to values
        warn : bool, default=True
            Whether to warn of text in columns of numbers.
        """
        table = self.table_of(X)
        return self._read_frame(table, warn) if is_frame(table) else self._read_array(table, warn)

    def table_of(self, X: Any) -> Any:
        """Return tables of any library, and mappings, as a pandas DataFrame; other values as they are."""
        return to_pandas(_frame_of(X) if isinstance(X, Mapping) else X)

    def _read_array(self, X: Any, warn: bool) -> Feeds:
        values = np.asarray(X)
        if values.dtype.kind not in "fiub" and not isinstance(X, np.ma.MaskedArray):
            from recuse.tabular.table import as_table  # text among the cells

            table = as_table(X)
            if is_frame(table):
                return self._read_frame(table.set_axis(self._all_names(table.shape[1]), axis=1), warn)
            values = np.asarray(table)
        numbers = unmasked(X) if isinstance(X, np.ma.MaskedArray) else values.astype(np.float64, copy=False)
        if numbers.ndim != 2 or 0 in numbers.shape:
            raise ValueError(f"X must have rows and columns, got shape {numbers.shape}")
        names = self._all_names(numbers.shape[1])
        if self._all_numbers:
            return self._feeds_of_numbers(numbers)
        import pandas as pd

        return self._read_frame(pd.DataFrame(numbers, columns=names), warn)

    def _all_names(self, width: int) -> list[str | int]:
        """Return the names of all columns, for a table of this width without names."""
        self._check_width(width)
        return [column.name for column in self.schema.columns]

    def _check_width(self, width: int) -> None:
        if width != len(self.schema.columns):
            raise ValueError(f"X must have {len(self.schema.columns)} columns, as in training, got {width}")

    def _feeds_of_numbers(self, values: Floats, index: Any = None) -> Feeds:
        """Return the inputs for a table (row, column) of numbers only; `index` has the labels of the rows."""
        if np.isinf(values).any():
            row, place = np.argwhere(np.isinf(values))[0]
            name = self.schema.columns[place].name
            raise ValueError(f"column {name!r} must be finite, got {values[row, place]} at {row_name(int(row), index)}")
        if self.schema.unseen == "error":
            for place, column in enumerate(self.schema.columns):
                _check_gaps(column, np.isnan(values[:, place]), index)
        if self.schema.matrix is not None:
            return {self.schema.matrix: np.ascontiguousarray(values)}
        by_column = np.ascontiguousarray(values.T)[:, :, None]  # (column, row, 1)
        return {column.input: by_column[place] for place, column in enumerate(self._used)}

    def _read_frame(self, frame: Any, warn: bool) -> Feeds:
        if len(frame) == 0:
            raise ValueError(f"X must have at least one row, got shape {frame.shape}")
        named = self.schema.matrix is None
        in_order = not named or frame.columns.is_(self._checked)  # True for the rows of one table, one by one
        if not in_order:
            in_order = self._check_names(frame)
        elif not named:
            self._check_width(frame.shape[1])
        if self._all_numbers:
            values = (frame if in_order else frame[self._names]).to_numpy()
            if values.dtype.kind in "fiu":
                return self._feeds_of_numbers(values.astype(np.float64, copy=False), frame.index)
        if not named:
            frame = frame.set_axis([column.name for column in self.schema.columns], axis=1)
        if named:
            return {column.input: self._read_column(column, frame[column.name], warn) for column in self._used}
        assert self.schema.matrix is not None
        matrix = np.full((len(frame), len(self.schema.columns)), np.nan)
        for place, column in enumerate(self.schema.columns):
            if column.kind != "unused":
                matrix[:, place] = self._read_column(column, frame[column.name], warn)[:, 0]
        return {self.schema.matrix: matrix}

    def _check_names(self, frame: Any) -> bool:
        """Check that the table has the columns; return whether it has no others and they are in order."""
        absent = [name for name in self._names if name not in frame.columns]
        if absent:
            more = "" if len(absent) == 1 else f" and {len(absent) - 1} more"
            raise ValueError(
                f"X must have the column {absent[0]!r}{more}, as in training, got columns {list(frame.columns)!r:.300}"
            )
        if frame.columns.has_duplicates:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ValueError(f"column names must be unique, got {twice!r} more than once")
        in_order = list(frame.columns) == self._names
        if in_order:
            self._checked = frame.columns
        return in_order

    def _read_column(self, column: ColumnSchema, cells: Any, warn: bool) -> NDArray[Any]:
        """Return the cells (row, 1) of one column."""
        from recuse.tabular.columns import Cells, warn_of_text
        from recuse.tabular.encoder import raise_if_unseen

        values, unknown, gap = _READERS[column.kind](column, cells, self._texts.get(column.name))
        if warn and column.kind == "number" and unknown.any():
            warn_of_text(cells, unknown, "had only numbers in training and now holds")
        if self.schema.unseen == "error":
            new_gap = gap & (not column.had_missing)
            raise_if_unseen(column, cells, Cells(np.zeros(0), unknown, new_gap))
        return values[:, None]


class ImageReader:
    """Reads images of one size.

    Parameters
    ----------
    schema : ImageSchema
    """

    def __init__(self, schema: ImageSchema) -> None:
        self.schema = schema

    def table_of(self, X: Any) -> Any:
        """Return images as an array."""
        return np.asarray(X)

    def read(self, X: Any, *, warn: bool = True) -> Feeds:
        """Return images (row, channel, height, width) as floats; bytes are scaled to [-1, 1]."""
        images = np.asarray(X)
        if images.ndim != 4 or images.shape[1:] != self.schema.shape or len(images) == 0:
            expected = ", ".join(map(str, self.schema.shape))
            raise ValueError(f"images must have shape (n, {expected}), as in training, got {images.shape}")
        if images.dtype == np.uint8:
            return {"image": images.astype(np.float32) / np.float32(127.5) - np.float32(1)}
        if images.dtype.kind != "f":
            raise ValueError(f"images must be uint8 (0 to 255) or floats, got {images.dtype}")
        if not np.isfinite(images).all():
            row = int(np.argmin(np.isfinite(images).all(axis=(1, 2, 3))))
            raise ValueError(f"images must be finite, got NaN or infinity in row {row}")
        return {"image": np.ascontiguousarray(images, dtype=np.float32)}


def _read_numbers(
    column: ColumnSchema, cells: Any, _: Any
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    from recuse.tabular.cells import check_finite, read_numbers

    values, text = read_numbers(cells)
    check_finite(cells, values)
    if column.had_text:
        text = np.zeros_like(text)
    return np.where(text, np.inf, values), text, np.isnan(values) & ~text


def _read_dates(column: ColumnSchema, cells: Any, _: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    from recuse.tabular.cells import read_dates

    times, unknown = read_dates(cells, column.zone)
    values = times.astype(np.int64)
    values[unknown] = UNKNOWN_TIME
    return values, unknown, (values == MISSING_TIME)


def _read_categories(
    column: ColumnSchema, cells: Any, texts: Any
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    from recuse.tabular.cells import read_levels

    codes, levels = read_levels(cells)
    found = [texts.of(level) for level in levels]
    unknown = np.array([*(text == texts.unknown or text in texts.unseen for text in found), False])[codes]
    return np.array([*found, column.missing], dtype=object)[codes], unknown, codes < 0


_READERS = {"number": _read_numbers, "date": _read_dates, "category": _read_categories}


class _Texts:
    """Texts of the categories of a column for the graph.

    Attributes
    ----------
    by_value : dict
        Texts by value.
    others : set of str
        Texts of values that JSON does not have.
    unseen : set of str
        Texts of categories without training rows.
    unknown : str
        A text that is no category.
    """

    def __init__(self, column: ColumnSchema) -> None:
        self.by_value = {level.value: level.text for level in column.levels if level.value is not None}
        self.others = {level.text for level in column.levels if level.value is None}
        self.unseen = {level.text for level in column.levels if not level.seen}
        self.unknown = free_text([*(level.text for level in column.levels), column.missing], "\1")

    def of(self, value: Any) -> str:
        """Return the text of a value, or `unknown`."""
        text = self.by_value.get(value)
        if text is None and self.others and not isinstance(value, str):
            text = level_text(value) if level_text(value) in self.others else None
        return self.unknown if text is None else text


def _check_gaps(column: ColumnSchema, gap: NDArray[np.bool_], index: Any) -> None:
    if not column.had_missing and gap.any():
        import pandas as pd

        from recuse.tabular.columns import Cells
        from recuse.tabular.encoder import raise_if_unseen

        none = np.zeros(len(gap), np.bool_)
        raise_if_unseen(column, pd.Series(np.where(gap, np.nan, 0.0), index), Cells(np.zeros(0), none, gap))


def _frame_of(columns: Mapping[Any, Any]) -> Any:
    import pandas as pd

    scalar = all(np.ndim(values) == 0 for values in columns.values())
    return pd.DataFrame({name: [value] if scalar else value for name, value in columns.items()})
