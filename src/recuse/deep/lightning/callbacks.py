"""Lightning callbacks: checkpoints, early stopping, the history of a training and the seeds of its epochs."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping

from recuse.deep.lightning.environment import seed_all

__all__ = ["BestAndLast", "EarlyStoppingAfterSlowStart", "History", "SeedEpochs"]

_MONITOR = "val/rcr_loss"


class BestAndLast(Checkpoint):
    """Writes ``best.ckpt``, the weights of the lowest validation RcR loss, and ``last.ckpt``, to resume from.

    Each file is written under a temporary name and then renamed, so a process that is killed leaves the files of the
    epoch before.

    Parameters
    ----------
    folder : path
    last : bool, default=True
        Whether to write ``last.ckpt``.

    Attributes
    ----------
    best_loss : float
        Infinite until Slow-Start is over.
    best_epoch : int
        -1 until Slow-Start is over.
    """

    def __init__(self, folder: str | Path, *, last: bool = True) -> None:
        self.folder, self.last = Path(folder), last
        self.best_loss, self.best_epoch = math.inf, -1

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the weights if their validation loss is the lowest so far."""
        if trainer.sanity_checking or trainer.state.fn != "fit" or _MONITOR not in trainer.callback_metrics:
            return
        loss = float(trainer.callback_metrics[_MONITOR])
        if loss < self.best_loss:
            self.best_loss, self.best_epoch = loss, trainer.current_epoch
            self._save(trainer, "best", weights_only=True)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the state of the whole training."""
        if self.last:
            self._save(trainer, "last", weights_only=False)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this callback."""
        return {"best_loss": self.best_loss, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what a checkpoint stored."""
        self.best_loss, self.best_epoch = state_dict["best_loss"], state_dict["best_epoch"]

    def _save(self, trainer: Trainer, name: str, *, weights_only: bool) -> None:
        partial = self.folder / f"{name}.partial"
        trainer.save_checkpoint(partial, weights_only=weights_only)
        if trainer.is_global_zero:
            partial.replace(self.folder / f"{name}.ckpt")
        trainer.strategy.barrier("checkpoint")


class EarlyStoppingAfterSlowStart(EarlyStopping):
    """Lightning's EarlyStopping on the validation RcR loss, which is infinite during Slow-Start.

    Parameters
    ----------
    patience : int
        Stop after this many epochs in a row without an improvement.
    """

    def __init__(self, patience: int) -> None:
        super().__init__(_MONITOR, patience=patience, check_finite=False, check_on_train_epoch_end=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop at once if the training that is resumed had stopped early: Lightning does not store that."""
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count the epochs since the last improvement, once Slow-Start is over."""
        if not getattr(pl_module, "in_slow_start", False):
            super().on_train_epoch_end(trainer, pl_module)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the count of epochs; the patience is the one of this run."""
        super().load_state_dict({**state_dict, "patience": self.patience})


# Lightning's CSVLogger cannot replace this class: it deletes the file that an earlier process wrote.
class History(Callback):
    """Keeps what was logged in each epoch, across restarts.

    Parameters
    ----------
    path : path, optional
        A CSV file that is rewritten after each epoch.

    Attributes
    ----------
    epochs : list of dict
        One per epoch: "epoch", "train/loss", "val/rcr_loss" and so on.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Append the epoch."""
        measures = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        self.epochs.append({"epoch": trainer.current_epoch, **measures})
        if self.path is not None and trainer.is_global_zero:
            self._write(self.path)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this callback."""
        return {"epochs": self.epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what a checkpoint stored."""
        self.epochs = state_dict["epochs"]

    def _write(self, path: Path) -> None:
        partial = path.with_suffix(".partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(self.epochs[0]))
            writer.writeheader()
            writer.writerows(self.epochs)
        partial.replace(path)


class SeedEpochs(Callback):
    """Seeds all generators at the start of each epoch, so that dropout depends on the seed and the epoch only."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Seed the generators, those of accelerators too."""
        torch.manual_seed(seed_all(self.seed, trainer.current_epoch, trainer.global_rank))
