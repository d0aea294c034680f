"""Division of files into parts: whole chunks of the file, or slices of large chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Part", "part_rows", "parts_of"]

_CELLS = 2**21  # of a part, about 16 MB of numbers
_MOST_ROWS, _FEWEST_ROWS = 2**17, 2**12


@dataclass(frozen=True)
class Part:
    """Some rows of a file.

    Attributes
    ----------
    number : int
        Position among the parts of all files.
    file : int
        Position of the file.
    first, rows : int
        Number of the first row in the file, and number of rows.
    chunks : tuple of int
        First and last row group or record batch, the last one excluded.
    offset : int
        Rows of these chunks that are before the part.
    """

    number: int
    file: int
    first: int
    rows: int
    chunks: tuple[int, int] = (0, 0)
    offset: int = 0


def part_rows(columns: int) -> int:
    """Return the number of rows of a part, for a number of columns that are read.

    Examples
    --------
    >>> part_rows(16), part_rows(200)
    (131072, 10485)
    """
    return min(max(_CELLS // max(columns, 1), _FEWEST_ROWS), _MOST_ROWS)


def parts_of(sizes: Sequence[int], limit: int, *, file: int = 0, number: int = 0) -> Iterator[Part]:
    """Divide the chunks of a file, given by their numbers of rows; small chunks are put together.

    Examples
    --------
    >>> for part in parts_of([10, 10, 70], limit=30):
    ...     print(part.first, part.rows, part.chunks, part.offset)
    0 20 (0, 2) 0
    20 30 (2, 3) 0
    50 30 (2, 3) 30
    80 10 (2, 3) 60
    """
    first = 0
    for start, stop in _joined(sizes, limit):
        rows = sum(sizes[start:stop])
        for offset in range(0, rows, limit):
            count = min(limit, rows - offset)
            yield Part(number, file, first + offset, count, (start, stop), offset)
            number += 1
        first += rows


def _joined(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of chunks that together have at most `limit` rows, or that are one chunk."""
    start = rows = 0
    for place, size in enumerate(sizes):
        if place > start and rows + size > limit:
            yield start, place
            start, rows = place, 0
        rows += size
    if start < len(sizes):
        yield start, len(sizes)
