"""What happens between epochs: validation measures in; checkpoints, a history and the end of training out."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from recuse.deep.lightning.data import seed_all

__all__ = ["BestAndLast", "History", "SeedEpochs", "StopEarly"]

_WATCHED = "val/rcr_loss"


class BestAndLast(Checkpoint):
    """Keeps ``best.ckpt``, the weights of the lowest validation RcR loss, and ``last.ckpt``, from which to go on.

    Files are written under another name first, so that a process that dies leaves the files of the epoch before.

    Parameters
    ----------
    folder : path
    last : bool, default=True
        Whether to keep ``last.ckpt``.

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
        """Keep the weights if they are the best yet."""
        loss = _watched(trainer)
        if loss is not None and loss < self.best_loss:
            self.best_loss, self.best_epoch = loss, trainer.current_epoch
            self._save(trainer, "best", weights_only=True)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep all that is needed to go on."""
        if self.last:
            self._save(trainer, "last", weights_only=False)

    def state_dict(self) -> dict[str, Any]:
        """Give what to remember."""
        return {"best_loss": self.best_loss, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember it."""
        self.best_loss, self.best_epoch = state_dict["best_loss"], state_dict["best_epoch"]

    def _save(self, trainer: Trainer, name: str, *, weights_only: bool) -> None:
        partial = self.folder / f"{name}.partial"
        trainer.save_checkpoint(partial, weights_only=weights_only)
        if trainer.is_global_zero:
            partial.replace(self.folder / f"{name}.ckpt")
        trainer.strategy.barrier("checkpoint")


class StopEarly(Callback):
    """Ends training when the validation RcR loss has not improved for a while; never during Slow-Start.

    Parameters
    ----------
    patience : int
        So many epochs in a row without an improvement are too many.
    """

    def __init__(self, patience: int) -> None:
        self.patience, self.best_loss, self.waited = patience, math.inf, 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop at once if this goes on from the checkpoint of a training that had stopped."""
        self._stop_if_due(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count the epochs since the last improvement."""
        loss = _watched(trainer)
        if loss is None or getattr(pl_module, "in_slow_start", False):
            return
        improved = loss < self.best_loss
        self.best_loss, self.waited = (loss, 0) if improved else (self.best_loss, self.waited + 1)
        self._stop_if_due(trainer)

    def state_dict(self) -> dict[str, Any]:
        """Give what to remember."""
        return {"best_loss": self.best_loss, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember it."""
        self.best_loss, self.waited = state_dict["best_loss"], state_dict["waited"]

    def _stop_if_due(self, trainer: Trainer) -> None:
        if self.waited >= self.patience:
            trainer.should_stop = True


class History(Callback):
    """Remembers what was logged in each epoch, across restarts.

    Parameters
    ----------
    path : path, optional
        A CSV file that is brought up to date after each epoch.

    Attributes
    ----------
    epochs : list of dict
        One for each epoch: "epoch", "train/loss", "val/rcr_loss" and so on.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take down the epoch."""
        measures = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        self.epochs.append({"epoch": trainer.current_epoch, **measures})
        if self.path is not None and trainer.is_global_zero:
            self._write(self.path)

    def state_dict(self) -> dict[str, Any]:
        """Give what to remember."""
        return {"epochs": self.epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember it."""
        self.epochs = state_dict["epochs"]

    def _write(self, path: Path) -> None:
        partial = path.with_suffix(".partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(self.epochs[0]))
            writer.writeheader()
            writer.writerows(self.epochs)
        partial.replace(path)


class SeedEpochs(Callback):
    """Seeds all generators at the start of each epoch, so that dropout and the like depend on (seed, epoch) alone."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Seed them."""
        torch.manual_seed(seed_all(self.seed, trainer.current_epoch, trainer.global_rank))  # accelerators too


def _watched(trainer: Trainer) -> float | None:
    """Give the validation RcR loss, unless this is no epoch of a training."""
    if trainer.sanity_checking or trainer.state.fn != "fit" or _WATCHED not in trainer.callback_metrics:
        return None
    return float(trainer.callback_metrics[_WATCHED])
