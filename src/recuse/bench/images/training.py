"""Trainings of the image experiments, with one Slow-Start shared by all costs and surrogates.

Slow-Start depends on neither cost nor surrogate, so it is trained once per repeat. Every cost and surrogate resumes
from its checkpoint, and so does the regressor without a rejector. Each training ends with the numbers of a training
from the start.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch.utils.data import DataLoader

from recuse.bench.images.data import ImageParts, augmentation
from recuse.bench.images.spec import ImageProtocol
from recuse.deep.backbones import make_backbone
from recuse.deep.two_heads import TwoHeads
from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.estimators.images.rows import ImageRowDataset, ImageRows
from recuse.extras import import_extra

import_extra("lightning.pytorch", extra="images")

from lightning.pytorch import Callback, Trainer  # noqa: E402

from recuse.bench.images.callbacks import BestRegressor, StopAfter  # noqa: E402
from recuse.deep.lightning import (  # noqa: E402
    BestAndLast,
    History,
    RejectionData,
    RejectionModule,
    SeedEpochs,
    training_environment,
)

__all__ = ["Hardware", "ImageTraining"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hardware:
    """Hardware of a training.

    Attributes
    ----------
    accelerator : str
    devices : int
        As in Lightning's Trainer.
    workers : int
        Processes that read images.
    threads : int
        CPU threads of each process.
    """

    accelerator: str = "auto"
    devices: int = 1
    workers: int = 0
    threads: int = 1

    def trainer_options(self, precision: str) -> dict[str, Any]:
        """Return the arguments of Lightning's Trainer; several GPUs combine their batch statistics."""
        several_gpus = self.devices > 1 and self.accelerator != "cpu" and torch.cuda.is_available()
        return {
            "accelerator": self.accelerator,
            "devices": self.devices,
            "precision": precision,
            "sync_batchnorm": several_gpus,
        }


@dataclass(frozen=True)
class ImageTraining:
    """All trainings of one model on one repeat of a data set.

    Attributes
    ----------
    model : {"resnet50", "small_cnn"}
    repeat : int
        Seed of weights and batches.
    parts : ImageParts
    protocol : ImageProtocol
    folder : Path
        Folder of checkpoints, from which an interrupted training resumes.
    hardware : Hardware
    """

    model: str
    repeat: int
    parts: ImageParts
    protocol: ImageProtocol
    folder: Path
    hardware: Hardware

    def slow_start(self) -> Path | None:
        """Train the regressor for the epochs of Slow-Start, unless that is done; return the checkpoint."""
        folder, epochs = self.folder / "slow_start", self.protocol.alone
        if epochs == 0:
            return None
        last = folder / "last.ckpt"
        if not last.exists() or _epochs_done(last) < epochs:
            self._train_regressor(folder, epochs)
        return last

    def supervised(self) -> Floats:
        """Train the regressor on squared error only; return its predictions of the test images.

        The weights are those of the epoch with the lowest validation error, epochs of Slow-Start included.
        """
        folder = self.folder / "sup"
        self._begin(folder, ("last.ckpt", "best.ckpt"))
        trainer, module = self._train_regressor(folder, self.protocol.epochs)
        module.load_state_dict(torch.load(folder / "best.ckpt", map_location="cpu", weights_only=True)["state_dict"])
        rows = ImageRowDataset(ImageRows.check(self.parts.test, None, 0.0))
        with training_environment(self._seed):
            batches = trainer.predict(module, DataLoader(rows, batch_size=self.protocol.batch_size)) or []
        return torch.cat([prediction.cpu() for prediction, _ in batches]).double().numpy()

    def pair(self, surrogate: str, cost: float) -> RcRImageRegressor:
        """Train regressor and rejector together, from the end of Slow-Start."""
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
            num_workers=self.hardware.workers,
            trainer=self.hardware.trainer_options(protocol.precision),
            checkpoint_dir=folder,
            random_state=self.repeat,
        )
        return model.fit(self.parts.train, validation=self.parts.validation)

    def pair_folder(self, surrogate: str, cost: float) -> Path:
        """Return the folder of a pair's checkpoints."""
        return self.folder / f"{surrogate}-{cost:g}"

    def _begin(self, folder: Path, names: tuple[str, ...]) -> None:
        """Copy the checkpoint of Slow-Start to the folder of a training that has not started."""
        start = self.slow_start()
        if start is None or (folder / "last.ckpt").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name in reversed(names):  # last.ckpt at the end: where it exists, the others do too
            # each of the processes that train together writes its own temporary file
            partial = folder / f"{name}.{os.getpid()}.partial"
            shutil.copyfile(start.with_name(name), partial)
            partial.replace(folder / name)

    def _train_regressor(self, folder: Path, epochs: int) -> tuple[Trainer, RejectionModule]:
        """Train on squared error up to this many epochs; ``best.ckpt`` has the lowest validation error."""
        folder.mkdir(parents=True, exist_ok=True)
        history, last = History(), folder / "last.ckpt"
        callbacks: list[Callback] = [SeedEpochs(self._seed), history, StopAfter(epochs)]
        callbacks += [BestRegressor(folder, history), BestAndLast(folder)]
        module = self._module()
        with training_environment(self._seed):
            trainer = self._trainer(callbacks)
            trainer.fit(module, datamodule=self._data(), ckpt_path=last if last.exists() else None)
        return trainer, module

    @property
    def _seed(self) -> int:
        """The seed that RcRImageRegressor draws, so that a pair has the same batches in Slow-Start as after it."""
        return int(check_random_state(self.repeat).randint(2**31 - 1))

    def _trainer(self, callbacks: list[Callback]) -> Trainer:
        return Trainer(
            **self.hardware.trainer_options(self.protocol.precision),
            max_epochs=self.protocol.epochs,  # the learning rate depends on all of them
            callbacks=callbacks,
            logger=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def _module(self) -> RejectionModule:
        y = ImageRows.check(self.parts.train, None, 0.0).y
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
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

    def _data(self) -> RejectionData:
        train, validation = (ImageRows.check(part, None, 0.0) for part in (self.parts.train, self.parts.validation))
        return RejectionData(
            ImageRowDataset(train, augmentation(self.protocol), self._seed),
            ImageRowDataset(validation),
            batch_size=self.protocol.batch_size,
            num_workers=self.hardware.workers,
            seed=self._seed,
            random=False,
        )


def _epochs_done(checkpoint: Path) -> int:
    return int(torch.load(checkpoint, map_location="cpu", weights_only=True)["epoch"]) + 1
