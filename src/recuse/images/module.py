"""A LightningModule that trains and measures a network with a regressor and a rejector."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.optim import Adam, Optimizer
from torchmetrics import CatMetric, MeanMetric

from recuse import metrics
from recuse.decision import Decision
from recuse.deep.loss import RejectionLoss
from recuse.deep.two_heads import TwoHeads
from recuse.images.batches import seed_all
from recuse.surrogates import SurrogateLike

Batch = tuple[Tensor, Tensor, Tensor]  # images, targets, costs


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of one training.

    Attributes
    ----------
    epochs, slow_start, batch_size, learning_rate, schedule, weight_decay, early_stopping, num_workers, trainer, verbose
        As in `RcRImageRegressor`.
    seed : int
        Determines the order of the rows and all random numbers.
    surrogate : str, Surrogate or callable
    folder : Path or None
        Where ``best.ckpt``, ``last.ckpt`` and ``history.csv`` are written. A training that finds a ``last.ckpt`` there
        resumes from it. Without a folder nothing is kept.
    monitor : str
        The validation measure that chooses the epoch.
    last_epoch : int or None
        Stop after this many epochs, although the schedule covers all of them.
    """

    epochs: int
    slow_start: int
    batch_size: int
    learning_rate: float
    seed: int
    surrogate: SurrogateLike = "mae"
    schedule: Literal["constant", "cosine"] = "constant"
    weight_decay: float = 0.0
    early_stopping: int | None = None
    num_workers: int = 0
    folder: Path | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False
    monitor: str = "val/rcr_loss"
    last_epoch: int | None = None


class RejectionModule(LightningModule):
    """Trains a regressor and a rejector together, on any accelerator and any number of devices.

    In the epochs of Slow-Start the regressor trains alone, on squared error, and the parameters and buffers that only
    the rejector uses do not change. After that both train on the surrogate loss. Training on several devices equals
    training on one device with the same global batch, except for batch normalisation: its statistics are those of one
    process, unless ``sync_batchnorm`` combines them on GPUs.

    Parameters
    ----------
    network : TwoHeads
    settings : TrainingSettings
    target_mean, target_scale : float
        The network is trained on ``(y - target_mean) / target_scale``; measures are in units of y.

    Attributes
    ----------
    history : list of dict
        One for each epoch: "epoch", "train/loss", and the measures of `recuse.metrics.evaluate` under "val/". The RcR
        loss is infinite during Slow-Start. Checkpoints contain the history.
    """

    target_mean: Tensor
    target_scale: Tensor

    def __init__(self, network: TwoHeads, settings: TrainingSettings, target_mean: float, target_scale: float) -> None:
        super().__init__()
        self.network, self.settings = network, settings
        self.loss = RejectionLoss(settings.surrogate, reduction="none")
        self.register_buffer("target_mean", torch.tensor(target_mean))
        self.register_buffer("target_scale", torch.tensor(target_scale))
        # NaN is kept, so that a training that diverges shows it.
        self.train_loss = MeanMetric(nan_strategy=float("nan"))
        self.validated = CatMetric(nan_strategy=float("nan"))
        self.history: list[dict[str, float]] = []

    @property
    def in_slow_start(self) -> bool:
        """Whether the regressor still trains alone."""
        return self.current_epoch < self.settings.slow_start

    def forward(self, images: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return (prediction, score), each (n,), in the units of the target and of the network."""
        prediction, score = self.network(images, cost / self.target_scale**2)
        return prediction.float() * self.target_scale + self.target_mean, score.float()

    def on_train_epoch_start(self) -> None:
        """Set seed and learning rate as functions of the epoch only, so that a restart does not change them."""
        settings = self.settings
        torch.manual_seed(seed_all(settings.seed, self.current_epoch, self.global_rank))
        if settings.schedule == "cosine":
            rate = settings.learning_rate * (1 + math.cos(math.pi * self.current_epoch / settings.epochs)) / 2
            for group in self.trainer.optimizers[0].param_groups:
                group["lr"] = rate

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return this process's share of the mean loss of the global batch."""
        images, y, cost = batch
        target = (y - self.target_mean) / self.target_scale
        if self.in_slow_start:
            prediction = self.network.regress(images)
            rows = self.loss(prediction, torch.zeros_like(prediction), target, regressor_only=True)
        else:
            scaled = cost / self.target_scale**2
            prediction, score = self.network(images, scaled)
            rows = self.loss(prediction, score, target, scaled)
        self.train_loss.update(rows.detach() * self.target_scale**2)
        self.log("train/loss", self.train_loss, on_step=False, on_epoch=True, batch_size=len(rows))
        loss: Tensor = rows.sum() * self._share(rows)
        if self._distributed and self.in_slow_start:
            # DDP waits for a gradient of every parameter.
            loss = loss + sum(0 * parameter.sum() for parameter in self.network.rejector_parameters())
        return loss

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Remove the rejector's gradients during Slow-Start: an optimiser skips parameters without a gradient."""
        if self.in_slow_start:
            for parameter in self.network.rejector_parameters():
                parameter.grad = None

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Keep the results of one batch."""
        images, y, cost = batch
        self.validated.update(torch.stack([*self(images, cost), y, cost], dim=1))

    def on_validation_epoch_end(self) -> None:
        """Log the measures over all rows of all processes."""
        prediction, score, y, cost = self.validated.compute().double().cpu().numpy().T
        self.validated.reset()
        measures = {"rcr_loss": math.nan}
        if np.isfinite(prediction).all() and np.isfinite(score).all():
            decision = Decision(prediction=prediction, accepted=score > 0, score=score, cost=cost)
            measures = metrics.evaluate(y, decision)
        if self.in_slow_start:
            # The rejector is untrained in these epochs, so none of them may be chosen as the best.
            measures["rcr_loss"] = math.inf
        # All processes have equal measures, but Lightning warns unless they are reduced.
        self.log_dict({f"val/{name}": value for name, value in measures.items()}, sync_dist=self._distributed)

    def on_train_epoch_end(self) -> None:
        """Append the epoch to the history."""
        measures = {name: float(value) for name, value in sorted(self.trainer.callback_metrics.items())}
        self.history.append({"epoch": self.current_epoch, **measures})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the history."""
        checkpoint["history"] = self.history

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the history."""
        self.history = checkpoint["history"]

    def configure_optimizers(self) -> Optimizer:
        """Return Adam on all parameters."""
        return Adam(self.parameters(), lr=self.settings.learning_rate, weight_decay=self.settings.weight_decay)

    @property
    def _distributed(self) -> bool:
        """Whether several processes train together."""
        return self.trainer.world_size > 1

    def _share(self, rows: Tensor) -> Tensor:
        """Return the number of processes over the rows of the global batch: processes average their gradients."""
        count = torch.tensor(float(len(rows)), device=rows.device)
        if not self._distributed:
            return 1 / count
        total = cast(Tensor, self.trainer.strategy.reduce(count, reduce_op="sum"))
        return self.trainer.world_size / total
