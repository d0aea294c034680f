"""CSV files in blocks of rows, as text and numbers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from recuse.files.csv_text import (
    CsvText,
    check_encoding,
    check_header,
    csv_errors,
    dialect_of,
    line_errors,
    parser_options,
    parser_warnings_as_errors,
)
from recuse.files.names import STANDARD_STREAM, check_names, source_name, standard_input

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CsvBlocks", "open_csv"]


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
    position : int
        Bytes of the file that are read.
    """

    def __init__(self, text: CsvText) -> None:
        self._text = text
        self.position = 0
        with csv_errors(text.path), line_errors(text):
            self._dialect = dialect_of(text)
            check_header(text, self._dialect)
            with text.open() as file, parser_warnings_as_errors():
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
        with csv_errors(self._text.path), line_errors(self._text), self._text.open() as file:
            with parser_warnings_as_errors():
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
        if self._dialect.decimal == ".":
            return block
        text = [name for name in names if block[name].dtype.kind not in "iufb"]
        return block.assign(**{name: block[name].str.replace(self._dialect.decimal, ".") for name in text})

    def _reader(self, file: Any, **options: Any) -> Any:
        import pandas as pd

        return pd.read_csv(file, **parser_options(self._dialect), **options)


def _next_block(reader: Any) -> pd.DataFrame | None:
    """Return the next block; the caller of a generator must not see its filters of warnings."""
    with parser_warnings_as_errors():
        return next(reader, None)


def _position(file: Any) -> int:
    """Return how many bytes of a file are read; those of the compressed file, if it is one."""
    return int(getattr(file.buffer, "fileobj", file.buffer).tell())
