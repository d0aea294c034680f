"""Trainings on images: pictures and a protocol in, trained networks out; Slow-Start is trained once for all costs.

Slow-Start depends on neither cost nor surrogate. It is one training of the regressor, stopped after so many epochs.
From its checkpoint every cost and surrogate goes on, as if resumed after an interruption, and so does the regressor
alone. Each ends with the numbers it would have reached had it trained from the start.
"""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch.utils.data import DataLoader

from recuse.bench.images.data import ImageParts, augmentation
from recuse.bench.images.spec import ImageProtocol
from recuse.deep.two_heads import TwoHeads
from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.estimators.images.rows import PictureRows, Pictures
from recuse.estimators.images.training import make_backbone
from recuse.extras import import_extra

import_extra("lightning.pytorch", extra="images")

from lightning.fabric.utilities.warnings import PossibleUserWarning  # noqa: E402
from lightning.pytorch import Callback, Trainer  # noqa: E402

from recuse.bench.images.callbacks import BestRegressor, StopAfter  # noqa: E402
from recuse.deep.lightning import BestAndLast, History, RejectionData, RejectionModule, SeedEpochs  # noqa: E402

__all__ = ["Hardware", "ImageTraining"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hardware:
    """What to train on; see Lightning's Trainer.

    Attributes
    ----------
    accelerator : str
    devices : int
    workers : int
        Processes that read pictures.
    threads : int
        Of each process that trains on the CPU.
    """

    accelerator: str = "auto"
    devices: int = 1
    workers: int = 0
    threads: int = 1

    @property
    def sync_batchnorm(self) -> bool:
        """Whether batch normalisation sees the rows of all devices: only GPUs can do that."""
        return self.devices > 1 and self.accelerator != "cpu" and torch.cuda.is_available()


@dataclass(frozen=True)
class ImageTraining:
    """All trainings of one model on one repeat of a data set.

    Attributes
    ----------
    model : {"resnet50", "small_cnn"}
    repeat : int
        Seeds weights and batches.
    parts : ImageParts
    protocol : ImageProtocol
    folder : Path
        For checkpoints, from which a training that was cut off goes on.
    hardware : Hardware
    """

    model: str
    repeat: int
    parts: ImageParts
    protocol: ImageProtocol
    folder: Path
    hardware: Hardware

    def slow_start(self) -> Path | None:
        """Train the regressor for the epochs of Slow-Start, unless that is done; give the checkpoint."""
        folder, epochs = self.folder / "slow_start", self.protocol.alone
        if epochs == 0:
            return None
        last = folder / "last.ckpt"
        if not last.exists() or _epochs_done(last) < epochs:
            self._train_regressor(folder, epochs)
        return last

    def supervised(self) -> Floats:
        """Train the regressor on squared error alone; give its predictions of the test pictures.

        The epoch of the lowest validation error counts, be it one of Slow-Start.
        """
        folder = self.folder / "sup"
        self._begin(folder, ("last.ckpt", "best.ckpt"))
        trainer, module = self._train_regressor(folder, self.protocol.epochs)
        module.load_state_dict(torch.load(folder / "best.ckpt", map_location="cpu", weights_only=True)["state_dict"])
        rows = PictureRows(Pictures.check(self.parts.test, None, 0.0))
        with _peace():
            batches = trainer.predict(module, DataLoader(rows, batch_size=self.protocol.batch_size)) or []
        return torch.cat([prediction.cpu() for prediction, _ in batches]).double().numpy()

    def pair(self, surrogate: str, cost: float) -> RcRImageRegressor:
        """Train regressor and rejector together from the end of Slow-Start on."""
        folder = self.pair_folder(surrogate, cost)
        self._begin(folder, ("last.ckpt",))
        protocol = self.protocol
        model = RcRImageRegressor(
            cost,
            surrogate,
            None if self.model == "small_cnn" else "resnet50",
            protocol.epochs,
            protocol.slow_start,
            protocol.batch_size,
            protocol.learning_rate,
            schedule=protocol.schedule,  # type: ignore[arg-type]
            augment=augmentation(protocol),
            accelerator=self.hardware.accelerator,
            devices=self.hardware.devices,
            precision=protocol.precision,
            sync_batchnorm=self.hardware.sync_batchnorm,
            num_workers=self.hardware.workers,
            checkpoint_dir=folder,
            random_state=self.repeat,
        )
        return model.fit(self.parts.train, validation=self.parts.validation)

    def pair_folder(self, surrogate: str, cost: float) -> Path:
        """Where the checkpoints of a pair are."""
        return self.folder / f"{surrogate}-{cost:g}"

    def _begin(self, folder: Path, names: tuple[str, ...]) -> None:
        """Let a training go on from the end of Slow-Start, unless it has come further already."""
        start = self.slow_start()
        if start is None or (folder / "last.ckpt").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name in reversed(names):  # the last one last: it says that the others are there
            # of its own for each of the processes that train together
            partial = folder / f"{name}.{os.getpid()}.partial"
            shutil.copyfile(start.with_name(name), partial)
            partial.replace(folder / name)

    def _train_regressor(self, folder: Path, epochs: int) -> tuple[Trainer, RejectionModule]:
        """Train on squared error until so many epochs are done; ``best.ckpt`` has the lowest validation error."""
        folder.mkdir(parents=True, exist_ok=True)
        history, last = History(), folder / "last.ckpt"
        # as RcRImageRegressor draws it, so that a pair sees the same batches in Slow-Start as after it
        seed = int(check_random_state(self.repeat).randint(2**31 - 1))
        callbacks = [SeedEpochs(seed), history, StopAfter(epochs), BestRegressor(folder, history), BestAndLast(folder)]
        module = self._module(seed)
        with _peace():
            trainer = self._trainer(callbacks)
            trainer.fit(module, datamodule=self._data(seed), ckpt_path=last if last.exists() else None)
        return trainer, module

    def _trainer(self, callbacks: list[Callback]) -> Trainer:
        return Trainer(
            accelerator=self.hardware.accelerator,
            devices=self.hardware.devices,
            precision=self.protocol.precision,  # type: ignore[arg-type]
            sync_batchnorm=self.hardware.sync_batchnorm,
            max_epochs=self.protocol.epochs,  # the learning rate depends on all of them
            callbacks=callbacks,
            logger=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def _module(self, seed: int) -> RejectionModule:
        y = Pictures.check(self.parts.train, None, 0.0).y
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone, features = make_backbone(None if self.model == "small_cnn" else "resnet50", 3)
            network = TwoHeads(backbone, features)
        return RejectionModule(
            network,
            learning_rate=self.protocol.learning_rate,
            schedule=self.protocol.schedule,  # type: ignore[arg-type]
            slow_start=self.protocol.epochs,
            target_mean=float(y.mean()),
            target_scale=float(y.std()),
        )

    def _data(self, seed: int) -> RejectionData:
        train, validation = (Pictures.check(part, None, 0.0) for part in (self.parts.train, self.parts.validation))
        return RejectionData(
            PictureRows(train, augmentation(self.protocol), seed),
            PictureRows(validation),
            batch_size=self.protocol.batch_size,
            num_workers=self.hardware.workers,
            seed=seed,
            random=False,
        )


def _epochs_done(checkpoint: Path) -> int:
    return int(torch.load(checkpoint, map_location="cpu", weights_only=True)["epoch"]) + 1


@contextmanager
def _peace() -> Iterator[None]:
    """Keep Lightning's advice about settings chosen here from the user."""
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(before)
