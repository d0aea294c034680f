"""Bodies of requests as text and as values of JSON, and the limits of what they may hold."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from recuse.serving.errors import RequestError, shown

__all__ = ["RowLimits", "decode_text", "parse_json"]

_MOST_DIGITS = 400
_MOST_WIDE = 2**22  # bytes of a text with characters beyond U+FFFF: one of them makes all take four bytes of memory
_FOUR_BYTES = 0xF0  # first byte of such a character in UTF-8
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
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


def parse_json(body: bytes, *, nan_is_missing: bool = False, limits: RowLimits | None = None) -> Any:
    """Parse JSON with different names in each object; NaN, which some clients write, is an error or a missing value.

    With `limits`, a body that has too many values or objects is refused before it takes much memory.

    Examples
    --------
    >>> parse_json(b'{"row": {"weight": 3000}}')
    {'row': {'weight': 3000}}
    """
    decoder = _LENIENT if nan_is_missing else _STRICT
    large = limits is not None and len(body) > limits.objects  # a smaller one cannot have that many
    if limits is not None and large:
        limits.check_json(body)
        decoder = _decoder(decoder.parse_constant, _ObjectCount(limits), _bounded_int)
    try:
        with _no_collections() if large else nullcontext():
            parsed = decoder.decode(decode_text(body))
    except RecursionError as error:
        raise RequestError(400, "the body must be JSON: nested too deeply") from error
    except json.JSONDecodeError as error:
        raise RequestError(400, f"the body must be JSON: {error!s:.200}") from error
    except ValueError as error:  # of int, whose message is about Python
        most = sys.get_int_max_str_digits()
        raise RequestError(400, f"the body must be JSON: a whole number has more than {most} digits") from error
    if _SURROGATE.search(body):
        _check_text(parsed)
    return parsed


def decode_text(body: bytes) -> str:
    """Return the text of a body in UTF-8, with or without a byte order mark."""
    if len(body) > _MOST_WIDE and np.frombuffer(body, np.uint8).max() >= _FOUR_BYTES:
        raise RequestError(413, f"a body with characters such as emoji may have at most {_MOST_WIDE} bytes")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"{error.object[error.start]:#04x} at position {error.start}"
        raise RequestError(400, f"the body must be text in UTF-8, got the byte {found}") from error


def _check_text(parsed: Any) -> None:
    """Raise a RequestError for a text with half of a surrogate pair, which UTF-8 cannot hold."""
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        found = rf"\u{ord(error.object[error.start]):04x}"
        raise RequestError(400, f"texts must be Unicode, got half of a surrogate pair, {found}") from error


def _no_constant(constant: str) -> Any:
    raise RequestError(400, f"the body must be JSON: {constant} is not a number of JSON, use null for a missing value")


def _missing(constant: str) -> Any:
    return None if constant == "NaN" else _no_constant(constant)


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise a RequestError if it has a name twice, since a parser would keep only one value."""
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = ""
        for name, _ in pairs:
            twice = name if name in seen else twice
            seen.add(name)
        raise RequestError(400, f"the body must be JSON with different names in each object, got {shown(twice)} twice")
    return made


class _ObjectCount:
    """Makes objects of JSON, and stops the parser when there are too many."""

    def __init__(self, limits: RowLimits) -> None:
        self._limits, self._left = limits, limits.objects

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            most = self._limits
            raise RequestError(
                413, f"a request may have at most {most.rows} rows, got more than {most.objects} objects"
            )
        return _different(pairs)


def _bounded_int(digits: str) -> int:
    """Return a whole number; a long one takes long to convert, and is too large for every column."""
    if len(digits) > _MOST_DIGITS:
        raise RequestError(422, "numbers must be below 1.8e308 in size, got a larger one")
    return int(digits)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep Python from looking for garbage among the values that are made, which takes longer than to make them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _decoder(parse_constant: Any, make_object: Any, parse_int: Any = None) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=parse_constant, object_pairs_hook=make_object, parse_int=parse_int)


_STRICT = _decoder(_no_constant, _different)  # made once: that takes longer than to parse a row
_LENIENT = _decoder(_missing, _different)
