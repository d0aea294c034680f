"""What a model reads: inputs of its graph, and an example of a row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.operators import DOUBLE, FLOAT, INT64, ROWS, STRING
from recuse.tabular.schema import Column, Kind, TableSchema

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel

Inputs = dict[str, tuple[str, tuple[int, ...]]]  # type and shape by name

UNKNOWN_TIME = -(2**63) + 1  # a cell that is not a date
_RESERVED = {"cost", "prediction", "expected_loss", "score", "accepted"}
_TYPES = {Kind.NUMBER: DOUBLE, Kind.DATE: INT64, Kind.CATEGORY: STRING}


@dataclass(frozen=True)
class ImageSchema:
    """Images of one size.

    Attributes
    ----------
    shape : tuple of int
        Channels, height and width.
    """

    shape: tuple[int, int, int]


def inputs_of(schema: TableSchema | ImageSchema) -> Inputs:
    """Return the inputs of a graph: images, one for each used column, or one matrix for a table without names."""
    if isinstance(schema, ImageSchema):
        return {"image": (FLOAT, (ROWS, *schema.shape))}
    if schema.matrix is not None:
        return {schema.matrix: (DOUBLE, (ROWS, len(schema.columns)))}
    return {input_name(column): (_TYPES[column.kind], (ROWS, 1)) for column in schema.used}


def with_numbers(schema: TableSchema, names: Sequence[str]) -> TableSchema:
    """Return the columns with others of numbers after them; raise a ConversionError for a name in use."""
    taken = [name for name in names if name in [column.name for column in schema.columns]]
    if taken:
        raise ConversionError(f"the name {taken[0]!r} of an expert is also that of a column: give it another")
    more = (Column(name, Kind.NUMBER, had_missing=True) for name in names)
    return replace(schema, columns=(*schema.columns, *more))


def input_name(column: Column) -> str:
    """Return the name of a column's input, which must differ from the names that graphs use themselves."""
    name = str(column.name)
    return f"column:{name}" if name in _RESERVED or name.startswith(("/", "column:")) or not name else name


def missing_text(column: Column) -> str:
    """Return the text of a missing category: "", unless a category has this name.

    Examples
    --------
    >>> from recuse.tabular.codecs import Level
    >>> missing_text(Column("origin", Kind.CATEGORY, levels=(Level("eu"),)))
    ''
    """
    return "" if all(level.text for level in column.levels) else _free_text(column, "\0")


def unknown_text(column: Column) -> str:
    """Return a text that is no category."""
    return _free_text(column, "\1")


def _free_text(column: Column, first: str) -> str:
    taken, text = {level.text for level in column.levels}, first
    while text in taken:
        text += first
    return text


def check_savable(schema: TableSchema) -> None:
    """Raise a ConversionError if a name or a category cannot be written to a file."""
    for column in schema.columns:
        if not isinstance(column.name, str | int) or isinstance(column.name, bool):
            raise ConversionError(f"column names must be text or whole numbers to be saved, got {column.name!r:.80}")
        if _not_unicode([str(column.name)]):
            raise ConversionError(f"column names must be valid Unicode to be saved, got {column.name!r:.80}")
        wrong = _not_unicode(level.text for level in column.levels)
        if wrong:
            raise ConversionError(f"column {column.name!r} has a category that is not valid Unicode: {wrong[0]!r:.80}")


def _not_unicode(texts: Iterable[str]) -> list[str]:
    """Return the texts that UTF-8 cannot hold, such as a part of a surrogate pair."""
    return [text for text in texts if text.encode("utf-8", errors="ignore").decode("utf-8") != text]


def example_row(model: ServedModel) -> dict[str, Any]:
    """Return a row in the middle of the training ranges, by the names of the columns as text; not for images."""
    assert isinstance(model.schema, TableSchema)
    row = {str(column.name): example_cell(column) for column in model.schema.used}
    return {**row, model.cost_: 1.0} if isinstance(model.cost_, str) else row


def example_cell(column: Column) -> Any:
    """Return a value of a column that training rows had, or that lies among theirs.

    Examples
    --------
    >>> from recuse.tabular.schema import Kind
    >>> example_cell(Column("weight", Kind.NUMBER, low=1613.0, high=5140.0))
    3380.0
    """
    if column.kind == "category":
        return next((level.text if level.value is None else level.value for level in column.levels if level.seen), None)
    low, high = column.low or 0.0, column.high or 0.0
    middle, width = (low + high) / 2, high - low
    if column.kind == "date":
        return str(np.datetime64(int(middle), "s").astype("M8[D]"))
    return round(middle, 2 - math.floor(math.log10(width))) if width > 0 else middle
