"""A Lightning data module whose batches depend on the seed and the epoch only."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader, Dataset, default_collate

from recuse.deep.lightning.batches import GlobalBatches, Key
from recuse.deep.lightning.environment import seeded
from recuse.engine.batches import random_stream

__all__ = ["RejectionData", "SeededRows"]


class SeededRows(Dataset[Any]):
    """A dataset read by batches of (epoch, row), with random transforms that depend on (seed, epoch, row) only.

    What the transforms of a row draw from the generators of torch, numpy or Python is the same in any worker, on any
    device and after a restart.

    Parameters
    ----------
    rows : Dataset
        Returns (x, y) or (x, y, cost) for a row. Its method `set_epoch` is called with the epoch, if it has one.
    seed : int, default=0
    random : bool, default=True
        Whether reading a row draws random numbers; False saves a little time.
    """

    def __init__(self, rows: Dataset[Any], seed: int = 0, *, random: bool = True) -> None:
        self.rows, self.seed, self.random = rows, seed, random

    def __len__(self) -> int:
        return len(self.rows)  # type: ignore[arg-type]

    def __getitem__(self, keys: list[Key]) -> Any:
        set_epoch = getattr(self.rows, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(keys[0][0])
        return default_collate([self._row(epoch, row) for epoch, row in keys])

    def _row(self, epoch: int, row: int) -> Any:
        if not self.random:
            return self.rows[row]
        with seeded(self.seed, epoch, row):
            return self.rows[row]


class RejectionData(LightningDataModule):
    """Rows for a `RejectionModule`; each row is seen once per epoch in training, validation and test.

    Use it with ``Trainer(use_distributed_sampler=False)``. Otherwise Lightning adds a sampler that repeats rows to make
    the shares of the processes equal, and the repeated rows count twice.

    Parameters
    ----------
    train, validation, test : Dataset, optional
        Each returns (x, y) or (x, y, cost) for a row.
    batch_size : int, default=128
        Largest number of rows in one step of the optimiser, over all processes together. With
        ``Trainer(accumulate_grad_batches=k)`` each batch is divided into k parts.
    num_workers : int, default=0
        Processes that read rows.
    seed : int, default=0
        Determines the order of the rows and what their transforms draw.
    random : bool, default=True
        Whether reading a row draws random numbers.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> rows = TensorDataset(torch.zeros(100, 3), torch.zeros(100))
    >>> data = RejectionData(rows, batch_size=40)
    >>> sorted(len(y) for x, y in data.train_dataloader())
    [33, 33, 34]
    """

    def __init__(
        self,
        train: Dataset[Any] | None = None,
        validation: Dataset[Any] | None = None,
        test: Dataset[Any] | None = None,
        *,
        batch_size: int = 128,
        num_workers: int = 0,
        seed: int = 0,
        random: bool = True,
    ) -> None:
        super().__init__()
        self.parts = {"train": train, "validation": validation, "test": test}
        self.batch_size, self.num_workers = batch_size, num_workers
        self.seed, self.random = seed, random

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the training rows, shuffled."""
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader[Any] | list[Any]:
        """Return the validation rows in their order, or an empty list if there are none."""
        return [] if self.parts["validation"] is None else self._loader("validation")

    def test_dataloader(self) -> DataLoader[Any]:
        """Return the test rows in their order."""
        return self._loader("test")

    def _loader(self, part: str, *, shuffle: bool = False) -> DataLoader[Any]:
        rows = self.parts[part]
        if rows is None:
            raise ValueError(f"RejectionData has no {part} rows: pass {part}=")
        trainer = self.trainer
        rank, world_size = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        accumulate = trainer.accumulate_grad_batches if trainer else 1
        batches = GlobalBatches(
            len(rows),  # type: ignore[arg-type]
            self.batch_size if shuffle else max(-(-self.batch_size // accumulate), world_size),  # what fits into memory
            shuffle=shuffle,
            seed=self.seed,
            parts=accumulate if shuffle else 1,
            rank=rank,
            world_size=world_size,
        )
        return DataLoader(
            SeededRows(rows, self.seed, random=self.random),
            sampler=batches,
            batch_size=None,  # the sampler returns whole batches
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=random_stream(self.seed),  # without it, each new iterator draws from the global generator
        )
