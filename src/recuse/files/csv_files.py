"""CSV files as text and numbers, whole or in blocks of rows: separator, decimal sign, encoding, and errors by line."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shutil
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TextIO, cast

import numpy as np
import pandas as pd

from recuse.dataframes import MISSING_WORDS
from recuse.files.names import STANDARD_STREAM, check_names, source_name, standard_input

_SEPARATORS = (",", ";", "\t", "|")
# Characters that show the separator and the decimal sign.
_SAMPLE = 2**18
# Characters that are read at once.
_BLOCK = 2**20
# Rows that are parsed at once.
_ROWS = 2**17
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_LEADING_ZERO = r"\s*[+-]?0\d"
_WHOLE = r"\s*[+-]?\d+\s*"
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class CsvText:
    """The text of a file, which can be opened several times."""

    path: str
    encoding: str
    copy: str | None = None  # path of a copy of standard input

    def open(self) -> TextIO:
        """Open the text, without compression."""
        return io.TextIOWrapper(self.open_binary(), encoding=self.encoding, newline="")

    def open_binary(self) -> BinaryIO:
        """Open the bytes, without compression."""
        if self.copy is not None:
            return Path(self.copy).open("rb")
        if self.path.lower().endswith(".gz"):
            return cast(BinaryIO, gzip.open(self.path))
        return Path(self.path).open("rb")


@dataclass(frozen=True)
class CsvDialect:
    """How a file separates cells, and its decimal sign."""

    separator: str
    decimal: str


@contextmanager
def open_csv(path: str, encoding: str | None = None) -> Iterator[CsvBlocks]:
    """Open a CSV file; standard input, "-", is copied to a temporary file, since it is read several times."""
    _check_encoding(encoding or "utf-8-sig")
    with TemporaryDirectory(prefix="recuse-") as folder:
        copy = None
        if path == STANDARD_STREAM:
            copy = Path(folder) / "stdin.csv"
            with copy.open("wb") as file:
                shutil.copyfileobj(standard_input(), file, 2**20)
        yield CsvBlocks(CsvText(path, encoding or "utf-8-sig", copy=None if copy is None else str(copy)))


def read_csv(path: str, encoding: str | None, text_columns: Collection[str]) -> pd.DataFrame:
    """Read a CSV file; columns of numbers are numbers, unless they are text columns, and others are text."""
    with open_csv(path, encoding) as file:
        frame = pd.concat(file.blocks(_ROWS, file.names), ignore_index=True)
        return pd.DataFrame(
            {name: _typed(frame[name], file.decimal, text=name in text_columns) for name in frame.columns}
        )


def _typed(column: pd.Series[str], decimal: str, *, text: bool) -> pd.Series[Any]:
    """Return a column of text as numbers if all its cells are numbers, and none of them has a leading zero.

    Words that stand for a missing value are missing.
    """
    gaps = column.isna() | column.str.strip().str.lower().isin(MISSING_WORDS)
    cells = column[~gaps]
    if text or cells.str.match(_LEADING_ZERO).any() or cells.str.contains("_", regex=False).any():
        return column.mask(gaps)
    whole = not gaps.any() and bool(cells.str.fullmatch(_WHOLE).all())
    points = cells if decimal == "." else cells.str.replace(decimal, ".", regex=False)
    values = np.full(len(column), np.nan)
    try:
        values[~gaps.to_numpy()] = points.to_numpy(dtype=object).astype(np.float64)
        return pd.Series(points.to_numpy(dtype=object).astype(np.int64) if whole else values, name=column.name)
    except OverflowError:  # whole numbers that int64 does not hold
        return pd.Series(values, name=column.name)
    except ValueError:  # a text that is no number
        return column.mask(gaps)


class CsvBlocks:
    """The rows of a CSV file in blocks.

    Parameters
    ----------
    text : CsvText

    Attributes
    ----------
    names : list of str
        Names of the columns.
    decimal : str
        The decimal sign.
    position : int
        Bytes of the file that are read.
    """

    def __init__(self, text: CsvText) -> None:
        self._text = text
        self.position = 0
        with _csv_errors(text.path), _line_errors(text):
            self._dialect = _dialect_of(text)
            self.decimal = self._dialect.decimal
            # two columns of one name would be numbered by pandas
            header = next((cells for _, cells in _lines(text, self._dialect)), [])
            check_names([name for name in header if name], text.path)
            with text.open() as file, _parser_warnings_as_errors():
                self.names = list(self._reader(file, nrows=0).columns.map(str))
        check_names(self.names, text.path)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return Path(self._text.copy or self._text.path).stat().st_size

    def blocks(self, rows: int, text_columns: Iterable[str] = ()) -> Iterator[pd.DataFrame]:
        """Yield tables of at most `rows` rows, whose index continues that of the block before.

        Parameters
        ----------
        rows : int
        text_columns : iterable of str
            Columns that are text, as it is in the file. Others are numbers in blocks where all their cells are, and
            else text. Only empty cells are missing.

        Raises
        ------
        ValueError
            If a line has more cells than the header, or there are no rows.
        """
        first = 0
        options = {"dtype": dict.fromkeys(text_columns, str), "na_values": [""], "keep_default_na": False}
        with _csv_errors(self._text.path), _line_errors(self._text), self._text.open() as file:
            with _parser_warnings_as_errors():
                reader = self._reader(file, chunksize=rows, **options)
            while (frame := _next_block(reader)) is not None:
                frame.columns = frame.columns.map(str)
                self.position = _position(file)
                if first or len(frame):
                    yield frame.set_axis(range(first, first + len(frame)), axis=0)
                first += len(frame)
        if not first:
            raise ValueError(f"{source_name(self._text.path)} has no rows")

    def with_points(self, block: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
        """Return a block whose texts in some columns have decimal points instead of the decimal sign of the file."""
        if self.decimal == ".":
            return block
        text = [name for name in names if block[name].dtype.kind not in "iufb"]
        return block.assign(**{name: block[name].str.replace(self.decimal, ".") for name in text})

    def _reader(self, file: Any, **options: Any) -> Any:
        # the default parser of pandas 2 can miss the last bit
        precision = {"float_precision": "round_trip"} if pd.__version__.startswith("2.") else {}
        options |= {"low_memory": False, "index_col": False, "skipinitialspace": True, **precision}
        return pd.read_csv(file, sep=self._dialect.separator, decimal=self.decimal, **options)


def _next_block(reader: Any) -> pd.DataFrame | None:
    """Return the next block; the caller of a generator must not see its filters of warnings."""
    with _parser_warnings_as_errors():
        return next(reader, None)


def _position(file: Any) -> int:
    """Return how many bytes of a file are read; those of the compressed file, if it is one."""
    return int(getattr(file.buffer, "fileobj", file.buffer).tell())


@contextmanager
def _csv_errors(path: str) -> Iterator[None]:
    """Name the file in errors of the parser."""
    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{source_name(path)} is empty") from error
    except (pd.errors.ParserError, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise ValueError(f"{source_name(path)} cannot be read as CSV: {reason}") from error


def _check_encoding(encoding: str) -> None:
    """Raise an error if Python has no such encoding of text."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except LookupError as error:  # also for encodings of bytes, such as hex
        raise ValueError(f"encoding must be one of text, such as latin-1, got {encoding!r}") from error


