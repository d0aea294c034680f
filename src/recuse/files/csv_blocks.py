"""CSV files in blocks of rows, with types of columns that do not depend on the block."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from recuse.files.csv_text import (
    LEADING_ZERO,
    MISSING_WORDS,
    CsvText,
    check_encoding,
    check_header,
    csv_errors,
    dialect_of,
    has_leading_zeros,
    line_errors,
    parser_options,
    parser_warnings_as_errors,
    truth_columns,
    whole_columns,
)
from recuse.files.names import STANDARD_STREAM, check_names, source_name, standard_input

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ColumnType", "CsvBlocks", "open_csv", "without_words"]

ColumnType = Literal["text", "int64", "float64"]


@contextmanager
def open_csv(path: str, encoding: str | None = None) -> Iterator[CsvBlocks]:
    """Open a CSV file; standard input, "-", is copied to a temporary file, since it is read several times."""
    check_encoding(encoding or "utf-8-sig")
    with TemporaryDirectory(prefix="recuse-") as folder:
        copy = None
        if path == STANDARD_STREAM:
            copy = Path(folder) / "stdin.csv"
            with copy.open("wb") as file:
                shutil.copyfileobj(standard_input(), file, 2**20)
        yield CsvBlocks(CsvText(path, encoding or "utf-8-sig", copy=None if copy is None else str(copy)))


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
        with csv_errors(text.path), line_errors(text):
            self._dialect = dialect_of(text)
            check_header(text, self._dialect)
            self.decimal = self._dialect.decimal
            with text.open() as file, parser_warnings_as_errors():
                self.names = list(self._reader(file, nrows=0).columns.map(str))
        check_names(self.names, text.path)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return Path(self._text.copy or self._text.path).stat().st_size

    def column_types(self, names: Iterable[str], rows: int, *, words: bool = False) -> dict[str, ColumnType]:
        """Read the whole file, and return the type of some columns as `read_table` would infer it.

        Whole numbers that neither int64 nor float64 holds to the last digit are text, and so are columns without any
        value.

        Parameters
        ----------
        names : iterable of str
        rows : int
            Number of rows to read at once.
        words : bool, default=False
            Whether columns of numbers with words for missing values, such as NA, are text.
        """
        chosen = list(names)
        if not chosen:
            return {}
        types: dict[str, ColumnType] = {}
        whole, large, filled = set(chosen), set[str](), set[str]()
        for frame in self.blocks(rows, verbatim=chosen if words else ()):
            filled |= {name for name in chosen if name not in filled and frame[name].notna().any()}
            truth = truth_columns(frame)
            whole &= whole_columns(frame)
            large |= _large_columns(frame)
            for name in chosen:
                found: ColumnType = "text" if name in truth else _type_of(frame[name])
                types[name] = found if name not in types else _common(types[name], found)
        types.update(dict.fromkeys(set(chosen) - filled, "text"))
        # such as long identifiers in a column with gaps
        types.update({name: "text" for name in whole & large if types[name] == "float64"})
        if has_leading_zeros(self._text, self._dialect):
            codes = self._codes([name for name in chosen if types[name] != "text"], rows)
            types.update(dict.fromkeys(codes, "text"))
        return types

    def _codes(self, names: list[str], rows: int) -> set[str]:
        """Return the columns of whole numbers of which some have leading zeros."""
        whole, codes = set(names), set[str]()
        for numbers, text in zip(self.blocks(rows), self.blocks(rows, self.names), strict=True):
            whole &= whole_columns(numbers)
            codes |= {name for name in whole if text[name].str.match(LEADING_ZERO).any()}
        return whole & codes

    def blocks(
        self, rows: int, text_columns: Iterable[str] = (), verbatim: Iterable[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Yield tables of at most `rows` rows, whose index continues that of the block before.

        Parameters
        ----------
        rows : int
        text_columns : iterable of str
            Columns that are text; the types of the others are those of the block.
        verbatim : iterable of str
            Columns whose words for missing values, such as NA, stay text; only empty cells are missing.

        Raises
        ------
        ValueError
            If a line has more cells than the header, or there are no rows.
        """
        first = 0
        dtype = {name: str for name in text_columns if name in self.names}
        missing = dict.fromkeys(self.names, MISSING_WORDS) | dict.fromkeys(verbatim, ("",))
        with csv_errors(self._text.path), line_errors(self._text), self._text.open() as file:
            with parser_warnings_as_errors():
                reader = self._reader(file, dtype=dtype, chunksize=rows, na_values=missing, keep_default_na=False)
            while (frame := _next_block(reader)) is not None:
                frame.columns = frame.columns.map(str)
                self.position = _position(file)
                if first or len(frame):
                    yield frame.set_axis(range(first, first + len(frame)), axis=0)
                first += len(frame)
        if not first:
            raise ValueError(f"{source_name(self._text.path)} has no rows")

    def _reader(self, file: Any, **options: Any) -> Any:
        import pandas as pd

        return pd.read_csv(file, **parser_options(self._dialect), **options)


def without_words(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return a table in which words for missing values, such as NA, are missing in columns of text.

    Examples
    --------
    >>> import pandas as pd
    >>> without_words(pd.DataFrame({"city": ["Bonn", "NA"]}), ["city"])["city"].isna().tolist()
    [False, True]
    """
    return frame.assign(**{name: frame[name].mask(frame[name].isin(MISSING_WORDS)) for name in names})


def _next_block(reader: Any) -> pd.DataFrame | None:
    """Return the next block; the caller of a generator must not see its filters of warnings."""
    with parser_warnings_as_errors():
        return next(reader, None)


def _position(file: Any) -> int:
    """Return how many bytes of a file are read; those of the compressed file, if it is one."""
    return int(getattr(file.buffer, "fileobj", file.buffer).tell())


def _type_of(cells: pd.Series[Any]) -> ColumnType:
    kind = cells.dtype.kind  # "u" is for numbers from 2**63 on, which may be beside negative ones in another block
    return "int64" if kind == "i" else "float64" if kind == "f" else "text"


def _large_columns(frame: pd.DataFrame) -> set[str]:
    """Return the columns with numbers that a double may not hold to the last digit."""
    numbers = frame.select_dtypes("number")
    return {str(name) for name in numbers.columns if (numbers[name].abs() >= 2**53).any()}


def _common(first: ColumnType, second: ColumnType) -> ColumnType:
    return first if first == second else "text" if "text" in (first, second) else "float64"
