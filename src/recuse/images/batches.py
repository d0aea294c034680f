"""Batches of images that depend on the seed and the epoch only, on any number of processes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

from recuse.images.rows import Augment, ImageRows
from recuse.images.rule import image_of

Key = tuple[int, int]  # epoch, row


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """Seed the generators of torch (on the CPU), numpy and Python in the block, and restore them after it.

    Examples
    --------
    >>> with seeded(3, 1):
    ...     one = torch.rand(1), np.random.rand(), random.random()
    >>> with seeded(3, 1):
    ...     one == (torch.rand(1), np.random.rand(), random.random())
    True
    """
    # numpy's legacy global generator is the one that image transforms use
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        seed_all(*key)
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])


def seed_all(*key: int) -> int:
    """Seed the generators of torch (on the CPU), numpy and Python by these numbers; return the seed."""
    seed = int(np.random.SeedSequence(key).generate_state(1)[0])
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    return seed


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
    seed : int, optional
        Shuffle the rows, in an order that depends on the seed and the epoch only; None keeps their order.
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
        seed: int | None = None,
        parts: int = 1,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__()
        self.rows, self.seed, self.parts, self.epoch = rows, seed, parts, 0
        self.rank, self.world_size = rank, world_size
        self.steps = -(-rows // batch_size)
        if rows // self.steps < parts * world_size:
            raise ValueError(
                f"each batch must have at least one row for each of {parts * world_size} "
                f"(parts of a batch x processes), got {rows} rows in batches of {batch_size}"
            )

    def __len__(self) -> int:
        return self.steps * self.parts

    def __iter__(self) -> Iterator[list[Key]]:
        epoch, order = self.epoch, torch.arange(self.rows)
        if self.seed is not None:
            order = torch.randperm(self.rows, generator=_generator(self.seed, epoch))
        for batch in order.tensor_split(self.steps):
            for part in batch.tensor_split(self.parts):
                yield [(epoch, row) for row in part[self.rank :: self.world_size].tolist()]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; Lightning calls this method."""
        self.epoch = epoch


class SeededRows(Dataset[Any]):
    """Rows read by batches of (epoch, row), with random transforms that depend on seed, epoch and row only.

    What the transforms of a Dataset draw from the generators of torch, numpy or Python is the same in any worker, on
    any device and after a restart.

    Parameters
    ----------
    rows : ImageRows
        If the images are a Dataset with a method `set_epoch`, it is called with the epoch.
    augment : callable of (image, numpy Generator), optional
        Random transform of an image.
    seed : int, default=0
    """

    def __init__(self, rows: ImageRows, augment: Augment | None = None, seed: int = 0) -> None:
        self.rows, self.augment, self.seed = rows, augment, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, keys: list[Key]) -> Any:
        set_epoch = getattr(self.rows.images, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(keys[0][0])
        return default_collate([self._row(epoch, row) for epoch, row in keys])

    def _row(self, epoch: int, row: int) -> tuple[Tensor, Tensor, Tensor]:
        # reading an array draws no random numbers
        with seeded(self.seed, epoch, row) if isinstance(self.rows.images, Dataset) else nullcontext():
            image = image_of(self.rows.images, int(self.rows.index[row]))
            if self.augment is not None:
                image = self.augment(image, np.random.default_rng([self.seed, epoch, row]))
        y, cost = self.rows.y[row], self.rows.cost[row]
        return image, torch.tensor(y, dtype=torch.float32), torch.tensor(cost, dtype=torch.float32)


class ImageBatches(LightningDataModule):
    """Loaders of training and validation rows; each row is seen once in an epoch.

    Parameters
    ----------
    train, validation : SeededRows
    batch_size : int
        Largest number of rows in one step of the optimiser, over all processes together. With
        ``Trainer(accumulate_grad_batches=k)`` each batch is divided into k parts.
    num_workers : int, default=0
        Processes that read rows.
    """

    def __init__(self, train: SeededRows, validation: SeededRows, batch_size: int, num_workers: int = 0) -> None:
        super().__init__()
        self.train, self.validation = train, validation
        self.batch_size, self.num_workers = batch_size, num_workers

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the training rows, shuffled."""
        parts = self._trainer.accumulate_grad_batches
        return self._loader(self.train, self.batch_size, seed=self.train.seed, parts=parts)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the validation rows in their order, in batches that fit into memory."""
        fitting = -(-self.batch_size // self._trainer.accumulate_grad_batches)
        return self._loader(self.validation, max(fitting, self._trainer.world_size))

    @property
    def _trainer(self) -> Any:
        """The trainer, which Lightning sets before it asks for loaders."""
        return self.trainer

    def _loader(self, rows: SeededRows, batch_size: int, **options: Any) -> DataLoader[Any]:
        share = {"rank": self._trainer.global_rank, "world_size": self._trainer.world_size}
        return DataLoader(
            rows,
            sampler=GlobalBatches(len(rows), batch_size, **options, **share),
            batch_size=None,  # the sampler returns whole batches
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=_generator(rows.seed),  # without it, each new iterator draws from the global generator
        )


def _generator(*key: int) -> torch.Generator:
    """Return a generator that depends on these numbers only."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))
