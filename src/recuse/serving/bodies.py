"""From the body of a request to rows: JSON and CSV within limits, and rows as columns of the model."""

from __future__ import annotations

import csv
import gc
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from recuse.phrases import short
from recuse.serving.messages import RequestError, shown
from recuse.serving.model_store import LoadedModel
from recuse.tabular.codecs import State
from recuse.tabular.schema import Column, Kind, TableSchema

_MOST_WIDE = 2**22  # bytes of a text with characters beyond U+FFFF: one of them makes all take four bytes of memory
_FOUR_BYTES = 0xF0  # first byte of such a character in UTF-8
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_BLOCK = 2**16  # bytes that are looked at in one go, so that other threads need not wait
_COLUMNS = 20_000  # names and tensors that a body may have beside its rows
_TEXT = 2**17  # bytes of one text, as in a cell of CSV
_QUOTE, _COLON, _BRACE = b'":{'
_IS_BRACE, _IS_VALUE = np.isin(np.arange(256), list(b"{}")), np.isin(np.arange(256), list(b"{[,:"))
_PLAIN = frozenset({float, int, str, bool, type(None)})
_COST = Column("cost", Kind.NUMBER)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SHOWN = 5  # names in an error
_MOST_CHARACTERS = 60  # a name in an error is cut after as many


class _Measured(NamedTuple):
    """Sizes in a text of JSON: values (about), objects, all names, names of the largest object, longest text."""

    values: int
    objects: int
    names: int
    widest: int
    text: int


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
    recuse.serving.messages.RequestError: a request may have at most 3 rows, got 4
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

    def check_json(self, found: _Measured) -> None:
        """Raise a RequestError for a body with more values than any request needs, before these are made."""
        limits = f"a request may have at most {self.rows} rows and {self.cells} cells"
        for most, size, sentence in (
            (2 * self.cells + 4 * self.rows + _COLUMNS, found.values, f"{limits}, got about {found.values} values"),
            (self.objects, found.objects, f"{limits}, got {found.objects} objects"),
            (_COLUMNS, found.widest, f"a row may have at most {_COLUMNS} columns, got {found.widest}"),
            (_TEXT, found.text, f"a text may have at most {_TEXT} bytes, got {found.text}"),
        ):
            if size > most:
                raise RequestError(413, sentence)


def _measure(body: bytes) -> _Measured:
    """Look through a text of JSON for what makes values, which take many times the memory of their text.

    Each value follows a brace, a bracket, a comma or a colon.
    """
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in body else body
    values, objects, names, widest, text = 0, 0, 0, 0, 0
    inside, run, last = False, 0, -1  # in a text; names since the last brace; the last byte outside of texts
    for start in range(0, len(bare), _BLOCK):
        block = np.frombuffer(bare, np.uint8, min(_BLOCK, len(bare) - start), start)
        in_text = np.logical_xor.accumulate(block == _QUOTE) ^ inside
        inside = bool(in_text[-1])
        places = np.flatnonzero(~in_text)
        gaps = np.diff(places + start, prepend=last, append=start + len(block))
        text, last = max(text, int(gaps.max()) - 2), start + int(places[-1]) if len(places) else last
        block = block[places]
        values += int(np.count_nonzero(_IS_VALUE[block]))
        objects += int(np.count_nonzero(block == _BRACE))
        colons = np.cumsum(block == _COLON)
        in_block = int(colons[-1]) if len(colons) else 0
        runs = np.diff(colons[_IS_BRACE[block]], prepend=-run, append=in_block)
        names, widest, run = names + in_block, max(widest, int(runs.max())), int(runs[-1])
    return _Measured(values, objects, names, widest, text)


def parse_json(body: bytes, *, nan_is_missing: bool = False, limits: RowLimits | None = None) -> Any:
    """Parse JSON with different names in each object; NaN, which some clients write, is an error or a missing value.

    With `limits`, a body that has too many values or objects is refused before it takes much memory.

    Examples
    --------
    >>> parse_json(b'{"row": {"weight": 3000}}')
    {'row': {'weight': 3000}}
    """
    text = _decoded(body)
    large = limits is not None and len(body) > limits.objects  # a smaller one cannot have that many
    if limits is not None and large:
        found = _measure(body)
        limits.check_json(found)
    fast, exact = _DECODERS[nan_is_missing]
    try:
        with _no_collections() if large else nullcontext():
            parsed = fast.decode(text)
            # a parser keeps one value of a name that is twice in an object; colons inside of texts only cost time
            if _count_names(parsed) != (found.names if large else text.count(":")):
                del parsed
                parsed = exact.decode(text)
    except RecursionError as error:
        raise RequestError(400, "the body must be JSON: nested too deeply") from error
    except json.JSONDecodeError as error:
        raise RequestError(400, f"the body must be JSON: {error!s:.200}") from error
    except ValueError as error:  # the message of int is about Python
        most = sys.get_int_max_str_digits()
        raise RequestError(400, f"the body must be JSON: a whole number has more than {most} digits") from error
    if _SURROGATE.search(body):
        _check_text(parsed)
    return parsed


