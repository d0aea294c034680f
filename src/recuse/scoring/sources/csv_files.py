"""CSV files: parts with their rows, read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from recuse.files.csv_blocks import ColumnType, CsvBlocks, without_words
from recuse.model_file.schema import ColumnSchema
from recuse.scoring.cell_types import convert_csv, text_columns
from recuse.scoring.sources.parts import Part, part_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["csv_parts", "kept_types"]


def kept_types(file: CsvBlocks, keep: Sequence[str], *, words: bool) -> dict[str, ColumnType]:
    """Return the types of the columns that the output keeps, from a pass over the whole file.

    Parameters
    ----------
    file : CsvBlocks
    keep : sequence of str
    words : bool
        Whether numbers beside words for missing values, such as NA, are text.
    """
    return file.column_types(keep, part_rows(len(file.names)), words=words)


def csv_parts(
    file: CsvBlocks, columns: Mapping[str, ColumnSchema], cost: float | str | None, kept: dict[str, ColumnType]
) -> Iterator[tuple[Part, pd.DataFrame, pd.DataFrame]]:
    """Yield each part with its rows and its kept columns.

    Parameters
    ----------
    file : CsvBlocks
    columns : mapping of str to ColumnSchema
        The columns of the model by their names in the file.
    cost : float, str or None
        A number, or the name of a column.
    kept : dict of str to {"text", "int64", "float64"}
    """
    import pandas as pd

    text = text_columns(columns) | {name for name, kind in kept.items() if kind == "text"}
    verbatim = text & kept.keys()
    costs = [cost] if isinstance(cost, str) else []
    read = verbatim & {*columns, *costs}
    for number, block in enumerate(file.blocks(part_rows(len(file.names)), text, verbatim)):
        part = Part(number, 0, int(block.index[0]), len(block))
        chosen = {
            name: block[name] if kind == "text" or name in text else block[name].astype(kind)
            for name, kind in kept.items()
        }
        rows = convert_csv(columns, without_words(block, read), file.decimal, costs)
        yield part, rows, pd.DataFrame(chosen, index=block.index)
