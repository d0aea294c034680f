"""Rows of any table as plain values for JSON, and their digests."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from recuse.dataframes import to_pandas

__all__ = ["RowSource", "digest_of", "is_name", "json_text", "plain_cell"]


class RowSource:
    """Gives single rows of a table as dictionaries of plain values.

    Parameters
    ----------
    table : DataFrame of any library, mapping of columns, sequence of mappings, or array of shape (n_rows, n_columns)
    names : sequence of str or int
        Names of the columns of an array.

    Examples
    --------
    >>> RowSource({"weight": [3.0, float("nan")], "origin": ["us", "eu"]}, []).row(1)
    {'weight': None, 'origin': 'eu'}
    >>> RowSource([{"weight": 3.0}], []).row(0)
    {'weight': 3.0}
    """

    def __init__(self, table: Any, names: Sequence[str | int]) -> None:
        self._records: Any = None
        self._columns: dict[str, Any] = {}
        if isinstance(table, Mapping):
            self._columns = {str(name): cells for name, cells in table.items()}
            if all(np.ndim(cells) == 0 for cells in table.values()):
                self._records = [table]
        elif isinstance(table, Sequence) and len(table) > 0 and isinstance(table[0], Mapping):
            self._records = table
        elif hasattr(frame := to_pandas(table), "columns"):
            self._columns = {str(name): frame.iloc[:, place].to_numpy() for place, name in enumerate(frame.columns)}
        else:
            cells = np.asarray(table)
            if cells.ndim != 2:
                raise ValueError(f"the review queue holds rows of tables, got an array of shape {cells.shape}")
            self._columns = {str(name): column for name, column in zip(names, cells.T, strict=True)}

    def row(self, place: int) -> dict[str, Any]:
        """Return one row."""
        if self._records is not None:
            return {str(name): plain_cell(cell) for name, cell in self._records[place].items()}
        return {name: plain_cell(column[place]) for name, column in self._columns.items()}


def plain_cell(cell: Any) -> str | int | float | bool | None:
    """Return a cell as JSON can hold it; missing values become None, other objects text.

    Examples
    --------
    >>> import datetime
    >>> plain_cell(float("nan")), plain_cell(np.int64(3)), plain_cell(datetime.date(2024, 5, 1))
    (None, 3, '2024-05-01')
    """
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else str(cell)
    value = cell.item() if isinstance(cell, np.generic) else cell
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | bool):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def json_text(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def digest_of(row: Mapping[str, Any]) -> bytes:
    """Return a digest of a row; neither the order of its columns nor the type of equal numbers matters.

    Examples
    --------
    >>> digest_of({"a": 3, "b": "x"}) == digest_of({"b": "x", "a": 3.0})
    True
    """
    same = {name: int(cell) if isinstance(cell, float) and cell.is_integer() else cell for name, cell in row.items()}
    return hashlib.sha256(json.dumps(same, sort_keys=True, allow_nan=False).encode()).digest()[:16]


def is_name(value: Any, most: int) -> bool:
    """Whether a value is a text of 1 to `most` characters that SQLite can store.

    Examples
    --------
    >>> is_name("order 17", 200), is_name("", 200)
    (True, False)
    """
    if not isinstance(value, str) or not 0 < len(value) <= most:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)
