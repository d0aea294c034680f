"""Reading of CSV files: separator, decimal sign, encoding, and columns that must stay text."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from recuse.files.names import STANDARD_STREAM, check_names, source_name, standard_input

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CsvText",
    "check_encoding",
    "check_header",
    "csv_errors",
    "dialect_of",
    "line_errors",
    "parser_options",
    "parser_warnings_as_errors",
    "read_csv",
]

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 2**18  # characters that show the separator and the decimal sign
_BLOCK = 2**20  # characters searched for leading zeros at once
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
LEADING_ZERO = r"[+-]?0\d"
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class CsvText:
    """The text of a file, which can be opened several times."""

    path: str
    encoding: str
    data: bytes | None = None  # standard input
    copy: str | None = None  # path of a copy of standard input

    def open(self) -> TextIO:
        """Open the text, without compression."""
        return io.TextIOWrapper(self.open_binary(), encoding=self.encoding, newline="")

    def open_binary(self) -> BinaryIO:
        """Open the bytes, without compression."""
        if self.data is not None:
            return io.BytesIO(self.data)
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


def read_csv(path: str, encoding: str, text_columns: set[str]) -> pd.DataFrame:
    """Read a CSV file as numbers and text; a second pass reads the columns again that must stay text."""
    check_encoding(encoding)
    text = CsvText(path, encoding, standard_input().read() if path == STANDARD_STREAM else None)
    with csv_errors(path):
        return _parse_text(text, text_columns)


@contextmanager
def csv_errors(path: str) -> Iterator[None]:
    """Name the file in errors of the parser."""
    import pandas as pd

    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{source_name(path)} is empty") from error
    except (pd.errors.ParserError, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise ValueError(f"{source_name(path)} cannot be read as CSV: {reason}") from error


def check_encoding(encoding: str) -> None:
    """Raise an error if Python has no such encoding of text."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except LookupError as error:  # also for encodings of bytes, such as hex
        raise ValueError(f"encoding must be one of text, such as latin-1, got {encoding!r}") from error


def _parse_text(text: CsvText, text_columns: set[str]) -> pd.DataFrame:
    with line_errors(text):
        dialect = dialect_of(text)
        check_header(text, dialect)
        frame = _parse(text, dialect, dict.fromkeys(text_columns, str))
        doubtful = truth_columns(frame)
        if has_leading_zeros(text, dialect):
            doubtful |= whole_columns(frame)
        if doubtful - text_columns:
            _restore_text(frame, _parse(text, dialect, str, usecols=list(doubtful)))
    return frame


@contextmanager
def line_errors(text: CsvText) -> Iterator[None]:
    """Name the line in errors of the parser, and say what to do about the encoding."""
    import pandas as pd

    try:
        yield
    except UnicodeError as error:
        raise ValueError(_encoding_error(text)) from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise pd.errors.ParserError(_wrong_line(text, dialect_of(text)) or str(error)) from error


def check_header(text: CsvText, dialect: CsvDialect) -> None:
    """Raise an error if two columns have the same name, which pandas would number."""
    header = next((cells for _, cells in _lines(text, dialect)), [])
    check_names([name for name in header if name], text.path)


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


def _parse(text: CsvText, dialect: CsvDialect, dtype: Any, **options: Any) -> pd.DataFrame:
    import pandas as pd

    with text.open() as file, parser_warnings_as_errors():
        frame: pd.DataFrame = pd.read_csv(file, dtype=dtype, **parser_options(dialect), **options)
    return frame


def parser_options(dialect: CsvDialect) -> dict[str, Any]:
    """Return the options of `pandas.read_csv` for a dialect."""
    import pandas as pd

    # the default parser of pandas 2 can miss the last bit
    precision = {"float_precision": "round_trip"} if pd.__version__.startswith("2.") else {}
    options = {"low_memory": False, "index_col": False, "skipinitialspace": True}
    return {"sep": dialect.separator, "decimal": dialect.decimal, **options, **precision}


@contextmanager
def parser_warnings_as_errors() -> Iterator[None]:
    """Raise an error for lines that are longer than the header."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def truth_columns(frame: pd.DataFrame) -> set[str]:
    """Return the columns of truth values, which could not be told from text if a later file had other words."""
    from pandas.api import types

    return {
        str(name)
        for name in frame.columns
        if types.is_bool_dtype(frame[name])
        or (frame[name].dtype == object and types.infer_dtype(frame[name], skipna=True) == "boolean")
    }


def whole_columns(frame: pd.DataFrame) -> set[str]:
    """Return the columns of whole numbers, which may be codes."""
    numbers = frame.select_dtypes("number")
    return {str(name) for name in numbers.columns if (numbers[name].dropna() % 1 == 0).all()}


def _restore_text(frame: pd.DataFrame, text: pd.DataFrame) -> None:
    """Put text back in the place of numbers with leading zeros and of truth values."""
    truth = truth_columns(frame)
    for name in text.columns:
        if name in truth or text[name].str.match(LEADING_ZERO).any():
            frame[name] = text[name]


def has_leading_zeros(text: CsvText, dialect: CsvDialect) -> bool:
    """Whether the file has cells that start like numbers with leading zeros."""
    pattern = re.compile(rf"[{re.escape(dialect.separator)}\"\s]{LEADING_ZERO}")
    with text.open() as file:
        end = "\n"
        while block := file.read(_BLOCK):
            if pattern.search(end + block):
                return True
            end = block[-32:]  # a cell may start at the end of a block
    return False


def dialect_of(text: CsvText) -> CsvDialect:
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
    if text.encoding != "utf-8-sig" and _is_utf8(text):
        return f"{name} cannot be read with the encoding {text.encoding}: leave out --encoding, the file is UTF-8"
    if text.encoding != "utf-8-sig":
        return f"{name} cannot be read with the encoding {text.encoding}: try --encoding {hint}"
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