def _decoded(body: bytes) -> str:
    """Return the text of a body in UTF-8, with or without a byte order mark."""
    if len(body) > _MOST_WIDE and np.frombuffer(body, np.uint8).max() >= _FOUR_BYTES:
        raise RequestError(413, f"a body with characters such as emoji may have at most {_MOST_WIDE} bytes")
    try:
        return str(body, "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        found = f"{error.object[error.start]:#04x} at position {error.start}"
        raise RequestError(400, f"the body must be text in UTF-8, got the byte {found}") from error


def _count_names(parsed: Any) -> int:
    """Count the names in an object, in the objects in it, and in the objects in its lists."""
    if type(parsed) is not dict:
        return 0
    count = len(parsed)
    for value in parsed.values():
        if type(value) is dict:
            count += len(value)
        elif type(value) is list and set(map(type, value)) == {dict}:
            count += sum(map(len, value))
    return count


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
    """Return an object; raise a RequestError if it has a name twice."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise RequestError(
                400, f"the body must be JSON with different names in each object, got {shown(name)} twice"
            )
        made[name] = value
    return made


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


# A fast decoder, and one that compares names and takes a third more time; made once: that takes longer than a row.
_DECODERS = {
    nan_is_missing: [json.JSONDecoder(parse_constant=constant, object_pairs_hook=hook) for hook in (None, _different)]
    for nan_is_missing, constant in ((False, _no_constant), (True, _missing))
}


@dataclass(frozen=True)
class RequestRows:
    """Rows of a request.

    Attributes
    ----------
    table : dict or ndarray
        Columns of the model with a list of plain values, of one row with the value; or images.
    count : int
    """

    table: Any
    count: int

    def block(self, rows: slice) -> Any:
        """Return some of several rows as a table."""
        if isinstance(self.table, dict):
            return {name: cells[rows] for name, cells in self.table.items()}
        return self.table[rows]


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of one request as columns of a model; absent columns are missing values.

    Attributes
    ----------
    loaded : LoadedModel
    limits : RowLimits
    lenient : bool
        Whether unknown columns are ignored, and rows without any known column are rows of missing values.
    """

    loaded: LoadedModel
    limits: RowLimits
    lenient: bool = False

    def of_records(self, records: Any) -> RequestRows:
        """Read rows that are objects of column names and values."""
        names = self._names
        if not isinstance(records, list) or set(map(type, records)) != {dict}:
            raise RequestError(422, "rows must be objects of column names and values, and there must be at least one")
        self.check_size(len(records))
        for place, record in enumerate(records):
            if not record or not names.keys() >= record.keys():
                self._check_names(record, f" in row {place}")
        if len(records) == 1:
            get = records[0].get
            return _plain({name: get(text) for text, name in names.items()}, 1)
        return _plain({name: [each.get(text) for each in records] for text, name in names.items()}, len(records))

    def of_columns(self, columns: Mapping[str, Sequence[Any]]) -> RequestRows:
        """Read columns by name."""
        names = self._names
        counts = {len(cells) for cells in columns.values()}
        if len(counts) != 1 or 0 in counts:
            raise RequestError(422, f"columns must have the same number of values, at least one, got {sorted(counts)}")
        (count,) = counts
        self.check_size(count, len(columns))
        self._check_names(columns.keys())
        missing = [None] * count
        table = {name: columns.get(text, missing) for text, name in names.items()}
        return _plain({name: cells[0] for name, cells in table.items()} if count == 1 else table, count)

    def of_lists(self, rows: Any, names: Sequence[Any] | None = None) -> RequestRows:
        """Read rows without names; their cells are in the order of `names`, or of the columns in training."""
        if not isinstance(rows, list) or set(map(type, rows)) != {list}:
            raise RequestError(422, "rows must be lists of values, and there must be at least one")
        self.check_size(len(rows), len(rows[0]))
        if names is None:
            names = self.column_names
        wrong = [place for place, row in enumerate(rows) if len(row) != len(names)]
        if wrong:
            rule, found = f"each row must have {len(names)} values, one for each column", len(rows[wrong[0]])
            raise RequestError(422, f"{rule}, got {found} in row {wrong[0]}")
        if any(isinstance(name, list | dict) for name in names):
            raise RequestError(422, "column names must be texts or numbers")
        if len(set(map(str, names))) < len(names):
            raise RequestError(422, "column names must be different")
        return self.of_columns(dict(zip(map(str, names), map(list, zip(*rows, strict=True)), strict=True)))

    def of_csv(self, body: bytes) -> RequestRows:
        """Read a CSV text with a header; empty cells and words such as NA are missing values.

        A first column without a name is left out: it has the row names that pandas writes.
        """
        kinds = {str(column.name): partial(_plain_cell, column) for column in self._schema.columns}
        lines = _csv_lines(_decoded(body), self.limits.cells)
        header = next(lines, [])
        if len(header) == 1 and header[0] not in kinds and re.search(r"[;\t]", header[0]):
            rule = "the cells of a line must be separated by commas"
            raise RequestError(422, f"{rule}, got the header {shown(header[0])}")
        readers = [kinds.get(name, partial(_plain_cell, _COST)) for name in header]
        rows = []
        for number, line in enumerate(lines, start=2):
            if len(line) != len(readers):
                rule = f"each line must have {len(readers)} cells, as the header, line {number} has not"
                raise RequestError(422, rule)
            rows.append([read(cell) for read, cell in zip(readers, line, strict=True)])
            self.check_size(len(rows), len(header))
        if not rows:
            raise RequestError(422, f"the body must have a header and at least one row, got {int(bool(header))} lines")
        if header[0] == "" and len(header) > 1:
            header, rows = header[1:], [row[1:] for row in rows]
        return self.of_lists(rows, header)

    def check_size(self, rows: int, columns: int = 0) -> None:
        """Raise a RequestError for too many rows or cells of the table that the model reads, or of the request."""
        self.limits.check(rows, max(columns, len(self.loaded.column_names)))

    @property
    def column_names(self) -> list[str]:
        """The names of the columns in training."""
        return [str(column.name) for column in self._schema.columns]

    @property
    def _schema(self) -> TableSchema:
        schema = self.loaded.model.schema
        if not isinstance(schema, TableSchema):
            raise RequestError(
                422, f"model {self.loaded.name!r} reads images, not rows: send them as a tensor to /v2/models"
            )
        return schema

    @property
    def _names(self) -> Mapping[str, str | int]:
        """The columns of the table by their text."""
        _ = self._schema  # raises an error for images
        return self.loaded.column_names

    def _check_names(self, given: Collection[str], place: str = "") -> None:
        """Raise a RequestError for unknown columns, and if no column is known, unless the request is lenient."""
        known = self.loaded.column_names
        unknown = [name for name in given if name not in known]
        if self.lenient or (given and not unknown):
            return
        if not unknown:
            raise RequestError(422, f"a row must have a column of the model, {_named(known)}, got none{place}")
        raise RequestError(422, f"{_unknown(unknown, known)}{place}; lenient=true ignores unknown columns")


def _plain(table: dict[str | int, Any], count: int) -> RequestRows:
    """Return rows if all cells are plain values."""
    for cells in [table.values()] if count == 1 else table.values():
        if not _PLAIN.issuperset(map(type, cells)):
            wrong = next(cell for cell in cells if type(cell) not in _PLAIN)
            raise RequestError(422, f"values must be numbers, text, true, false or null, got {shown(wrong)}")
    return RequestRows(table, count)


def _unknown(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Name unknown columns and the known ones that they are like."""
    named = f"unknown column{'s' * (len(unknown) > 1)} {_named(unknown)}"
    by_lower = {name.lower(): name for name in known}
    near: dict[str, None] = {}
    for name in unknown[:_SHOWN]:
        matches = get_close_matches(name[:_MOST_CHARACTERS].lower(), by_lower, n=1)
        near.update(dict.fromkeys(repr(by_lower[match]) for match in matches))
    if near:
        return f"{named}: did you mean {' and '.join(near)}?"
    return f"{named}: the model has {_named(by_lower.values())}"


def _named(names: Iterable[str]) -> str:
    cut = (f"{name!r}" if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]!r}..." for name in names)
    return short(list(cut), _SHOWN)


def _csv_lines(text: str, most: int) -> Iterator[list[str]]:
    """Yield the cells of the lines that are not empty, one line at a time."""
    lines = (_check_line(match.group(), most) for match in _LINE.finditer(text))
    try:
        yield from (cells for cells in csv.reader(lines, strict=True) if cells)
    except csv.Error as error:
        raise RequestError(400, f"the body must be CSV: {error!s:.200}") from error


def _check_line(line: str, most: int) -> str:
    if len(line) > most and line.count(",") >= most:
        raise RequestError(413, f"a request may have at most {most} cells, got more in one line")
    return line


def _plain_cell(column: Column, text: str) -> Any:
    """Return the text of a cell as a value of JSON: a number, a category as training had it, or None if missing."""
    value, state = column.codec.of_scalar(text)
    if state == State.MISSING:
        return None
    if column.kind == Kind.NUMBER and state == State.KNOWN:
        return value
    level = column.levels[value].value if column.kind == Kind.CATEGORY and value >= 0 else None
    return text if level is None else level


def check_lenient(value: Any) -> bool:
    """Return whether a request is lenient.

    Examples
    --------
    >>> check_lenient(True), check_lenient("false")
    (True, False)
    """
    if value not in (True, False, "true", "false") or type(value) not in (bool, str):
        raise RequestError(422, f"lenient must be true or false, got {shown(value)}")
    return value in (True, "true")


def check_cost(cost: Any) -> Any:
    """Return a cost if it is a number or a list of numbers; the model checks its values.

    Examples
    --------
    >>> check_cost([3, 4.5])
    [3, 4.5]
    """
    costs = cost if isinstance(cost, list) else [] if cost is None else [cost]
    if cost == [] or not {int, float}.issuperset(map(type, costs)):
        raise RequestError(422, f"cost must be a number or one number for each row, got {shown(cost)}")
    return cost
