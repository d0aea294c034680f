"""Limits of the rows and cells of one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recuse.serving.errors import RequestError

__all__ = ["RowLimits"]

_BLOCK = 2**16  # bytes that are looked at in one go, so that other threads need not wait
_COLUMNS = 20_000  # names and tensors that a body may have beside its rows
_TEXT = 2**17  # bytes of one text, as in a cell of CSV
_QUOTE = ord('"')
_COLON = ord(":")
_BRACE, _VALUE = np.isin(np.arange(256), list(b"{}")), np.isin(np.arange(256), list(b"{[,:"))


@dataclass(frozen=True)
class RowLimits:
    """How many rows and cells one request may have.

    Attributes
    ----------
    rows : int
    cells : int
        Rows times columns of the table that a model reads.

    Examples
    --------
    >>> RowLimits(rows=3, cells=100).check(4, 7)
    Traceback (most recent call last):
    recuse.serving.errors.RequestError: a request may have at most 3 rows, got 4
    """

    rows: int
    cells: int

    @property
    def objects(self) -> int:
        """The number of JSON objects in one body."""
        return self.rows + _COLUMNS

    def check(self, rows: int, columns: int) -> None:
        """Raise a RequestError for a table with too many rows or cells."""
        if rows > self.rows:
            raise RequestError(413, f"a request may have at most {self.rows} rows, got {rows}")
        if rows * columns > self.cells:
            got = f"{rows} rows of {columns} columns"
            raise RequestError(413, f"a request may have at most {self.cells} cells, got {got}")

    def check_cells(self, cells: int) -> None:
        """Raise a RequestError for too many cells of all tensors together."""
        if cells > self.cells + self.rows:  # with a cost for each row
            raise RequestError(413, f"a request may have at most {self.cells} cells, got {cells} in its tensors")

    def check_json(self, body: bytes) -> None:
        """Raise a RequestError for a body with more values than any request needs, before these are made.

        A value takes many times the memory of its text. Each one follows a brace, a bracket, a comma or a colon.
        """
        most = 2 * self.cells + 4 * self.rows + _COLUMNS
        found = _measure(body)
        if found.values > most:
            rule = f"a request may have at most {self.rows} rows and {self.cells} cells"
            raise RequestError(413, f"{rule}, got about {found.values} values")
        if found.names > _COLUMNS:
            raise RequestError(413, f"a row may have at most {_COLUMNS} columns, got {found.names}")
        if found.text > _TEXT:
            raise RequestError(413, f"a text may have at most {_TEXT} bytes, got {found.text}")


class _Measured(NamedTuple):
    """Sizes in a text of JSON: about how many values, names of the largest object, and bytes of the longest text."""

    values: int
    names: int
    text: int


def _measure(body: bytes) -> _Measured:
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in body else body
    values, names, text = 0, 0, 0
    inside, run, last = False, 0, -1  # in a text; names since the last brace; the last byte outside of texts
    for start in range(0, len(bare), _BLOCK):
        block = np.frombuffer(bare, np.uint8, min(_BLOCK, len(bare) - start), start)
        in_text = np.logical_xor.accumulate(block == _QUOTE) ^ inside
        inside = bool(in_text[-1])
        places = np.flatnonzero(~in_text)
        gaps = np.diff(places + start, prepend=last, append=start + len(block))
        text, last = max(text, int(gaps.max()) - 2), start + int(places[-1]) if len(places) else last
        block = block[places]
        values += int(np.count_nonzero(_VALUE[block]))
        colons = np.cumsum(block == _COLON)
        runs = np.diff(colons[_BRACE[block]], prepend=-run, append=colons[-1] if len(colons) else 0)
        names, run = max(names, int(runs.max())), int(runs[-1])
    return _Measured(values, names, text)
