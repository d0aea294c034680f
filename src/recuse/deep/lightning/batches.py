"""A batch sampler for one or several processes that puts each row into exactly one batch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

from recuse.engine.batches import random_stream

__all__ = ["GlobalBatches"]

Key = tuple[int, int]  # epoch, row


class GlobalBatches(Sampler[list[Key]]):
    """Batches that do not depend on the number of processes.

    The rows of an epoch are divided into the fewest batches of at most `batch_size` rows; batch sizes differ by at most
    one row. Each batch is divided among the processes. No row is repeated or left out, every process has the same
    number of batches, and there is no small last batch.

    Parameters
    ----------
    rows : int
    batch_size : int
        Rows in a batch, over all processes together.
    shuffle : bool, default=False
        Shuffle the rows, in an order that depends on the seed and the epoch only.
    seed : int, default=0
    parts : int, default=1
        Divide each batch into this many parts, for accumulated gradients.
    rank, world_size : int
        Index of this process, and number of processes.

    Examples
    --------
    Each batch is a list of (epoch, row):

    >>> [list(GlobalBatches(5, batch_size=3, rank=rank, world_size=2)) for rank in (0, 1)]
    [[[(0, 0), (0, 2)], [(0, 3)]], [[(0, 1)], [(0, 4)]]]
    """

    def __init__(
        self,
        rows: int,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        parts: int = 1,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__()
        self.rows, self.batch_size, self.parts = rows, batch_size, parts
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        self.rank, self.world_size = rank, world_size
        steps = -(-rows // batch_size)
        if rows == 0 or rows // steps < parts * world_size:
            raise ValueError(
                f"each batch must have at least one row for each of {parts * world_size} "
                f"(parts of a batch x processes), got {rows} rows in batches of {batch_size}"
            )
        self._steps = steps

    def __len__(self) -> int:
        return self._steps * self.parts

    def __iter__(self) -> Iterator[list[Key]]:
        epoch, order = self.epoch, torch.arange(self.rows)
        if self.shuffle:
            order = torch.randperm(self.rows, generator=random_stream(self.seed, epoch))
        for batch in order.tensor_split(self._steps):
            for part in batch.tensor_split(self.parts):
                yield [(epoch, row) for row in part[self.rank :: self.world_size].tolist()]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; Lightning calls this method."""
        self.epoch = epoch
