"""Description of what a saved model reads: the columns of a table with types, ranges and categories, or images."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, Self

from recuse.model_file.errors import ConversionError, ModelFileError
from recuse.model_file.graph.operators import DOUBLE, FLOAT, INT64, ROWS, STRING

__all__ = [
    "MISSING_TIME",
    "UNKNOWN_TIME",
    "ColumnSchema",
    "ImageSchema",
    "Inputs",
    "Kind",
    "Level",
    "TableSchema",
    "free_text",
    "level_text",
    "schema_from_dict",
    "schema_of",
]

Inputs = dict[str, tuple[str, tuple[int, ...]]]  # type and shape by name

Kind = Literal["number", "date", "category", "unused"]

MISSING_TIME = -(2**63)  # NaT of numpy
UNKNOWN_TIME = -(2**63) + 1  # a cell that is not a date
_RESERVED = {"cost", "prediction", "expected_loss", "score", "accepted"}
_KINDS = ("number", "date", "category", "unused")
_TYPES = {"number": DOUBLE, "date": INT64, "category": STRING}
_MATRIX = "X"


@dataclass(frozen=True)
class Level:
    """A category: its value in a table, and the text for the graph.

    `value` is None for a value that JSON does not have, such as an interval; it is then found by its text. `seen` is
    false for a category that was declared but has no training row.
    """

    text: str
    value: str | int | float | bool | None = None
    seen: bool = True


@dataclass(frozen=True)
class ColumnSchema:
    """One column of a table.

    Attributes
    ----------
    name : str or int
    kind : {"number", "date", "category", "unused"}
    input : str
        Name of the input of the graph.
    had_missing : bool
        Whether training rows had missing cells.
    low, high : float or None
        Range of numbers in training; of dates in seconds since 1970.
    had_text : bool
        Whether a column of numbers had texts such as "n/a" in training; they count as missing.
    zone : str or None
        Time zone of dates.
    levels : tuple of Level
    missing : str
        Text that stands for a missing category.
    reason : str
        Why a column is not used.
    """

    name: str | int
    kind: Kind
    input: str = ""
    had_missing: bool = False
    low: float | None = None
    high: float | None = None
    had_text: bool = False
    zone: str | None = None
    levels: tuple[Level, ...] = field(default=(), repr=False)
    missing: str = ""
    reason: str = ""

    @property
    def expected(self) -> str:
        """What the column must hold, for messages."""
        if self.kind == "category":
            seen = [level.text if level.value is None else level.value for level in self.levels if level.seen]
            shown = ", ".join(map(repr, seen[:10]))
            more = f", ... and {len(seen) - 10:,} more" if len(seen) > 10 else ""
            return f"a category seen in training, one of [{shown}{more}]"
        return {"number": "numbers as in training", "date": "dates or times as in training"}.get(self.kind, "anything")


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table.

    Attributes
    ----------
    columns : tuple of ColumnSchema
    matrix : str or None
        Name of the input of the graph if the table was an array without column names.
    unseen : {"novel", "error", "keep"}
        As in `recuse.tabular.encoder.TableEncoder`.
    """

    columns: tuple[ColumnSchema, ...]
    matrix: str | None = None
    unseen: Literal["novel", "error", "keep"] = "novel"

    def with_numbers(self, names: Sequence[str]) -> Self:
        """Return the columns with others of numbers after them; raise a ConversionError for a name in use."""
        taken = [name for name in names if name in [column.name for column in self.columns]]
        if taken:
            raise ConversionError(f"the name {taken[0]!r} of an expert is also that of a column: give it another")
        more = (ColumnSchema(name, "number", _input_name(name), had_missing=True) for name in names)
        return replace(self, columns=(*self.columns, *more))

    @property
    def names(self) -> list[str | int]:
        """The names of the columns that are used."""
        return [column.name for column in self.columns if column.kind != "unused"]

    def inputs(self) -> Inputs:
        """Return the inputs of the graph: one for each used column, or one matrix for a table without names."""
        if self.matrix is not None:
            return {self.matrix: (DOUBLE, (ROWS, len(self.columns)))}
        used = [column for column in self.columns if column.kind != "unused"]
        return {column.input: (_TYPES[column.kind], (ROWS, 1)) for column in used}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": "table", **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; raise a ModelFileError if a value is wrong."""
        try:
            columns = tuple(_column_of(column) for column in values["columns"])
            schema = cls(columns, values["matrix"], values["unseen"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"the header has no valid schema of the columns: {error}") from error
        valid_matrix = schema.matrix is None or isinstance(schema.matrix, str)
        if not valid_matrix or schema.unseen not in ("novel", "error", "keep") or not columns:
            raise ModelFileError("the header has no valid schema of the columns")
        return schema


@dataclass(frozen=True)
class ImageSchema:
    """Images of one size.

    Attributes
    ----------
    shape : tuple of int
        Channels, height and width.
    """

    shape: tuple[int, int, int]

    def inputs(self) -> Inputs:
        """Return the input of the graph."""
        return {"image": (FLOAT, (ROWS, *self.shape))}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": "image", "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; raise a ModelFileError if a value is wrong."""
        shape = values.get("shape")
        if not isinstance(shape, list) or len(shape) != 3 or not all(type(size) is int and size > 0 for size in shape):
            raise ModelFileError(f"the header has no valid size of the images: {shape!r:.80}")
        return cls((shape[0], shape[1], shape[2]))


def schema_from_dict(values: Mapping[str, Any]) -> TableSchema | ImageSchema:
    """Read the schema of a table or of images from the header of a file."""
    match values.get("kind"):
        case "table":
            return TableSchema.from_dict({name: value for name, value in values.items() if name != "kind"})
        case "image":
            return ImageSchema.from_dict(values)
    raise ModelFileError(f"the header must describe a table or images, got {values.get('kind')!r:.80}")


def _column_of(values: Mapping[str, Any]) -> ColumnSchema:
    levels = tuple(Level(**level) for level in values["levels"])
    column = ColumnSchema(**{**values, "levels": levels})
    texts = (column.input, column.missing, column.reason, *(level.text for level in levels))
    numbers = [number for number in (column.low, column.high) if number is not None]
    valid = (
        isinstance(column.name, str | int)
        and column.kind in _KINDS
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        and all(isinstance(flag, bool) for flag in (column.had_missing, column.had_text))
        and (column.zone is None or isinstance(column.zone, str))
        and all(level.value is None or isinstance(level.value, str | int | float) for level in levels)
    )
    if not valid:
        raise ModelFileError(f"the header has no valid schema of column {values.get('name')!r:.80}")
    return column


def schema_of(encoder: Any) -> TableSchema:
    """Describe the columns that a fitted `TableEncoder` learned.

    Examples
    --------
    >>> import pandas as pd
    >>> from recuse.tabular.encoder import TableEncoder
    >>> cars = pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]})
    >>> schema = schema_of(TableEncoder().fit(cars))
    >>> [(column.name, column.kind) for column in schema.columns]
    [('weight', 'number'), ('origin', 'category')]
    """
    columns = tuple(_describe(column) for column in encoder.columns_)
    return TableSchema(columns, None if encoder._named else _MATRIX, encoder.unseen)


def _describe(column: Any) -> ColumnSchema:
    """Describe one learned column."""
    from recuse.tabular.columns import CategoryColumn, NumericColumn
    from recuse.tabular.dates import DateColumn

    if not isinstance(column.name, str) and not _is_int(column.name):
        raise ConversionError(f"column names must be text or whole numbers to be saved, got {column.name!r:.80}")
    if not _is_unicode(str(column.name)):
        raise ConversionError(f"column names must be valid Unicode to be saved, got {column.name!r:.80}")
    name = column.name if isinstance(column.name, str) else int(column.name)
    of_graph = _input_name(str(name))
    match column:
        case NumericColumn(flag_missing=flag, range=limits, had_text=text):
            return ColumnSchema(name, "number", of_graph, flag, limits.low, limits.high, had_text=text)
        case DateColumn(trend=trend, zone=zone):
            limits = trend.range
            return ColumnSchema(name, "date", of_graph, trend.flag_missing, limits.low, limits.high, zone=zone)
        case CategoryColumn(flag_missing=flag):
            levels = _levels(column)
            marker = "" if all(level.text for level in levels) else free_text([level.text for level in levels], "\0")
            return ColumnSchema(name, "category", of_graph, flag, levels=levels, missing=marker)
    return ColumnSchema(name, "unused", of_graph, reason=column.reason)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; a part of a surrogate pair cannot."""
    return text.encode("utf-8", errors="ignore").decode("utf-8") == text


