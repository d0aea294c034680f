"""Reading and writing of tables as CSV, Parquet and Arrow files, and cells that spreadsheets would run."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.extras import import_extra
from recuse.files.atomic import new_file
from recuse.files.csv_files import read_csv
from recuse.files.names import STANDARD_STREAM, check_names, file_format, source_name, unreadable

# First characters of formulas. Some spreadsheets take the full-width forms for the plain ones.
_STARTS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")


def read_table(path: str, *, encoding: str | None = None, text_columns: Iterable[str] = ()) -> pd.DataFrame:
    r"""Read a table.

    The separator and the decimal sign of a CSV file are those of its first lines. Numbers with leading zeros and truth
    values stay text, and so do dates.

    Parameters
    ----------
    path : str
        The ending gives the format; "-" is standard input, as CSV.
    encoding : str, optional
        Encoding of a CSV file, UTF-8 by default.
    text_columns : iterable of str
        Columns of a CSV file that stay text, also if all cells are numbers.

    Returns
    -------
    DataFrame

    Raises
    ------
    ValueError
        If the file is not a table.
    ImportError
        If a Parquet or Arrow file is read without pyarrow.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rooms.csv"
    ...     _ = file.write_text("area;zip;since\n17,5;01067;2024-05-01\n20,0;80331;2024-06-01\n")
    ...     read_table(str(file))
       area    zip       since
    0  17.5  01067  2024-05-01
    1  20.0  80331  2024-06-01
    """
    kind = file_format(path)
    if path != STANDARD_STREAM:
        _check_readable(path)
    frame = read_csv(path, encoding, set(text_columns)) if kind == "csv" else _read_arrow(path, kind)
    frame.columns = frame.columns.map(str)
    check_names(list(frame.columns), path)
    if len(frame) == 0:
        raise ValueError(f"{source_name(path)} has no rows")
    return frame


def write_table(frame: pd.DataFrame, path: str, *, mode: int | None = None) -> None:
    """Write a table without its index; a file is replaced as a whole or, if an error occurs, not at all.

    Parameters
    ----------
    frame : DataFrame
    path : str
        The ending gives the format; "-" is standard output, as CSV.
    mode : int, optional
        Permissions of the file; by default those of an existing file, or else those of any new file.

    Examples
    --------
    >>> import pandas as pd
    >>> write_table(pd.DataFrame({"prediction": [1.5], "accepted": [True]}), "-")
    prediction,accepted
    1.5,True
    """
    kind = file_format(path)
    if path == STANDARD_STREAM:
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        sys.stdout.flush()  # here an error has a message
        return
    if kind != "csv":
        pyarrow = import_extra("pyarrow", "files")
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    with new_file(path, mode=mode) as file:
        if kind == "parquet":
            import_extra("pyarrow.parquet", "files").write_table(table, file)
        elif kind == "arrow":
            import_extra("pyarrow.feather", "files").write_feather(table, file, compression="uncompressed")
        else:
            file.write(csv_bytes(frame, path.lower()))


def csv_bytes(frame: pd.DataFrame, name: str, *, header: bool = True) -> bytes:
    """Return a table as a file of CSV; the end of the name tells the separator and whether it is compressed."""
    separator = "\t" if name.endswith(("tsv", "tsv.gz")) else ","
    data = frame.to_csv(index=False, header=header, sep=separator, lineterminator="\n").encode("utf-8")
    # without a time and a name, equal tables give equal files
    return gzip.compress(data, mtime=0) if name.endswith(".gz") else data


def _check_readable(path: str) -> None:
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a table")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist: check the path of the table")


def _read_arrow(path: str, kind: str) -> pd.DataFrame:
    pyarrow = import_extra("pyarrow", "files")
    module = import_extra("pyarrow.parquet" if kind == "parquet" else "pyarrow.feather", "files")
    try:
        table = module.read_table(path)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, OSError) as error:
        raise unreadable(path, kind, error) from error
    frame: pd.DataFrame = table.to_pandas()
    return frame.reset_index(drop=True)


def is_formula(cell: Any) -> bool:
    """Whether a cell is text that a spreadsheet may run: it starts with =, +, -, @, a tab or a line break.

    Numbers are none, also as text.

    Examples
    --------
    >>> [is_formula(cell) for cell in ("=1+1", "+49 30 1234", "-5", "+3.2", -5.0, "a=b")]
    [True, True, False, False, False, False]
    """
    return isinstance(cell, str) and cell[:1] in _STARTS and not _NUMBER.fullmatch(cell)


def formula_cells(frame: pd.DataFrame, *, header: bool = True) -> int:
    """Return how many cells of a table, and of its names of columns, `is_formula` finds."""
    names = sum(map(is_formula, frame.columns)) if header else 0
    return names + sum(sum(map(is_formula, _suspects(frame[name]))) for name in _text_columns(frame))


def _suspects(cells: pd.Series[Any]) -> list[str]:
    """Return the cells whose first character is that of a formula; most columns have none."""
    return [cell for cell in cells.tolist() if isinstance(cell, str) and cell[:1] in _STARTS]


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with an apostrophe before all cells and names of columns that `is_formula` finds.

    Examples
    --------
    >>> import pandas as pd
    >>> without_formulas(pd.DataFrame({"note": ["=1+1", "-5"], "x": [-5, 7]})).values.tolist()
    [["'=1+1", -5], ['-5', 7]]
    """
    changed = {
        name: frame[name].astype(object).map(_safe, na_action="ignore").astype(object) for name in _text_columns(frame)
    }
    return frame.assign(**changed).rename(columns=_safe)


def formula_warning(count: int) -> str:
    """Return a warning about a number of cells in a file.

    Examples
    --------
    >>> formula_warning(2).partition(":")[2]
    ' use --spreadsheet-safe'
    """
    cells = "1 cell starts like a formula" if count == 1 else f"{count:,} cells start like formulas"
    return f"{cells} (with =, +, -, @, a tab or a line break), which spreadsheets run: use --spreadsheet-safe"


def _safe(cell: Any) -> Any:
    return f"'{cell}" if is_formula(cell) else cell


def _text_columns(frame: pd.DataFrame) -> list[Any]:
    """Return the names of the columns that may have text."""
    return [name for name, kind in frame.dtypes.items() if kind.kind == "O"]
