"""Conversion of one row, given as a mapping, to the inputs of a graph without a DataFrame."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.schema import MISSING_TIME, ColumnSchema, TableSchema

__all__ = ["FALLBACK", "RowReader", "read_plain_date"]

FALLBACK = object()  # a cell that only a table can read
_PLAIN = frozenset({float, int, str, bool, type(None)})
_ISO_TIME = re.compile(r"(?!0000)\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", re.ASCII)
_MAX_INT = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Feeds = dict[str, NDArray[Any]]
CellReader = Callable[[Any], Any]


class RowReader:
    """Reads one row as a table of one row would be read.

    Parameters
    ----------
    schema : TableSchema
    category_texts : mapping of (str or int) to callable
        By name of a column of categories: from a value to its text in the graph.
    read_column : callable
        Reads a cell that has no short way, as a column of one cell: `read_column(column, cell, warn)`.
    """

    def __init__(
        self,
        schema: TableSchema,
        category_texts: Mapping[str | int, Callable[[Any], str]],
        read_column: Callable[[ColumnSchema, Any, bool], NDArray[Any]],
    ) -> None:
        self._matrix = schema.matrix
        self._read_column = read_column
        self._steps = [
            (column.name, column.input, _cell_reader(column, category_texts), _DTYPES[column.kind], column)
            for column in _used(schema)
        ]
        only_numbers = all(column.kind == "number" for column in schema.columns)
        self._usable = schema.unseen != "error" and (schema.matrix is None or only_numbers)

    def read(self, row: Mapping[Any, Any], *, warn: bool) -> Feeds | None:
        """Return the inputs of the graph, or None if only a table can read the row, for instance to raise an error.

        Parameters
        ----------
        row : mapping of column names to values
        warn : bool
            Whether to warn of text in columns of numbers.
        """
        if not self._usable or not all(type(cell) in _PLAIN for cell in row.values()):
            return None
        return self._by_name(row, warn) if self._matrix is None else self._by_position(row, warn)

    def _by_name(self, row: Mapping[Any, Any], warn: bool) -> Feeds | None:
        feeds: Feeds = {}
        for name, graph_input, read, dtype, column in self._steps:
            if name not in row:
                return None
            value = read(row[name])
            if value is FALLBACK:
                feeds[graph_input] = self._read_column(column, row[name], warn)
            else:
                feeds[graph_input] = np.array([[value]], dtype)  # (row, 1)
        return feeds

    def _by_position(self, row: Mapping[Any, Any], warn: bool) -> Feeds | None:
        if len(row) != len(self._steps):
            return None
        assert self._matrix is not None
        values = np.empty((1, len(row)))
        for place, (cell, (_, _, read, _, column)) in enumerate(zip(row.values(), self._steps, strict=True)):
            value = read(cell)
            values[0, place] = self._read_column(column, cell, warn)[0, 0] if value is FALLBACK else value
        return {self._matrix: values}


_DTYPES: Mapping[str, Any] = {"number": np.float64, "date": np.int64, "category": object}


def _used(schema: TableSchema) -> tuple[ColumnSchema, ...]:
    return tuple(column for column in schema.columns if column.kind != "unused")


def _cell_reader(column: ColumnSchema, texts: Mapping[str | int, Callable[[Any], str]]) -> CellReader:
    if column.kind == "category":
        return _category_reader(texts[column.name], column.missing)
    return _read_number if column.kind == "number" else read_plain_date


def _read_number(cell: Any) -> Any:
    kind = type(cell)
    if kind is float:
        return FALLBACK if math.isinf(cell) else cell
    if kind is int:
        return float(cell) if -_MAX_INT <= cell < _MAX_INT else FALLBACK
    if cell is None:
        return math.nan
    return float(cell) if kind is bool else FALLBACK


def read_plain_date(cell: Any) -> Any:
    """Return microseconds since 1970 of a date or time in the usual form and without a zone.

    Parameters
    ----------
    cell : object

    Returns
    -------
    int or FALLBACK
        `MISSING_TIME` for None, and FALLBACK for anything else than such a text.

    Examples
    --------
    >>> read_plain_date("1970-01-02")
    86400000000
    """
    if cell is None:
        return MISSING_TIME
    if type(cell) is not str or not _ISO_TIME.fullmatch(cell):
        return FALLBACK
    try:
        moment = datetime.fromisoformat(cell).replace(tzinfo=UTC)
    except ValueError:  # such as the 30th of February
        return FALLBACK
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def _category_reader(text_of: Callable[[Any], str], missing: str) -> CellReader:
    def read(cell: Any) -> Any:
        if type(cell) is str and not cell.isascii() and not _is_unicode(cell):
            return FALLBACK
        return missing if cell is None or cell != cell else text_of(cell)

    return read


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; a part of a surrogate pair cannot."""
    return text.encode("utf-8", errors="ignore").decode("utf-8") == text
