"""RejectionData: datasets in, batches for Lightning that depend on the seed and the epoch alone out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader, Dataset, default_collate

from recuse.deep.lightning.batches import GlobalBatches, Key
from recuse.engine.batches import random_stream

__all__ = ["RejectionData", "SeededRows"]


class SeededRows(Dataset[Any]):
    """A dataset read by batches of (epoch, row), where chance depends on (seed, epoch, row) alone.

    Whatever a row's transforms draw from the generators of torch, numpy or Python is then the same in any worker, on
    any device, and after a restart.

    Parameters
    ----------
    rows : Dataset
        Gives (x, y) or (x, y, cost) for a row. If it has a method `set_epoch`, it is told the epoch.
    seed : int, default=0
    random : bool, default=True
        Whether reading a row involves chance; saying no saves a little time.
    """

    def __init__(self, rows: Dataset[Any], seed: int = 0, *, random: bool = True) -> None:
        self.rows, self.seed, self.random = rows, seed, random

    def __len__(self) -> int:
        return len(self.rows)  # type: ignore[arg-type]

    def __getitem__(self, keys: list[Key]) -> Any:
        tell = getattr(self.rows, "set_epoch", None)
        if tell is not None:
            tell(keys[0][0])
        return default_collate([self._row(epoch, row) for epoch, row in keys])

    def _row(self, epoch: int, row: int) -> Any:
        if not self.random:
            return self.rows[row]
        with chance(self.seed, epoch, row):
            return self.rows[row]


class RejectionData(LightningDataModule):
    """Rows for a `RejectionModule`, each seen once in an epoch, in training, validation and test.

    Use it with ``Trainer(use_distributed_sampler=False)``: the sampler that Lightning would put in repeats rows to
    fill up its shares, and these rows then count twice.

    Parameters
    ----------
    train, validation, test : Dataset, optional
        Each gives (x, y) or (x, y, cost) for a row.
    batch_size : int, default=128
        Rows of one step of the optimiser at most, over all processes together.
    accumulate : int, default=1
        Parts in which each batch is computed; for ``Trainer(accumulate_grad_batches=...)``.
    num_workers : int, default=0
        Processes that read rows.
    seed : int, default=0
        Fixes the order of the rows and what their transforms draw.
    random : bool, default=True
        Whether reading a row involves chance.
    """

    def __init__(
        self,
        train: Dataset[Any] | None = None,
        validation: Dataset[Any] | None = None,
        test: Dataset[Any] | None = None,
        *,
        batch_size: int = 128,
        accumulate: int = 1,
        num_workers: int = 0,
        seed: int = 0,
        random: bool = True,
    ) -> None:
        super().__init__()
        self.parts = {"train": train, "validation": validation, "test": test}
        self.batch_size, self.accumulate, self.num_workers = batch_size, accumulate, num_workers
        self.seed, self.random = seed, random

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled rows."""
        return self._loader("train", shuffle=True, parts=self.accumulate)

    def val_dataloader(self) -> DataLoader[Any] | list[Any]:
        """Rows in their order; nothing where there are no validation rows."""
        return [] if self.parts["validation"] is None else self._loader("validation")

    def test_dataloader(self) -> DataLoader[Any]:
        """Rows in their order."""
        return self._loader("test")

    def _loader(self, part: str, *, shuffle: bool = False, parts: int = 1) -> DataLoader[Any]:
        rows = self.parts[part]
        if rows is None:
            raise ValueError(f"RejectionData has no {part} rows: pass {part}=")
        rank, world_size = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        size = -(-self.batch_size // self.accumulate)  # what fits into memory
        batches = GlobalBatches(
            len(rows),  # type: ignore[arg-type]
            self.batch_size if shuffle else max(size, world_size),
            shuffle=shuffle,
            seed=self.seed,
            parts=parts,
            rank=rank,
            world_size=world_size,
        )
        return DataLoader(
            SeededRows(rows, self.seed, random=self.random),
            sampler=batches,
            batch_size=None,  # the sampler gives whole batches
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=random_stream(self.seed),  # or else each new iterator would draw from everybody's generator
        )


@contextmanager
def chance(*key: int) -> Iterator[None]:
    """Let all random numbers drawn on the CPU in the block depend on `key` alone, and leave no trace after it.

    Examples
    --------
    >>> with chance(3, 1):
    ...     one = torch.rand(1), np.random.rand(), random.random()
    >>> with chance(3, 1):
    ...     one == (torch.rand(1), np.random.rand(), random.random())
    True
    """
    # numpy's old global generator: the one that transforms draw from
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        seed_all(*key)
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])


def seed_all(*key: int) -> int:
    """Seed the generators of torch (on the CPU), numpy and Python by these numbers; give the seed."""
    seed = int(np.random.SeedSequence(key).generate_state(1)[0])
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    return seed
