"""CSV files: parts with their rows, read one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from recuse.files.csv_blocks import CsvBlocks
from recuse.scoring.sources.parts import Part, part_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["csv_parts"]


def csv_parts(
    file: CsvBlocks, text: Collection[str], numbers: Collection[str], keep: Sequence[str]
) -> Iterator[tuple[Part, pd.DataFrame, pd.DataFrame]]:
    """Yield each part with its rows and its kept columns, whose cells are those of the file.

    Parameters
    ----------
    file : CsvBlocks
    text, numbers : collection of str
        Columns to read as text, and as numbers.
    keep : sequence of str
    """
    for number, block in enumerate(file.blocks(part_rows(len(file.names)), {*text, *keep})):
        part = Part(number, 0, int(block.index[0]), len(block))
        yield part, file.with_points(block, numbers), block[list(keep)]
