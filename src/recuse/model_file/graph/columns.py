"""Conversion of the encoding of tables: numbers, dates and categories to features and novelty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.operators import BOOL, DOUBLE, INT64
from recuse.model_file.schema import (
    UNKNOWN_TIME,
    check_savable,
    input_name,
    inputs_of,
    missing_text,
    with_numbers,
)
from recuse.tabular.codecs import MISSING_TIME, Cells, State
from recuse.tabular.encoder import (
    CIRCLE_STEPS,
    CategoryEncoding,
    ColumnEncoding,
    DateEncoding,
    NumberEncoding,
    TableEncoder,
    on_circle,
)
from recuse.tabular.schema import Kind, TableSchema

_DAY = 86_400_000_000  # in microseconds


@dataclass(frozen=True)
class EncodedTable:
    """An encoded table in a graph.

    Attributes
    ----------
    features : Value of shape (row, feature)
    novelty : Value of shape (row, column)
        Only columns that are used.
    columns : list of int
        Positions of these columns in the table.
    """

    features: Value
    novelty: Value
    columns: list[int]


def raw_numbers(schema: TableSchema, inputs: dict[str, Value]) -> Value:
    """Return the numbers of a table (row, column) as they are; missing ones are NaN."""
    if schema.matrix is not None:
        return inputs[schema.matrix]
    for column in schema.columns:
        if column.kind != Kind.NUMBER:
            raise ConversionError(
                f"a prefitted regressor can be saved only if all its columns hold numbers, but column {column.name!r} "
                f"{'has no values' if column.kind == Kind.UNUSED else f'holds a {column.kind}'}: encode it before, or "
                "fit RiskRejector without prefit"
            )
    return concat([inputs[input_name(column)] for column in schema.columns], axis=1)


@dataclass(frozen=True)
class TableInputs:
    """The columns of a table as inputs of a graph.

    Attributes
    ----------
    encoder : TableEncoder
    schema : TableSchema
        The features, and then the numbers that are no features.
    inputs : dict of str to Value
        The features.
    others : dict of str to Value
        Numbers (row, 1) of columns that are no features.
    """

    encoder: TableEncoder
    schema: TableSchema
    inputs: dict[str, Value]
    others: dict[str, Value]

    @property
    def encoded(self) -> EncodedTable:
        """The features as the encoder encodes them; equal nodes of a graph are stored once."""
        return _encoded(self.encoder, self.inputs)


def table_inputs(graph: GraphBuilder, encoder: TableEncoder, others: Sequence[str] = ()) -> TableInputs:
    """Declare the columns of a table as inputs; `others` are numbers that are no features."""
    features = encoder.schema_
    schema = with_numbers(features, others)
    check_savable(schema)
    inputs = {name: graph.input(name, dtype, shape) for name, (dtype, shape) in inputs_of(schema).items()}
    count = len(features.columns)
    if schema.matrix is not None:
        matrix = inputs[schema.matrix]
        numbers = {name: matrix.columns(count + place, count + place + 1) for place, name in enumerate(others)}
        inputs = {schema.matrix: matrix.columns(0, count)}
    else:
        numbers = {str(column.name): inputs[input_name(column)] for column in schema.columns[count:]}
    return TableInputs(encoder, schema, inputs, numbers)


def _encoded(encoder: TableEncoder, inputs: dict[str, Value]) -> EncodedTable:
    """Encode the inputs as `TableEncoder.encode` does.

    Cells that are not numbers or dates are unknown: infinite numbers, and the time `UNKNOWN_TIME`.
    """
    schema = encoder.schema_
    used = [place for place, column in enumerate(schema.columns) if column.kind != Kind.UNUSED]
    blocks: list[Value] = []  # features
    order: list[int] = []  # position of each block's features in the encoding
    novelty: dict[int, Value] = {}
    numeric = [place for place in used if schema.columns[place].kind != Kind.CATEGORY]
    slices = encoder.slices
    if numeric:
        values = _numbers(schema, inputs, numeric)
        learned = [_trend(encoder.columns_[place]) for place in numeric]
        numbers = _encode_numbers(learned, values, keep=encoder.unseen == "keep")
        flagged = [
            slices[place].stop - 1 for place, each in zip(numeric, learned, strict=True) if each.column.had_missing
        ]
        blocks += [numbers.scaled, *([numbers.flags] if numbers.flags is not None else [])]
        order += [slices[place].start for place in numeric] + flagged
        novelty |= {place: numbers.novelty.columns(k, k + 1) for k, place in enumerate(numeric)}
        if numeric == used and not any(_cycles(encoder.columns_[place]) for place in used):
            return EncodedTable(_in_order(concat(blocks, axis=1), order), numbers.novelty, used)
    for place in used:
        encoding, start = encoder.columns_[place], slices[place].start
        if isinstance(encoding, DateEncoding) and _cycles(encoding):
            blocks.append(_encode_cycles(encoding, inputs[input_name(encoding.column)]))
            order += range(start + 1, start + 1 + 2 * len(encoding.cycles))
        if isinstance(encoding, CategoryEncoding):
            cells = _encode_category(encoding, inputs[input_name(encoding.column)], keep=encoder.unseen == "keep")
            width = encoding.n_features
            blocks.append(cells.columns(0, width))
            order += range(start, start + width)
            novelty[place] = cells.columns(width, width + 1)
    novelties = concat([novelty[place] for place in used], axis=1)
    return EncodedTable(_in_order(concat(blocks, axis=1), order), novelties, used)


def _in_order(features: Value, order: Sequence[int]) -> Value:
    """Bring features, whose positions in the encoding are given, into the order of the encoding."""
    return features if list(order) == sorted(order) else features.take(np.argsort(order), axis=1)


def _cycles(encoding: ColumnEncoding) -> tuple[str, ...]:
    return encoding.cycles if isinstance(encoding, DateEncoding) else ()


def _trend(encoding: ColumnEncoding) -> NumberEncoding:
    if isinstance(encoding, DateEncoding):
        return encoding.trend
    assert isinstance(encoding, NumberEncoding)
    return encoding


def _numbers(schema: TableSchema, inputs: dict[str, Value], places: Sequence[int]) -> Value:
    """Return the numbers and the seconds of dates (row, column): NaN if missing, infinite if unknown."""
    if schema.matrix is not None:
        matrix = inputs[schema.matrix]
        return matrix if len(places) == matrix.shape[1] else matrix.take(list(places), axis=1)
    values = [inputs[input_name(schema.columns[place])] for place in places]
    return concat([_seconds(value) if value.dtype == INT64 else value for value in values], axis=1)


def _seconds(time: Value) -> Value:
    seconds = where(time.equals(MISSING_TIME), np.nan, time.cast(DOUBLE) / 1e6)
    return where(time.equals(UNKNOWN_TIME), np.inf, seconds)


@dataclass(frozen=True)
class _Numbers:
    scaled: Value  # (row, column)
    flags: Value | None  # (row, flagged column)
    novelty: Value  # (row, column)


def _encode_numbers(columns: Sequence[NumberEncoding], values: Value, *, keep: bool) -> _Numbers:
    """Encode all numbers at once, by the operations of `NumberEncoding.encode`."""
    low, high, margin = (
        np.array([getattr(column.range, name) for column in columns]) for name in ("low", "high", "margin")
    )
    mean, scale = np.array([column.mean for column in columns]), np.array([column.scale for column in columns])
    has_flag = np.array([each.column.had_missing for each in columns])
    unknown, gap = values.unary("IsInf"), values.unary("IsNaN")
    missing = unknown | gap
    reason = unknown | (gap & values.graph.constant(~has_flag, BOOL)) if has_flag.any() else missing
    filled = where(missing, low, values)
    outside = (low - filled).maximum(filled - high).clip(0.0, margin) / margin
    limited = values if keep else values.clip(low - margin, high + margin)
    scaled = (where(missing, mean, limited) - mean) / scale
    flags = missing.cast(DOUBLE).take(np.flatnonzero(has_flag), axis=1) if has_flag.any() else None
    return _Numbers(scaled, flags, where(reason, 1.0, outside))


def _encode_cycles(column: DateEncoding, time: Value) -> Value:
    """Return sine and cosine (row, 2 * cycle) of month, weekday and hour; 0 if the time is missing."""
    missing = time.equals(MISSING_TIME) | time.equals(UNKNOWN_TIME)
    time = where(missing, 0, time)
    of_day = time % _DAY
    day = (time - of_day) / _DAY
    parts = []
    for cycle in column.cycles:
        if cycle == "month":
            parts.append(_circle(time.graph, 12, shift=2).take(_months_since_march(day), axis=0).squeeze(1))
        elif cycle == "weekday":
            parts.append(_circle(time.graph, 7, shift=3).take(day % 7, axis=0).squeeze(1))  # 1970-01-01: Thursday
        else:
            angle = of_day.cast(DOUBLE) * (2 * np.pi / _DAY)
            exact = concat([angle.unary("Sin"), (angle + np.pi / 2).unary("Sin")], axis=1)
            parts.append((exact * CIRCLE_STEPS + 0.5).unary("Floor") / CIRCLE_STEPS)  # as in `on_circle`
    return where(missing, 0.0, concat(parts, axis=1))


def _circle(graph: GraphBuilder, period: int, shift: int) -> Value:
    """Return sine and cosine (place, 2) of the phases of a cycle, for places that start `shift` after its start."""
    return graph.constant(on_circle(((np.arange(period) + shift) % period) / period))


def _months_since_march(day: Value) -> Value:
    """Return the month, 0 for March, of days since 1970-01-01, by arithmetic on eras of 400 years.

    Years that start in March have the leap day at their end. The months from March to July have 153 days, and so have
    those from August to December, so the month of a day of the year is (5 day + 2) // 153.
    """
    shifted = day + 719_468  # days since 0000-03-01
    of_era = shifted % 146_097
    year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365
    of_year = of_era - (year * 365 + year / 4 - year / 100)
    return (of_year * 5 + 2) / 153


def _encode_category(encoding: CategoryEncoding, text: Value, *, keep: bool) -> Value:
    """Return the features and, last, the novelty of the cells (row, feature + 1), looked up in a table by level."""
    levels = encoding.column.levels
    count = len(levels)
    state = [State.KNOWN if level.seen else State.UNKNOWN for level in levels]
    cells = Cells(np.array([*range(count), -1, -1]), np.array([*state, State.MISSING, State.UNKNOWN], np.int8))
    features = np.zeros((count + 2, encoding.n_features))
    novelty = encoding.encode(cells, features, keep=keep)
    keys = [*(level.text for level in levels), missing_text(encoding.column)]
    code = text.graph.node(
        "LabelEncoder", text, keys_strings=keys, values_int64s=list(range(count + 1)), default_int64=count + 1
    )
    return text.graph.constant(np.column_stack([features, novelty])).take(code, axis=0).squeeze(1)
