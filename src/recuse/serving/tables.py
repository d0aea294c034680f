"""Rows of requests as tables with the columns of a model, and what happens to unknown columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from recuse.phrases import short
from recuse.serving.errors import RequestError, shown
from recuse.serving.model_store import LoadedModel
from recuse.serving.parsing import RowLimits, decode_text
from recuse.tabular.codecs import State
from recuse.tabular.schema import Column, Kind, TableSchema

__all__ = [
    "RowReading",
    "check_cost",
    "check_lenient",
    "table_of_columns",
    "table_of_csv",
    "table_of_lists",
    "table_of_records",
]

_COST = Column("cost", Kind.NUMBER)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SHOWN = 5  # names in an error
_MOST_CHARACTERS = 60  # a name in an error is cut after as many


@dataclass(frozen=True)
class RowReading:
    """How the rows of one request are read.

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

    @property
    def schema(self) -> TableSchema:
        """The columns of the model; raises a RequestError if it reads images."""
        schema = self.loaded.model.schema
        if not isinstance(schema, TableSchema):
            raise RequestError(
                422, f"model {self.loaded.name!r} reads images, not rows: send them as a tensor to /v2/models"
            )
        return schema

    def check_size(self, rows: int, columns: int = 0) -> None:
        """Raise a RequestError for too many rows or cells of the table that the model reads, or of the request."""
        self.limits.check(rows, max(columns, len(self.loaded.column_names)))

    def check_names(self, given: Collection[str], place: str = "") -> None:
        """Raise a RequestError for unknown columns, and if no column is known, unless the request is lenient."""
        known = self.loaded.column_names
        unknown = [name for name in given if name not in known]
        if self.lenient or (given and not unknown):
            return
        if not unknown:
            raise RequestError(422, f"a row must have a column of the model, {_named(known)}, got none{place}")
        raise RequestError(422, f"{_unknown(unknown, known)}{place}; lenient=true ignores unknown columns")


