"""Tables of rows, and shuffled batches of them, padded to the layout of a stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recuse.engine.stack import Array, pad_rows, with_bias

_CHUNK = 1024  # rows validated at once, few enough to stay in the cache


@dataclass(frozen=True)
class Table:
    """Training or validation rows, in single precision.

    Attributes
    ----------
    x : ndarray of shape (row, feature)
    y : ndarray of shape (row,)
    weight : ndarray of shape (row,), optional
        Relative weight of the rows.
    cost : ndarray of shape (row,), optional
        Cost of each row. Without it, every member has its own cost for all rows.
    rejector_x : ndarray of shape (row, feature), optional
        Features of the rejector, if they differ from `x`.
    seed : int
        Determines the order of the minibatches.
    """

    x: Array
    y: Array
    weight: Array | None = None
    cost: Array | None = None
    rejector_x: Array | None = None
    seed: int = 0

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all rows, or the number of rows if there are no weights."""
        return float(len(self.y) if self.weight is None else self.weight.sum())

    def take(self, rows: Array) -> Table:
        """Return the table of some rows."""
        columns = ("x", "y", "weight", "cost", "rejector_x")
        some = {name: column[rows] for name in columns if (column := getattr(self, name)) is not None}
        return replace(self, **some)

    def padded(self, rows: int) -> Table:
        """Return a table with this number of rows, padded with copies of the first row that have weight zero."""
        there = np.arange(rows) < len(self.y)
        taken = self.take(np.arange(rows) * there)
        weight = np.ones_like(taken.y) if taken.weight is None else taken.weight
        return replace(taken, weight=weight * there)


@dataclass(frozen=True)
class Batch:
    """The same number of rows of every table, padded with rows of weight zero."""

    x: Array  # (table, feature, row)
    rejector_x: Array  # (table, feature, row)
    y: Array  # (table, 1, row)
    share: Array  # (table, 1, row): the weight of a row in the mean over the batch
    cost: Array | None  # (table, 1, row)
    real: int  # number of rows that are not padding


class Batches:
    """Batches of several tables with the same number of rows.

    Parameters
    ----------
    tables : sequence of Table
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        lengths = {len(table.y) for table in tables}
        if len(lengths) != 1:
            raise ValueError(f"tables trained together must have the same number of rows, got {sorted(lengths)}")
        self.rows, self.seeds = lengths.pop(), [table.seed for table in tables]
        # one more row of zeros at the end, which pads the batches
        self._x = [with_bias(t.x, self.rows + 1) for t in tables]
        self._rejector_x = self._x
        if any(t.rejector_x is not None for t in tables):
            self._rejector_x = [with_bias(t.x if t.rejector_x is None else t.rejector_x, self.rows + 1) for t in tables]
        self._y = [_with_zero(t.y) for t in tables]
        self._weight = [_with_zero(_relative(t)) for t in tables]
        costs = [_with_zero(t.cost) for t in tables if t.cost is not None]
        if len(costs) not in (0, len(tables)):
            raise ValueError(f"either all tables have a cost per row or none, got {len(costs)} of {len(tables)}")
        self._cost = costs or None
        self._fixed: dict[int, list[Batch]] = {}

    def shuffled(self, batch_size: int, phase: int, epoch: int) -> Iterator[Batch]:
        """Yield minibatches in an order that depends on the table's seed, the phase and the epoch only."""
        if self.rows <= batch_size:
            return iter(self.in_order(batch_size))
        orders = [np.random.default_rng([seed, phase, epoch]).permutation(self.rows) for seed in self.seeds]
        return self._batches(np.stack(orders), batch_size)

    def in_order(self, chunk: int = _CHUNK) -> list[Batch]:
        """Return batches of consecutive rows. They are made once."""
        if chunk not in self._fixed:
            orders = np.tile(np.arange(self.rows), (len(self.seeds), 1))
            self._fixed[chunk] = list(self._batches(orders, chunk))
        return self._fixed[chunk]

    def _batches(self, orders: Array, size: int) -> Iterator[Batch]:
        for start in range(0, self.rows, size):
            chosen = orders[:, start : start + size]
            real = chosen.shape[1]
            yield self._batch(np.pad(chosen, ((0, 0), (0, pad_rows(real) - real)), constant_values=self.rows), real)

    def _batch(self, index: Array, real: int) -> Batch:
        x = _gather(self._x, index)
        return Batch(
            x=x,
            rejector_x=x if self._rejector_x is self._x else _gather(self._rejector_x, index),
            y=_gather(self._y, index),
            share=_gather(self._weight, index) / real,
            cost=None if self._cost is None else _gather(self._cost, index),
            real=real,
        )


def _relative(table: Table) -> Array:
    if table.weight is None:
        return np.ones_like(table.y)
    return np.asarray(table.weight / table.weight.mean())


def _with_zero(column: Array) -> Array:
    """Return a column (row,) as (1, row + 1), with a zero at the end."""
    return np.append(column, column.dtype.type(0))[None]


def _gather(tables: Sequence[Array], index: Array) -> Array:
    """Select rows (table, row) of tables (feature, row)."""
    return np.stack([table.take(rows, axis=1) for table, rows in zip(tables, index, strict=True)])
