"""One training from start, or from its last checkpoint, to end: module, data and settings in, best weights out."""

from __future__ import annotations

import importlib.util
import logging
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import Strategy

from recuse.deep.lightning.callbacks import BestAndLast, History, SeedEpochs, StopEarly
from recuse.deep.lightning.data import RejectionData, chance
from recuse.deep.lightning.module import RejectionModule

__all__ = ["Outcome", "Run", "train"]


@dataclass(frozen=True)
class Run:
    """How to train.

    Attributes
    ----------
    epochs : int
    seed : int
        With the data's, fixes the outcome.
    folder : path, optional
        Where checkpoints and logs go: ``best.ckpt``, ``last.ckpt``, ``history.csv`` and ``tensorboard/``. A training
        that finds a ``last.ckpt`` there goes on from it. Nothing is kept if there is no folder.
    early_stopping : int, optional
        Stop after so many epochs without an improvement.
    accelerator, devices, num_nodes, strategy, precision, sync_batchnorm
        As in Lightning's Trainer.
    verbose : bool
        Show Lightning's progress bar and messages.
    """

    epochs: int
    seed: int = 0
    folder: Path | None = None
    early_stopping: int | None = None
    accelerator: str = "auto"
    devices: int | str | list[int] = 1
    num_nodes: int = 1
    strategy: str | Strategy = "auto"
    precision: Any = 32
    sync_batchnorm: bool = False
    verbose: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a training leaves behind besides the best weights, which are in the module.

    Attributes
    ----------
    best_loss : float
        The lowest validation RcR loss.
    best_epoch : int
    history : list of dict
        What was logged in each epoch.
    """

    best_loss: float
    best_epoch: int
    history: list[dict[str, float]]


def train(module: RejectionModule, data: RejectionData, run: Run) -> Outcome:
    """Train, and leave the module with the weights of the best epoch after Slow-Start.

    Started again with the same folder, module and data, a training goes on after its last whole epoch and ends with the
    numbers of one that was never disturbed.
    """
    if module.slow_start >= run.epochs:
        raise ValueError(f"slow_start must leave an epoch for both, got {module.slow_start} of {run.epochs} epochs")
    with ExitStack() as stack:
        stack.enter_context(_interruptible())
        stack.enter_context(_peace(run.verbose))
        # the caller's own random numbers go on as if nothing had happened
        stack.enter_context(chance(run.seed))
        folder = run.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        kept, history = BestAndLast(folder, last=run.folder is not None), History(run.folder and folder / "history.csv")
        trainer = _trainer(run, data.accumulate, [kept, history])
        last = folder / "last.ckpt"
        trainer.fit(module, datamodule=data, ckpt_path=last if last.exists() else None)
        if kept.best_epoch < 0 and last.exists():
            _recall(last, kept, history)
        if kept.best_epoch < 0:
            raise RuntimeError(
                "training must reach a finite validation loss after Slow-Start, "
                f"got none in {len(history.epochs)} epochs: try a smaller learning rate"
            )
        best = torch.load(folder / "best.ckpt", map_location="cpu", weights_only=True)
        module.load_state_dict(best["state_dict"])
    return Outcome(kept.best_loss, kept.best_epoch, history.epochs)


def _recall(last: Path, *callbacks: Callback) -> None:
    """Learn from the checkpoint what happened in processes that are no more."""
    states = torch.load(last, map_location="cpu", weights_only=True)["callbacks"]
    for callback in callbacks:
        callback.load_state_dict(states[callback.state_key])


def _trainer(run: Run, accumulate: int, callbacks: list[Callback]) -> Trainer:
    callbacks = [*callbacks, SeedEpochs(run.seed)]
    if run.early_stopping is not None:
        callbacks.append(StopEarly(run.early_stopping))
    return Trainer(
        accelerator=run.accelerator,
        devices=run.devices,
        num_nodes=run.num_nodes,
        strategy=run.strategy,
        precision=run.precision,
        sync_batchnorm=run.sync_batchnorm,
        max_epochs=run.epochs,
        accumulate_grad_batches=accumulate,
        callbacks=callbacks,
        logger=_logger(run.folder),
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,  # RejectionData deals the rows out itself, each to one process
        enable_progress_bar=run.verbose,
        enable_model_summary=run.verbose,
    )


def _logger(folder: Path | None) -> TensorBoardLogger | bool:
    if folder is None or importlib.util.find_spec("tensorboard") is None:
        return False
    return TensorBoardLogger(folder, name="tensorboard", version="")


@contextmanager
def _peace(verbose: bool) -> Iterator[None]:
    """Keep Lightning's advice about settings chosen here, and its messages unless wanted, from the user."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    before = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # between Lightning 2.6 and torch 2.13
        try:
            for logger in [] if verbose else loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Give Ctrl-C back its meaning: Lightning leaves the interpreter, deaf to the next one."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as exit:
        if isinstance(exit.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from exit
        raise
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
