"""One training with Lightning, started afresh or resumed, that ends with the weights of the best epoch."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer

from recuse.deep.lightning.callbacks import BestAndLast, EarlyStoppingAfterSlowStart, History, SeedEpochs
from recuse.deep.lightning.data import RejectionData
from recuse.deep.lightning.environment import training_environment
from recuse.deep.lightning.module import RejectionModule
from recuse.deep.lightning.trainer_options import check_trainer_options

__all__ = ["Outcome", "Run", "train"]


@dataclass(frozen=True)
class Run:
    """Settings of one training.

    Attributes
    ----------
    epochs : int
    seed : int
        Together with the seed of the data, it determines the outcome.
    folder : path, optional
        Where ``best.ckpt``, ``last.ckpt`` and ``history.csv`` are written. A training that finds a ``last.ckpt`` there
        resumes from it. Without a folder nothing is kept.
    early_stopping : int, optional
        Stop after this many epochs without an improvement; epochs of Slow-Start do not count.
    trainer : mapping of str to object
        Further arguments of Lightning's Trainer: accelerator, devices, strategy, precision, logger and so on. By
        default, a training uses one device, the best there is, and no logger.
    verbose : bool
        Show Lightning's progress bar and messages.

    Examples
    --------
    >>> Run(epochs=100, early_stopping=20, trainer={"precision": "bf16-mixed"}).early_stopping
    20
    """

    epochs: int
    seed: int = 0
    folder: Path | None = None
    early_stopping: int | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False


@dataclass(frozen=True)
class Outcome:
    """Result of a training; the weights of the best epoch are in the module.

    Attributes
    ----------
    best_loss : float
        The lowest validation RcR loss.
    best_epoch : int
    history : list of dict
        What was logged in each epoch.
    device : torch.device
        The device that this process trained on.

    Examples
    --------
    >>> outcome = Outcome(best_loss=0.7, best_epoch=12, history=[{"val/rcr_loss": 0.7}], device=torch.device("cpu"))
    >>> outcome.best_epoch
    12
    """

    best_loss: float
    best_epoch: int
    history: list[dict[str, float]]
    device: torch.device


def train(module: RejectionModule, data: RejectionData, run: Run) -> Outcome:
    """Train a module and load the weights of the best epoch after Slow-Start into it.

    Started again with the same folder, module and data, a training resumes after its last whole epoch and ends with the
    numbers of a training that was never interrupted.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from recuse import TwoHeads, datasets
    >>> X, y, _, _ = (torch.as_tensor(part).float() for part in datasets.make_heteroscedastic(200, random_state=0))
    >>> data = RejectionData(TensorDataset(X[:150], y[:150]), TensorDataset(X[150:], y[150:]))
    >>> module = RejectionModule(TwoHeads(torch.nn.Linear(8, 4), features=4), cost=1.0, slow_start=1)
    >>> outcome = train(module, data, Run(epochs=3))
    >>> len(outcome.history), outcome.best_epoch >= 1
    (3, True)
    """
    if module.slow_start >= run.epochs:
        raise ValueError(f"slow_start must be less than epochs, got {module.slow_start} of {run.epochs} epochs")
    check_trainer_options(run.trainer)
    with ExitStack() as stack:
        stack.enter_context(training_environment(run.seed, verbose=run.verbose))
        folder = run.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept, history = BestAndLast(folder, last=run.folder is not None), History(run.folder and folder / "history.csv")
        trainer = _trainer(run, [kept, history])
        folder.mkdir(parents=True, exist_ok=True)
        last = folder / "last.ckpt"
        trainer.fit(module, datamodule=data, ckpt_path=last if last.exists() else None)
        if kept.best_epoch < 0 and last.exists():
            _restore(last, kept, history)
        if kept.best_epoch < 0:
            raise RuntimeError(
                "training must reach a finite validation loss after Slow-Start, "
                f"got none in {len(history.epochs)} epochs: try a smaller learning rate"
            )
        best = torch.load(folder / "best.ckpt", map_location="cpu", weights_only=True)
        module.load_state_dict(best["state_dict"])
    return Outcome(kept.best_loss, kept.best_epoch, history.epochs, trainer.strategy.root_device)


def _restore(last: Path, *callbacks: Callback) -> None:
    """Load the state of callbacks that ran in processes which have ended."""
    states = torch.load(last, map_location="cpu", weights_only=True)["callbacks"]
    for callback in callbacks:
        callback.load_state_dict(states[callback.state_key])


def _trainer(run: Run, callbacks: list[Callback]) -> Trainer:
    callbacks = [*callbacks, SeedEpochs(run.seed)]
    if run.early_stopping is not None:
        callbacks.append(EarlyStoppingAfterSlowStart(run.early_stopping))
    options = {"devices": 1, "logger": False, "log_every_n_steps": 1, **run.trainer}
    try:
        return Trainer(
            **options,
            max_epochs=run.epochs,
            callbacks=callbacks,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # RejectionData divides the rows itself, each to one process
            enable_progress_bar=run.verbose,
            enable_model_summary=run.verbose,
        )
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise ValueError(f"trainer must contain valid arguments of Lightning's Trainer, got {error}") from error
