"""A LightningModule that trains and measures a network with a regressor and a rejector."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, cast

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.utils.data import DistributedSampler
from torchmetrics import MeanMetric, MetricCollection

from recuse import surrogates
from recuse.deep.loss import RejectionLoss
from recuse.metrics.torch import rejection_metrics
from recuse.surrogates import SurrogateLike

__all__ = ["RejectingNetwork", "RejectionModule"]


class RejectingNetwork(Protocol):
    """Interface of a network that `RejectionModule` can train, such as `recuse.TwoHeads`.

    Calling it returns (prediction, score), each of shape (n,). If its attribute `cost_input` is true, the costs of the
    rows are passed as the second argument.
    """

    def __call__(self, *inputs: Any) -> tuple[Tensor, Tensor]: ...  # noqa: D102

    def regress(self, x: Any) -> Tensor:
        """Return the prediction only, without running the rejector."""

    def rejector_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters that only the score depends on."""


class RejectionModule(LightningModule):
    """Trains a regressor and a rejector together, on any accelerator and any number of devices.

    A batch is ``(x, y)`` or ``(x, y, cost)``. In the first `slow_start` epochs the regressor trains alone, on squared
    error, and the parameters and buffers that only the rejector uses do not change. After that both train on the
    surrogate loss.

    The module logs ``train/loss`` and, under ``val/`` and ``test/``, the measures of `recuse.metrics.evaluate`. Choose
    the best epoch by ``val/rcr_loss``, which is infinite during Slow-Start. On several devices each row counts once if
    the loaders of all processes together return it once, as those of `RejectionData` do. Training on several devices
    then equals training on one device with the same global batch, except for batch normalisation: its statistics are
    those of one process, unless ``Trainer(sync_batchnorm=True)`` combines them on GPUs.

    Parameters
    ----------
    network : TwoHeads, or a module with its methods
    surrogate : str, Surrogate or callable, default="mae"
    cost : float, default=1.0
        The cost of a rejection, in squared units of the target, for batches without costs.
    learning_rate : float, default=1e-3
        Learning rate of Adam; override `configure_optimizers` for another optimiser.
    schedule : {"constant", "cosine"}, default="constant"
        Keep the learning rate constant, as in the paper, or let it fall to zero over the epochs along half a cosine.
    weight_decay : float, default=0.0
    slow_start : int, default=40
    target_mean, target_scale : float
        The network is trained on ``(y - target_mean) / target_scale``; measures and predictions are in units of y.

    Examples
    --------
    >>> from recuse.deep.backbones import small_cnn
    >>> from recuse.deep.two_heads import TwoHeads
    >>> module = RejectionModule(TwoHeads(small_cnn(), features=64), cost=0.01, slow_start=2)
    >>> module.hparams["slow_start"]
    2
    """

    network: nn.Module
    target_mean: Tensor
    target_scale: Tensor

    def __init__(
        self,
        network: nn.Module,
        surrogate: SurrogateLike = "mae",
        cost: float = 1.0,
        *,
        learning_rate: float = 1e-3,
        schedule: Literal["constant", "cosine"] = "constant",
        weight_decay: float = 0.0,
        slow_start: int = 40,
        target_mean: float = 0.0,
        target_scale: float = 1.0,
    ) -> None:
        super().__init__()
        for method in ("regress", "rejector_parameters"):
            if not hasattr(network, method):
                raise TypeError(f"network must have a method {method}(), as TwoHeads has, got {type(network).__name__}")
        if schedule not in ("constant", "cosine"):
            raise ValueError(f"schedule must be 'constant' or 'cosine', got {schedule!r}")
        self.network, self.schedule = network, schedule
        self.loss = RejectionLoss(surrogate, cost, reduction="none")
        self.learning_rate, self.weight_decay, self.slow_start = learning_rate, weight_decay, slow_start
        self.register_buffer("target_mean", torch.tensor(float(target_mean)))
        self.register_buffer("target_scale", torch.tensor(float(target_scale)))
        # keep NaN, so that a training that diverges shows it
        self.train_loss = MeanMetric(nan_strategy=float("nan"))
        self.val_metrics, self.test_metrics = rejection_metrics(cost, "val/"), rejection_metrics(cost, "test/")
        self.save_hyperparameters(
            {
                "surrogate": surrogates.get(
                    surrogate
                ).name,  # plain text, so that no code is needed to read a checkpoint
                "cost": float(cost),
                "learning_rate": learning_rate,
                "schedule": schedule,
                "weight_decay": weight_decay,
                "slow_start": slow_start,
                "target_mean": float(target_mean),
                "target_scale": float(target_scale),
            }
        )

    @property
    def in_slow_start(self) -> bool:
        """Whether the regressor still trains alone."""
        return self.current_epoch < self.slow_start

    def forward(self, x: Any, cost: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
        """Return (prediction, score), each (n,); the prediction is in units of the target."""
        prediction, score = self._run(x, cost)
        return prediction.float() * self.target_scale + self.target_mean, score.float()

    def on_train_epoch_start(self) -> None:
        """Set the learning rate as a function of the epoch only, so that a restart does not change it."""
        if self.schedule == "cosine":
            share = self.current_epoch / max(self.trainer.max_epochs or 0, 1)
            for group in self.trainer.optimizers[0].param_groups:
                group["lr"] = self.learning_rate * (1 + math.cos(math.pi * share)) / 2

    def training_step(self, batch: Sequence[Any], batch_idx: int) -> Tensor:
        """Return this process's share of the mean loss of the global batch."""
        x, y, cost = _unpacked(batch)
        target = (y.float() - self.target_mean) / self.target_scale
        if self.in_slow_start:
            prediction = self._network.regress(x)
            rows = self.loss(prediction, torch.zeros_like(prediction), target, regressor_only=True)
        else:
            prediction, score = self._run(x, cost)
            rows = self.loss(prediction, score, target, self._scaled(cost))
        self.train_loss.update(rows.detach() * self.target_scale**2)
        self.log("train/loss", self.train_loss, on_step=False, on_epoch=True, batch_size=len(rows))
        loss: Tensor = rows.sum() * self._share(rows)
        return loss + self._zero_of_rejector() if self._distributed and self.in_slow_start else loss

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Remove the rejector's gradients during Slow-Start: an optimiser skips parameters without a gradient."""
        if self.in_slow_start:
            for parameter in self._network.rejector_parameters():
                parameter.grad = None

    def on_validation_start(self) -> None:
        """Warn if some rows count twice."""
        _warn_of_repeats(self.trainer.val_dataloaders)

    def validation_step(self, batch: Sequence[Any], batch_idx: int) -> None:
        """Add the rows of one batch to the measures."""
        self._measure(self.val_metrics, batch)

    def on_validation_epoch_end(self) -> None:
        """Log the measures over all rows of all processes."""
        measures = self.val_metrics.compute()
        self.val_metrics.reset()
        if self.trainer.state.fn == TrainerFn.FITTING and self.in_slow_start:
            # the rejector is untrained in these epochs, so none of them may be chosen as the best
            measures["val/rcr_loss"] = torch.full_like(measures["val/rcr_loss"], torch.inf)
        self.log_dict(
            measures, sync_dist=self._distributed
        )  # equal in all processes already, but Lightning warns without it

    def on_test_start(self) -> None:
        """Warn if some rows count twice."""
        _warn_of_repeats(self.trainer.test_dataloaders)

    def test_step(self, batch: Sequence[Any], batch_idx: int) -> None:
        """Add the rows of one batch to the measures."""
        self._measure(self.test_metrics, batch)

    def on_test_epoch_end(self) -> None:
        """Log the measures over all rows of all processes."""
        self.log_dict(self.test_metrics.compute(), sync_dist=self._distributed)
        self.test_metrics.reset()

    def predict_step(self, batch: Any, batch_idx: int) -> tuple[Tensor, Tensor]:
        """Return (prediction, score) for a batch of x, (x, y) or (x, y, cost)."""
        x, cost = (batch[0], batch[2] if len(batch) > 2 else None) if isinstance(batch, list | tuple) else (batch, None)
        return self(x, cost)  # type: ignore[no-any-return]

    def configure_optimizers(self) -> Optimizer:
        """Return Adam on all parameters."""
        return Adam(self.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)

    @property
    def _distributed(self) -> bool:
        """Whether several processes train together."""
        return self.trainer.world_size > 1

    @property
    def _network(self) -> RejectingNetwork:
        return cast(RejectingNetwork, self.network)

    def _run(self, x: Any, cost: Tensor | float | None) -> tuple[Tensor, Tensor]:
        """Return prediction and score in the standardised units of the network."""
        if not getattr(self.network, "cost_input", False):
            return self._network(x)
        return self._network(x, self._scaled(cost))

    def _scaled(self, cost: Tensor | float | None) -> Tensor:
        """Return the cost in the squared units of the network."""
        return (self.loss.cost if cost is None else cost) / self.target_scale**2

    def _measure(self, metrics: MetricCollection, batch: Sequence[Any]) -> None:
        x, y, cost = _unpacked(batch)
        prediction, score = self(x, cost)
        metrics.update(prediction, score, y.float(), cost)

    def _share(self, rows: Tensor) -> Tensor:
        """Return the number of processes over the rows of the global batch: processes average their gradients."""
        count = torch.tensor(float(len(rows)), device=rows.device)
        if not self._distributed:
            return 1 / count
        total = cast(Tensor, self.trainer.strategy.reduce(count, reduce_op="sum"))
        return self.trainer.world_size / total

    def _zero_of_rejector(self) -> Tensor:
        """Return a zero that depends on the rejector: DDP waits for a gradient of every parameter."""
        return torch.stack([0 * parameter.sum() for parameter in self._network.rejector_parameters()]).sum()


def _warn_of_repeats(loaders: Any) -> None:
    for loader in loaders if isinstance(loaders, list | tuple) else [loaders]:
        sampler = getattr(loader, "sampler", None)
        if not isinstance(sampler, DistributedSampler) or sampler.rank != 0:
            continue
        repeated = sampler.total_size - len(sampler.dataset)  # type: ignore[arg-type]
        if repeated > 0:
            warnings.warn(
                f"the measures count {repeated} rows twice, since Lightning's sampler makes equal shares: "
                "use recuse.deep.lightning.RejectionData and Trainer(use_distributed_sampler=False)",
                stacklevel=2,
            )


def _unpacked(batch: Sequence[Any]) -> tuple[Any, Tensor, Tensor | None]:
    if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
        found = f"{len(batch)} parts" if isinstance(batch, list | tuple) else type(batch).__name__
        raise ValueError(f"a batch must be (x, y) or (x, y, cost), got {found}")
    return batch[0], batch[1], batch[2] if len(batch) == 3 else None
