"""Names of table files: formats by ending, standard streams, and checked column names."""

from __future__ import annotations

import sys
from collections import Counter
from typing import BinaryIO

STANDARD_STREAM = "-"
_FORMATS = {
    **dict.fromkeys((".csv", ".txt", ".tsv", ".csv.gz", ".tsv.gz"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}


def file_format(path: str) -> str:
    """Return "csv", "parquet" or "arrow" for the ending of a path; "-" is CSV.

    Examples
    --------
    >>> file_format("rows.csv.gz"), file_format("rows.feather"), file_format("-")
    ('csv', 'arrow', 'csv')
    >>> file_format("rows.xlsx")
    Traceback (most recent call last):
    ValueError: rows.xlsx must end with one of .csv, .txt, .tsv, .csv.gz, .tsv.gz, .parquet, .pq, .arrow, .feather, .ipc
    """
    if path == STANDARD_STREAM:
        return "csv"
    for ending, kind in _FORMATS.items():
        if path.lower().endswith(ending):
            return kind
    raise ValueError(f"{path} must end with one of {', '.join(_FORMATS)}")


def source_name(path: str) -> str:
    """Return the name of a table for messages.

    Examples
    --------
    >>> source_name("-"), source_name("rows.csv")
    ('standard input', 'rows.csv')
    """
    return "standard input" if path == STANDARD_STREAM else path


def standard_input() -> BinaryIO:
    """Return standard input as a binary file; raise an error if the process was started without one."""
    if sys.stdin is None:
        raise ValueError("standard input is closed: give the path of a table")
    return sys.stdin.buffer


def check_names(names: list[str], path: str) -> None:
    """Raise an error if two columns of a table have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{source_name(path)} must have different column names, got {twice[0]!r} more than once")


def unreadable(path: str, kind: str, error: Exception) -> ValueError:
    """Return the error for a file that is not of the format that its ending says.

    Examples
    --------
    >>> unreadable("rows.parquet", "parquet", OSError("no magic bytes."))
    ValueError('rows.parquet cannot be read as a file of Parquet: no magic bytes')
    """
    reason = str(error).partition("\n")[0].rstrip(".")
    return ValueError(f"{path} cannot be read as a file of {kind.capitalize()}: {reason:.200}")
