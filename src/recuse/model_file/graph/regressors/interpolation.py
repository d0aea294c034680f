"""Piecewise linear functions of columns in a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.operators import DOUBLE, FLOAT, INT64

__all__ = ["Pieces", "interpolated", "piecewise", "rank_pieces"]

Floats = NDArray[np.float64]

_LARGEST_SLOPE = 1e300
# Up to this offset, slope * x + offset is as accurate as slope * (x - start) + value.
_LARGEST_OFFSET = 1e4
# So many pieces are searched in one step.
_FEW = 16


@dataclass(frozen=True)
class Pieces:
    """Pieces value + slope * (x - start) of a function of a column.

    Attributes
    ----------
    start, slope, value : ndarray of shape (piece,)
    ends : ndarray of shape (piece,)
        Each piece holds up to and including its end; the last end is infinite.
    """

    start: Floats
    slope: Floats
    value: Floats
    ends: Floats

    def padded(self, size: int) -> Pieces:
        """Return as many pieces as given; those added are never reached."""
        more = size - len(self.start)
        start, slope, value = (np.pad(each, (0, more)) for each in (self.start, self.slope, self.value))
        return Pieces(start, slope, value, np.pad(self.ends, (0, more), constant_values=np.inf))


def rank_pieces(quantiles: Floats, ranks: Floats) -> Pieces:
    """Return the ranks of a column, as `QuantileTransformer` computes them.

    It averages an interpolation from the left and one from the right, so the rank of a repeated quantile is the mean
    of its first and last rank. Such a quantile is a piece of its own.

    Examples
    --------
    >>> rank_pieces(np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 1.0]))
    Pieces(start=array([1., 1., 2., 4.]), slope=array([0.  , 0.5 , 0.25, 0.  ]),
           value=array([0. , 0. , 0.5, 1. ]), ends=array([ 1.,  2.,  4., inf]))
    """
    knot, first, count = np.unique(quantiles, return_index=True, return_counts=True)
    low, high = ranks[first], ranks[first + count - 1]
    at = (low + high) / 2
    at[-1], at[0], low[0] = 1.0, 0.0, 0.0
    single = np.flatnonzero(at != low)
    rise = (low[1:] - high[:-1]) / np.maximum(np.diff(knot), 1 / _LARGEST_SLOPE)
    ends = np.where(at != low, np.nextafter(knot, -np.inf), knot)
    # the pieces to the left of each knot, the piece right of all knots, and those of repeated quantiles
    order = np.argsort(np.concatenate([np.arange(len(knot) + 1), single + 0.5]))
    return Pieces(
        np.concatenate([knot[:1], knot, knot[single]])[order],
        np.concatenate([[0.0], rise, [0.0], np.zeros(len(single))])[order],
        np.concatenate([[0.0], high[:-1], [1.0], at[single]])[order],
        np.concatenate([ends, [np.inf], knot[single]])[order],
    )


def interpolated(knots: Floats, values: Floats) -> Pieces:
    """Return the linear interpolation between increasing knots; beyond them it is constant."""
    return Pieces(
        np.concatenate([knots[:1], knots]),
        np.concatenate([[0.0], np.diff(values) / np.diff(knots), [0.0]]),
        np.concatenate([values[:1], values]),
        np.concatenate([knots, [np.inf]]),
    )


def piecewise(x: Value, columns: list[Pieces]) -> Value:
    """Apply a piecewise linear function to each column of x."""
    size = max(len(each.start) for each in columns)
    padded = [each.padded(size) for each in columns]
    start, slope, value, ends = (
        np.stack([getattr(each, name) for each in padded]) for name in ("start", "slope", "value", "ends")
    )
    place = _places(x, ends)
    if np.abs(slope * start).max() < _LARGEST_OFFSET:
        return x * _cells(place, slope) + _cells(place, value - slope * start)
    return (x - _cells(place, start)) * _cells(place, slope) + _cells(place, value)


def _cells(place: Value, table: Floats) -> Value:
    """Return the cells of a table (column, piece) at places (row, column)."""
    return place.graph.constant(table.reshape(-1)).take(place, 0)


def _places(x: Value, ends: Floats) -> Value:
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
    rows: Floats = np.arange(columns, dtype=np.float64) * blocks
    near = inner.take((block + rows).cast(INT64), 0)
    place = (x.unsqueeze(2) > near).cast(FLOAT).sum(axis=2).cast(DOUBLE)
    return (block * float(width) + place + first).cast(INT64)


def _count_below(x: Value, ends: Floats) -> Value:
    """Return how many of the ends (column, end) are below each value.

    Copies of x and a product of matrices cost less than a comparison with broadcasting and a sum over an axis.
    """
    columns, count = ends.shape
    below = concat([x] * count, 1) > ends.T.reshape(-1)
    return (below.cast(FLOAT) @ np.tile(np.eye(columns), (count, 1))).cast(DOUBLE)
