"""Tables of rows, and shuffled batches of them, padded to the layout of a stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from recuse.engine.stack import pad_rows, with_bias

__all__ = ["Batch", "Batches", "Table", "random_stream"]

_CHUNK = 1024  # rows validated at once, few enough to stay in the cache


@dataclass(frozen=True)
class Table:
    """Training or validation rows.

    Attributes
    ----------
    x : Tensor of shape (row, feature)
    y : Tensor of shape (row,), or (row, output) with several outputs
    weight : Tensor of shape (row,), optional
        Relative weight of the rows.
    cost : Tensor of shape (row,), optional
        Cost of each row. Without it, every member has its own cost for all rows.
    rejector_x : Tensor of shape (row, feature), optional
        Features of the rejector, if they differ from `x`.
    seed : int
        Determines the order of the minibatches.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None = None
    cost: Tensor | None = None
    rejector_x: Tensor | None = None
    seed: int = 0

    @property
    def total_weight(self) -> Tensor:
        """Sum of the weights of all rows, or the number of rows if there are no weights."""
        return self.y.new_tensor(len(self.y)) if self.weight is None else self.weight.sum()

    def take(self, rows: Tensor) -> Table:
        """Return the table of some rows."""
        columns = ("x", "y", "weight", "cost", "rejector_x")
        some = {name: column[rows] for name in columns if (column := getattr(self, name)) is not None}
        return replace(self, **some)

    def padded(self, rows: int) -> Table:
        """Return a table with this number of rows, padded with copies of the first row that have weight zero."""
        count, place = len(self.y), torch.arange(rows)
        there = place < count
        weight = (self.y.new_ones(count) if self.weight is None else self.weight)[place * there] * there
        return replace(self.take(place * there), weight=weight)


@dataclass(frozen=True)
class Batch:
    """The same number of rows of every table, padded with rows of weight zero."""

    x: Tensor  # (table, feature, row)
    rejector_x: Tensor  # (table, feature, row)
    y: Tensor  # (table, output, row)
    share: Tensor  # (table, 1, row): the weight of a row in the mean over the batch
    cost: Tensor | None  # (table, 1, row)
    real: int  # number of rows that are not padding


class Batches:
    """Batches of several tables with the same number of rows.

    Parameters
    ----------
    tables : sequence of Table
    device : torch.device
    """

    def __init__(self, tables: Sequence[Table], device: torch.device) -> None:
        lengths = {len(table.y) for table in tables}
        if len(lengths) != 1:
            raise ValueError(f"tables trained together must have the same number of rows, got {sorted(lengths)}")
        self.rows, self.seeds, self.device = lengths.pop(), [table.seed for table in tables], device
        # one more row of zeros at the end, which pads the batches
        self._x = torch.stack([with_bias(t.x, self.rows + 1) for t in tables]).to(device)
        self._rejector_x = self._x
        if any(t.rejector_x is not None for t in tables):
            features = [t.x if t.rejector_x is None else t.rejector_x for t in tables]
            self._rejector_x = torch.stack([with_bias(x, self.rows + 1) for x in features]).to(device)
        self._y = _stacked([t.y for t in tables], device)
        self._weight = _stacked([_relative(t) for t in tables], device)
        costs = [t.cost for t in tables if t.cost is not None]
        if len(costs) not in (0, len(tables)):
            raise ValueError(f"either all tables have a cost per row or none, got {len(costs)} of {len(tables)}")
        self._cost = _stacked(costs, device) if costs else None
        self._fixed: dict[int, list[Batch]] = {}

    def count(self, batch_size: int) -> int:
        """Return the number of batches of an epoch."""
        return -(-self.rows // batch_size)

    def shuffled(self, batch_size: int, phase: int, epoch: int) -> Iterator[Batch]:
        """Yield minibatches in an order that depends on the table's seed, the phase and the epoch only."""
        if self.rows <= batch_size:
            return iter(self.in_order(batch_size))
        orders = [_permutation(self.rows, seed, phase, epoch) for seed in self.seeds]
        return self._batches(torch.stack(orders), batch_size)

    def in_order(self, chunk: int = _CHUNK) -> list[Batch]:
        """Return batches of consecutive rows. They are made once."""
        if chunk not in self._fixed:
            order = torch.arange(self.rows).expand(len(self.seeds), -1)
            self._fixed[chunk] = list(self._batches(order, chunk))
        return self._fixed[chunk]

    def _batches(self, orders: Tensor, size: int) -> Iterator[Batch]:
        for start in range(0, self.rows, size):
            chosen = orders[:, start : start + size]
            padding = torch.full((len(orders), pad_rows(chosen.shape[1]) - chosen.shape[1]), self.rows)
            yield self._batch(torch.cat([chosen, padding], dim=1), chosen.shape[1])

    def _batch(self, index: Tensor, real: int) -> Batch:
        index = index.to(self._x.device)
        x = _gather(self._x, index)
        return Batch(
            x=x,
            rejector_x=x if self._rejector_x is self._x else _gather(self._rejector_x, index),
            y=_gather(self._y, index),
            share=_gather(self._weight, index) / real,
            cost=None if self._cost is None else _gather(self._cost, index),
            real=real,
        )


def _relative(table: Table) -> Tensor:
    if table.weight is None:
        return table.y.new_ones(len(table.y))
    return table.weight / table.weight.mean()


def _stacked(columns: list[Tensor], device: torch.device) -> Tensor:
    """Stack columns (row,) or (row, output) to (table, output, row + 1), with a row of zeros at the end."""
    stacked = torch.stack([column.view(len(column), -1).T for column in columns])
    return torch.cat([stacked, torch.zeros_like(stacked[..., :1])], dim=2).to(device)


def _gather(tensor: Tensor, index: Tensor) -> Tensor:
    """Select rows (table, row) of a tensor (table, feature, row)."""
    return torch.stack([table.index_select(1, rows) for table, rows in zip(tensor, index, strict=True)])


def _permutation(rows: int, seed: int, phase: int, epoch: int) -> Tensor:
    return torch.randperm(rows, generator=random_stream(seed, phase, epoch))


def random_stream(*key: int) -> torch.Generator:
    """Return a random number generator that depends on these numbers only.

    Examples
    --------
    >>> bool((torch.rand(3, generator=random_stream(1, 2)) == torch.rand(3, generator=random_stream(1, 2))).all())
    True
    """
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))
