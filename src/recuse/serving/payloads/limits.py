"""Limits of the rows and cells of one request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recuse.serving.errors import RequestError

__all__ = ["RowLimits"]

_BLOCK = 2**16  # bytes that are looked at in one go, so that other threads need not wait
_COLUMNS = 20_000  # names and tensors that a body may have beside its rows
_QUOTE = ord('"')
_STRUCTURE = np.zeros(256, np.bool_)
_STRUCTURE[list(b"{[,:")] = True


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
        if (found := _count_structure(body)) > most:
            raise RequestError(
                413, f"a request may have at most {self.rows} rows and {self.cells} cells, got about {found} values"
            )


def _count_structure(body: bytes) -> int:
    """Count braces, brackets, commas and colons of JSON outside of texts."""
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in body else body
    inside, count = False, 0
    for start in range(0, len(bare), _BLOCK):
        block = np.frombuffer(bare, np.uint8, min(_BLOCK, len(bare) - start), start)
        text = np.logical_xor.accumulate(block == _QUOTE) ^ inside
        count += int(np.count_nonzero(_STRUCTURE[block] & ~text))
        inside = bool(text[-1])
    return count