def _is_int(name: object) -> bool:
    return hasattr(name, "__index__") and not isinstance(name, bool)


def _input_name(name: str) -> str:
    """Return the name of a column's input, which must differ from the names that graphs use themselves."""
    return f"column:{name}" if name in _RESERVED or name.startswith(("/", "column:")) or not name else name


def _levels(column: Any) -> tuple[Level, ...]:
    values = [*column.levels, *column.pooled]
    absent = set(column.absent)
    levels = tuple(Level(level_text(value), _plain(value), value not in absent) for value in values)
    texts = [level.text for level in levels]
    wrong = [text for text in texts if not _is_unicode(text)]
    if wrong:
        raise ConversionError(f"column {column.name!r} has a category that is not valid Unicode: {wrong[0]!r:.80}")
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ConversionError(
            f"column {column.name!r} has different categories with the same text {twice!r:.80}, "
            "such as 1 and '1': give them different names to save the model"
        )
    return levels


def level_text(value: Any) -> str:
    """Return the text of a category; equal values have equal texts.

    Examples
    --------
    >>> from decimal import Decimal
    >>> level_text("eu"), level_text(3), level_text(Decimal("1.00"))
    ('eu', '3', '1')
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return str(value.normalize()) if isinstance(value, Decimal) else str(value)


def free_text(texts: Iterable[str], first: str) -> str:
    """Return a text that is not among the given ones: a repetition of `first`.

    Examples
    --------
    >>> free_text(["a", "-"], "-")
    '--'
    """
    taken, text = set(texts), first
    while text in taken:
        text += first
    return text


def _plain(value: Any) -> str | int | float | bool | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool) else None
