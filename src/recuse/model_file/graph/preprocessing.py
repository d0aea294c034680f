"""Converters of transformers of numeric features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import (
    QuantileTransformer,
)

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.conversion import converts
from recuse.model_file.graph.linear import constant_rows
from recuse.model_file.graph.operators import DOUBLE, FLOAT, INT64
from recuse.tabular.columns import DroppedColumn, NumericColumn

__all__ = ["standardised"]

Floats = NDArray[np.float64]

_LARGEST_SLOPE = 1e300
_LARGEST_OFFSET = 1e4  # up to which slope * x + offset is as accurate as slope * (x - start) + value
_FEW = 16


def standardised(encoder: Any, x: Value) -> Value:
    """Return the features of a `TableEncoder` of numeric columns without missing cells."""
    kept = [place for place, column in enumerate(encoder.columns_) if not isinstance(column, DroppedColumn)]
    columns = [encoder.columns_[place] for place in kept]
    for column in columns:
        if not isinstance(column, NumericColumn):
            raise ConversionError(
                f"an encoder of {type(column).__name__} {column.name!r} inside a model cannot be saved in a model "
                "file: use numeric columns"
            )
    values = x if kept == list(range(x.shape[1])) else x.take(kept, 1)
    if encoder.unseen != "keep":
        low, high = (np.array([column.range.clip(end) for column in columns]) for end in (-np.inf, np.inf))
        values = values.clip(low, high)
    values = (values - [column.mean for column in columns]) / [column.scale for column in columns]
    if not any(column.flag_missing for column in columns):
        return values
    flag = len(columns)
    order = [place for number, column in enumerate(columns) for place in (number, flag)[: column.n_features]]
    return concat([values, constant_rows(x, [0.0])], 1).take(order, 1)


@converts(QuantileTransformer)
def _quantiles(model: Any, x: Value) -> Value:
    if model.output_distribution != "uniform":
        raise ConversionError(
            f"QuantileTransformer(output_distribution={model.output_distribution!r}) cannot be saved in a model file: "
            "use output_distribution='uniform'"
        )
    pieces = [_rank_pieces(column, model.references_) for column in np.asarray(model.quantiles_, np.float64).T]
    start, slope, value = (_table(pieces, name, 0.0) for name in ("start", "slope", "value"))
    piece = _interval(x, _table(pieces, "ends", np.inf))
    if np.abs(slope * start).max() < _LARGEST_OFFSET:
        return x * _cells(piece, slope) + _cells(piece, value - slope * start)
    return (x - _cells(piece, start)) * _cells(piece, slope) + _cells(piece, value)


def _table(pieces: Sequence[_Pieces], name: str, fill: float) -> Floats:
    """Return an array (column, piece) of one number of each piece; columns with fewer pieces are filled."""
    table = np.full((len(pieces), max(len(each.start) for each in pieces)), fill)
    for row, each in zip(table, pieces, strict=True):
        values = getattr(each, name)
        row[: len(values)] = values
    return table


def _cells(place: Value, table: Floats) -> Value:
    """Return the cells of a table (column, piece) at a place (row, column)."""
    return place.graph.constant(table.reshape(-1)).take(place, 0)


def _interval(x: Value, ends: Floats) -> Value:
    """Return the place in a table (column, piece) of the first end that is not below each value.

    A search in two steps compares each value with about 2 sqrt(n) of n ends.
    """
    columns, size = ends.shape
    first: Floats = np.arange(columns, dtype=np.float64) * size
    if size <= _FEW:
        return (_count_below(x, ends[:, :-1]) + first).cast(INT64)
    width = int(np.ceil(np.sqrt(size)))
    blocks = -(-size // width)
    padded = np.full((columns, blocks * width), np.inf)
    padded[:, :size] = ends
    padded = padded.reshape(columns, blocks, width)
    block = _count_below(x, padded[:, :-1, -1])
    inner = x.graph.constant(padded[:, :, :-1].reshape(columns * blocks, -1))
    place = _count_below(x, inner.take((block + np.arange(columns) * blocks).cast(INT64), 0))
    return (block * width + place + first).cast(INT64)


def _count_below(x: Value, ends: Floats | Value) -> Value:
    """Return how many of the ends (column, end) or (row, column, end) are below each value."""
    return (x.unsqueeze(2) > ends).cast(FLOAT).sum(axis=2).cast(DOUBLE)


@dataclass(frozen=True)
class _Pieces:
    """Pieces value + slope * (x - start) of a function; each but the last holds up to and including its end."""

    start: Floats
    slope: Floats
    value: Floats
    ends: Floats  # (piece - 1,)


def _rank_pieces(quantiles: Floats, ranks: Floats) -> _Pieces:
    """Return the pieces of the ranks of a column.

    scikit-learn averages an interpolation from the left and one from the right, so the rank of a repeated quantile is
    the mean of its first and last rank. Such a quantile is a piece of its own.
    """
    knot, first, count = np.unique(quantiles, return_index=True, return_counts=True)
    low, high = ranks[first], ranks[first + count - 1]
    at = (low + high) / 2
    at[-1], at[0], low[0] = 1.0, 0.0, 0.0
    single = np.flatnonzero(at != low)
    rise = (low[1:] - high[:-1]) / np.maximum(np.diff(knot), 1 / _LARGEST_SLOPE)
    ends = np.where(at != low, np.nextafter(knot, -np.inf), knot)
    # the pieces to the left of each knot, the piece right of all knots, and those of repeated quantiles
    places = np.concatenate([np.arange(len(knot) + 1), single + 0.5])
    order = np.argsort(places)
    return _Pieces(
        np.concatenate([knot[:1], knot, knot[single]])[order],
        np.concatenate([[0.0], rise, [0.0], np.zeros(len(single))])[order],
        np.concatenate([[0.0], high[:-1], [1.0], at[single]])[order],
        np.concatenate([ends, [np.inf], knot[single]])[order][:-1],
    )