@contextmanager
def _line_errors(text: CsvText) -> Iterator[None]:
    """Name the line in errors of the parser, and say what to do about the encoding."""
    try:
        yield
    except UnicodeError as error:
        raise ValueError(_encoding_error(text)) from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise pd.errors.ParserError(_wrong_line(text, _dialect_of(text)) or str(error)) from error


def _lines(text: CsvText, dialect: CsvDialect) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line where a row starts, and its cells; lines without cells are left out."""
    with text.open() as file:
        rows, start = csv.reader(file, delimiter=dialect.separator, skipinitialspace=True), 1
        for cells in rows:
            if len(cells) > 1 or "".join(cells).strip():
                yield start, cells
            start = rows.line_num + 1


def _wrong_line(text: CsvText, dialect: CsvDialect) -> str | None:
    """Return what is wrong with the first line that is longer than the header, or with the last line."""
    width = start = 0
    cells: list[str] = []
    for start, cells in _lines(text, dialect):
        width = width or len(cells)
        if len(cells) > width:
            return f"line {start} has {len(cells)} cells, but the header has {width}"
    open_quote = any("\n" in cell for cell in cells[-1:])
    return f"the row of line {start} has a quotation mark that is not closed" if open_quote else None


@contextmanager
def _parser_warnings_as_errors() -> Iterator[None]:
    """Raise an error for lines that are longer than the header."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _dialect_of(text: CsvText) -> CsvDialect:
    """Return the separator and the decimal sign of the first lines."""
    with text.open() as file:
        sample = file.read(_SAMPLE)
    lines = sample.splitlines()
    if len(sample) == _SAMPLE and len(lines) > 1:
        lines = lines[:-1]  # it may be cut off
    tabs = text.path.lower().endswith((".tsv", ".tsv.gz"))
    separator = "\t" if tabs else _separator_of(lines)
    cells = [cell.strip() for row in csv.reader(lines[1:], delimiter=separator) for cell in row]
    comma = any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) and separator != ","
    point = any(_DECIMAL_POINT.fullmatch(cell) for cell in cells)
    return CsvDialect(separator, "," if comma and not point else ".")


def _separator_of(lines: list[str]) -> str:
    """Return the separator that divides most lines into as many cells as the first line."""
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if "".join(row).strip()]
        if widths and widths[0] > 1:
            agreement = sum(width == widths[0] for width in widths) / len(widths)
            if agreement > most + 1e-9:
                best, most = separator, agreement
    return best


def _encoding_error(text: CsvText) -> str:
    name = source_name(text.path)
    with text.open_binary() as file:
        start = file.read(2)
    hint = _BYTE_ORDER_MARKS.get(start, "latin-1")
    if text.encoding != "utf-8-sig":
        advice = "leave out --encoding, the file is UTF-8" if _is_utf8(text) else f"try --encoding {hint}"
        return f"{name} cannot be read with the encoding {text.encoding}: {advice}"
    with text.open_binary() as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start]
                place = f"byte 0x{byte:02x} in line {number}"
                return f"{name} is not UTF-8 ({place}): give its encoding, such as --encoding {hint}"
    return f"{name} is not UTF-8: give its encoding, such as --encoding {hint}"


def _is_utf8(text: CsvText) -> bool:
    try:
        with replace(text, encoding="utf-8").open() as file:
            while file.read(_BLOCK):
                pass
    except UnicodeError:
        return False
    return True
