"""Lightning callbacks for training a regressor without a rejector."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from recuse.deep.lightning import History

__all__ = ["BestRegressor", "StopAfter"]

_MSE = "val/always_accept"


class StopAfter(Callback):
    """Stops a training after this many epochs, while its learning rate schedule covers more."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop if all of them are done."""
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


class BestRegressor(Checkpoint):
    """Writes the weights of the lowest validation error to ``best.ckpt``.

    Parameters
    ----------
    folder : Path
    history : History
        Has the errors of earlier epochs, also after a restart.
    """

    def __init__(self, folder: Path, history: History) -> None:
        self.folder, self.history = folder, history

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the weights if their validation error is the lowest so far."""
        error = float(trainer.callback_metrics[_MSE])
        if all(error < epoch[_MSE] for epoch in self.history.epochs):
            partial = self.folder / "best.partial"
            trainer.save_checkpoint(partial, weights_only=True)
            if trainer.is_global_zero:
                partial.replace(self.folder / "best.ckpt")
            trainer.strategy.barrier("best regressor")
