"""The inputs of a graph, and the description of what a model reads in the header of a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from recuse.model_file.errors import ConversionError, ModelFileError
from recuse.model_file.graph.operators import DOUBLE, FLOAT, INT64, ROWS, STRING
from recuse.tabular.codecs import Dialect, Level
from recuse.tabular.schema import Column, Kind, TableSchema

__all__ = [
    "UNKNOWN_TIME",
    "ImageSchema",
    "Inputs",
    "check_savable",
    "input_name",
    "inputs_of",
    "missing_text",
    "schema_from_dict",
    "schema_to_dict",
    "unknown_text",
    "with_numbers",
]

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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the header of a file; raise a ModelFileError if a value is wrong."""
        shape = values.get("shape")
        if not isinstance(shape, list) or len(shape) != 3 or not all(type(size) is int and size > 0 for size in shape):
            raise ModelFileError(f"the header has no valid size of the images: {shape!r:.80}")
        return cls((shape[0], shape[1], shape[2]))


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


def schema_to_dict(schema: TableSchema | ImageSchema) -> dict[str, Any]:
    """Return plain values for JSON."""
    return {"kind": "image" if isinstance(schema, ImageSchema) else "table", **asdict(schema)}


def schema_from_dict(values: Mapping[str, Any]) -> TableSchema | ImageSchema:
    """Read the schema of a table or of images from the header of a file; raise a ModelFileError if it is wrong."""
    match values.get("kind"):
        case "table":
            return _table_of(values)
        case "image":
            return ImageSchema.from_dict(values)
    raise ModelFileError(f"the header must describe a table or images, got {values.get('kind')!r:.80}")


def _table_of(values: Mapping[str, Any]) -> TableSchema:
    try:
        columns = tuple(_column_of(column) for column in values["columns"])
        schema = TableSchema(columns, values["matrix"], values["unseen"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"the header has no valid schema of the columns: {error}") from error
    valid_matrix = schema.matrix is None or isinstance(schema.matrix, str)
    if not valid_matrix or schema.unseen not in ("novel", "error", "keep") or not columns:
        raise ModelFileError("the header has no valid schema of the columns")
    return schema


def _column_of(values: Mapping[str, Any]) -> Column:
    levels = tuple(Level(**level) for level in values["levels"])
    known = {"kind": Kind(values["kind"]), "levels": levels, "dialect": Dialect(**values["dialect"])}
    column = Column(**{**values, **known})
    texts = (column.reason, *vars(column.dialect).values(), *(level.text for level in levels))
    numbers = [number for number in (column.low, column.high) if number is not None]
    valid = (
        isinstance(column.name, str | int)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        and all(isinstance(flag, bool) for flag in (column.had_missing, column.had_text))
        and (column.zone is None or isinstance(column.zone, str))
        and all(level.value is None or isinstance(level.value, str | int | float) for level in levels)
    )
    if not valid:
        raise ModelFileError(f"the header has no valid schema of column {values.get('name')!r:.80}")
    return column


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
