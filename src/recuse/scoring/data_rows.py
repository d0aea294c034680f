"""Numbers of rows in errors, as they are counted in files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["data_rows"]

_PLACE = re.compile(r"at row (\d+)(?: \(label (\d+)\))?")  # of the library, which counts from 0


@contextmanager
def data_rows(first: int = 0) -> Iterator[None]:
    """Count rows in errors of the library as files do, from 1, if `first` is the label of the first row."""
    try:
        yield
    except ValueError as error:
        if not _PLACE.search(str(error)):
            raise
        text = _PLACE.sub(lambda found: f"in data row {int(found[2] or found[1]) + 1 - first:,}", str(error))
        raise ValueError(text) from error