def _unknown(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Name unknown columns and the known ones that they are like."""
    several = "s" if len(unknown) > 1 else ""
    named = f"unknown column{several} {short([_shown(name) for name in unknown], _SHOWN)}"
    by_lower = {name.lower(): name for name in known}
    near: dict[str, None] = {}
    for name in unknown[:_SHOWN]:
        matches = get_close_matches(name[:_MOST_CHARACTERS].lower(), by_lower, n=1)
        near.update(dict.fromkeys(repr(by_lower[match]) for match in matches))
    if near:
        return f"{named}: did you mean {' and '.join(near)}?"
    return f"{named}: the model has {_named(by_lower.values())}"


def _named(known: Iterable[str]) -> str:
    return short([_shown(name) for name in known], _SHOWN)


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]!r}..."


def check_lenient(value: Any) -> bool:
    """Return whether a request is lenient.

    Examples
    --------
    >>> check_lenient(True), check_lenient("false")
    (True, False)
    """
    known = {"true": True, "false": False}
    if isinstance(value, bool) or (isinstance(value, str) and value in known):
        return value is True or value == "true"
    raise RequestError(422, f"lenient must be true or false, got {shown(value)}")


def check_cost(cost: Any) -> Any:
    """Return a cost if it is a number or a list of numbers; the model checks its values.

    Examples
    --------
    >>> check_cost([3, 4.5])
    [3, 4.5]
    """
    costs = cost if isinstance(cost, list) else [] if cost is None else [cost]
    wrong = [each for each in costs if type(each) not in (int, float)]
    if wrong or cost == []:
        raise RequestError(422, f"cost must be a number or one number for each row, got {shown(cost)}")
    return cost


def table_of_records(reading: RowReading, records: Any) -> Any:
    """Return rows of JSON as a table with the columns of the model; absent columns are missing values.

    One row stays a mapping, which needs no DataFrame.
    """
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
        raise RequestError(422, "rows must be objects of column names and values, and there must be at least one")
    names = _names(reading)
    reading.check_size(len(records))
    for place, record in enumerate(records):
        _check_cells(record.values())
        if not record or not names.keys() >= record.keys():
            reading.check_names(record, f" in row {place}")
    if len(records) == 1:
        get = records[0].get
        return {name: get(text) for text, name in names.items()}
    return _frame(reading, {name: [record.get(text) for record in records] for text, name in names.items()})


def table_of_columns(reading: RowReading, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return columns by name as a table with the columns of the model; absent columns are missing values."""
    names = _names(reading)
    counts = {len(cells) for cells in columns.values()}
    if len(counts) != 1 or 0 in counts:
        raise RequestError(422, f"columns must have the same number of values, at least one, got {sorted(counts)}")
    reading.check_size(max(counts), len(columns))
    for cells in columns.values():
        _check_cells(cells)
    reading.check_names(columns.keys())
    missing = [None] * counts.pop()
    table = {name: columns.get(text, missing) for text, name in names.items()}
    if len(missing) == 1:
        return {name: cells[0] for name, cells in table.items()}
    return _frame(reading, table)


def table_of_lists(reading: RowReading, rows: Any, names: Sequence[Any] | None = None) -> Any:
    """Return rows without names as a table; their cells are in the order of `names`, or of the columns in training."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise RequestError(422, "rows must be lists of values, and there must be at least one")
    reading.check_size(len(rows), len(rows[0]))
    if names is None:
        names = [str(column.name) for column in reading.schema.columns]
    wrong = [place for place, row in enumerate(rows) if len(row) != len(names)]
    if wrong:
        found = len(rows[wrong[0]])
        raise RequestError(
            422, f"each row must have {len(names)} values, one for each column, got {found} in row {wrong[0]}"
        )
    if any(isinstance(name, list | dict) for name in names):
        raise RequestError(422, "column names must be texts or numbers")
    if len(set(map(str, names))) < len(names):
        raise RequestError(422, "column names must be different")
    return table_of_columns(reading, dict(zip(map(str, names), map(list, zip(*rows, strict=True)), strict=True)))


def table_of_csv(reading: RowReading, body: bytes) -> Any:
    """Return the rows of a CSV text with a header; empty cells and words such as NA are missing values.

    A first column without a name is left out: it has the row names that pandas writes.
    """
    kinds = {str(column.name): partial(_plain_cell, column) for column in reading.schema.columns}
    lines = _csv_lines(decode_text(body), reading.limits.cells)
    header = next(lines, [])
    if len(header) == 1 and header[0] not in kinds and re.search(r"[;\t]", header[0]):
        raise RequestError(422, f"the cells of a line must be separated by commas, got the header {shown(header[0])}")
    readers = [kinds.get(name, partial(_plain_cell, _COST)) for name in header]
    rows = []
    for number, line in enumerate(lines, start=2):
        if len(line) != len(readers):
            rule = f"each line must have {len(readers)} cells, as the header, line {number} has not"
            raise RequestError(422, rule)
        rows.append([read(cell) for read, cell in zip(readers, line, strict=True)])
        reading.check_size(len(rows), len(header))
    if not rows:
        raise RequestError(422, f"the body must have a header and at least one row, got {int(bool(header))} lines")
    if header[0] == "" and len(header) > 1:
        header, rows = header[1:], [row[1:] for row in rows]
    return table_of_lists(reading, rows, header)


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


def _frame(reading: RowReading, columns: Mapping[str | int, Sequence[Any]]) -> Any:
    """Return a table; a column of dates may hold numbers only, each of which is a cell of a wrong type."""
    import pandas as pd

    dates = {column.name for column in reading.schema.used if column.kind == Kind.DATE}
    return pd.DataFrame(
        {name: pd.Series(cells, dtype=object if name in dates else None) for name, cells in columns.items()}
    )


def _check_cells(cells: Iterable[Any]) -> None:
    for cell in cells:
        if type(cell) in (dict, list):
            raise RequestError(422, f"values must be numbers, text, true, false or null, got {shown(cell)}")


def _names(reading: RowReading) -> Mapping[str, str | int]:
    names = reading.loaded.column_names
    if not names:
        _ = reading.schema  # raises an error for images
    return names
