"""One training with Lightning, started afresh or resumed, that ends with the weights of the best epoch."""

from __future__ import annotations

import logging
import math
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from recuse.images.batches import ImageBatches, SeededRows, seeded
from recuse.images.module import RejectionModule, TrainingSettings

# Arguments of Lightning's Trainer that do not change the epochs, the checkpoints or the rows of a training.
_OPTIONS = (
    *("accelerator", "accumulate_grad_batches", "benchmark", "default_root_dir", "detect_anomaly", "deterministic"),
    *("devices", "gradient_clip_algorithm", "gradient_clip_val", "log_every_n_steps", "logger", "num_nodes", "plugins"),
    *("precision", "profiler", "strategy", "sync_batchnorm"),
)
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # Lightning sets it for deterministic training.


class BestAndLast(Checkpoint):
    """Writes ``best.ckpt``, the weights of the best epoch, ``last.ckpt``, to resume from, and ``history.csv``.

    Each file is written under a temporary name and then renamed, so a process that is killed leaves the files of the
    epoch before. All that is needed to resume is in the history of the module.

    Parameters
    ----------
    folder : Path
    settings : TrainingSettings
    """

    def __init__(self, folder: Path, settings: TrainingSettings) -> None:
        self.folder, self.settings = folder, settings

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop at once if the training that is resumed had stopped early."""
        self._stop_in_time(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the epoch."""
        *earlier, loss = self._losses(pl_module)
        if loss < min(earlier, default=math.inf):
            self._save(trainer, "best", weights_only=True)
        if self.settings.folder is not None:
            self._save(trainer, "last", weights_only=False)
            if trainer.is_global_zero:
                self._write_history(pl_module)
        self._stop_in_time(trainer, pl_module)

    def _write_history(self, module: Any) -> None:
        partial = self.folder / "history.partial"
        pd.DataFrame(module.history).to_csv(partial, index=False)
        partial.replace(self.folder / "history.csv")

    def _losses(self, module: Any) -> list[float]:
        """Return the monitored loss of each epoch, infinite instead of NaN."""
        losses = [epoch[self.settings.monitor] for epoch in module.history]
        return [math.inf if math.isnan(loss) else loss for loss in losses]

    def _stop_in_time(self, trainer: Trainer, module: LightningModule) -> None:
        losses, patience = self._losses(module), self.settings.early_stopping
        if patience is not None and min(losses, default=math.inf) < math.inf:
            trainer.should_stop = len(losses) - 1 - losses.index(min(losses)) >= patience

    def _save(self, trainer: Trainer, name: str, *, weights_only: bool) -> None:
        partial = self.folder / f"{name}.partial"
        trainer.save_checkpoint(partial, weights_only=weights_only)
        if trainer.is_global_zero:
            partial.replace(self.folder / f"{name}.ckpt")
        trainer.strategy.barrier("checkpoint")


def train(module: RejectionModule, rows: SeededRows, validation: SeededRows) -> tuple[int, torch.device]:
    """Train a module and load the weights of the best epoch into it; return that epoch and the device.

    Started again with the same folder, module and rows, a training resumes after its last whole epoch and ends with the
    numbers of a training that was never interrupted.
    """
    settings = module.settings
    with ExitStack() as stack:
        stack.enter_context(_restored(settings))
        folder = settings.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainer = _trainer(settings, [BestAndLast(folder, settings)])
        folder.mkdir(parents=True, exist_ok=True)
        best, last = folder / "best.ckpt", folder / "last.ckpt"
        data = ImageBatches(rows, validation, settings.batch_size, settings.num_workers)
        trainer.fit(module, datamodule=data, ckpt_path=last if last.exists() else None)
        if not module.history and last.exists():  # the processes that trained have ended
            module.history = torch.load(last, map_location="cpu", weights_only=True)["history"]
        if not best.exists():
            raise RuntimeError(
                "training must reach a finite validation loss after Slow-Start, "
                f"got none in {len(module.history)} epochs: try a smaller learning rate"
            )
        found = torch.load(best, map_location="cpu", weights_only=True)
        module.load_state_dict(found["state_dict"])
    return int(found["history"][-1]["epoch"]), trainer.strategy.root_device


def check_trainer_options(options: Mapping[str, Any]) -> None:
    """Raise a ValueError unless these are arguments of Lightning's Trainer that a user may set.

    Examples
    --------
    >>> check_trainer_options({"accelerator": "cpu", "precision": "bf16-mixed"})
    >>> check_trainer_options({"max_epochs": 3})
    Traceback (most recent call last):
    ValueError: trainer must contain only accelerator, accumulate_grad_batches, ..., got 'max_epochs': ...
    """
    for name in options:
        if name not in _OPTIONS:
            raise ValueError(
                f"trainer must contain only {', '.join(_OPTIONS)}, got {name!r}: "
                "parameters of RcRImageRegressor, such as epochs, set the others"
            )
    settings = TrainingSettings(1, 0, 1, 1.0, seed=0, trainer=options)
    with _restored(settings):
        _trainer(settings, [])


def _trainer(settings: TrainingSettings, callbacks: list[Any]) -> Trainer:
    options = {"devices": 1, "logger": False, "log_every_n_steps": 1, **settings.trainer}
    try:
        return Trainer(
            **options,
            max_epochs=settings.last_epoch or settings.epochs,
            callbacks=callbacks,
            enable_checkpointing=bool(callbacks),
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # ImageBatches divides the rows itself, each to one process
            enable_progress_bar=settings.verbose,
            enable_model_summary=settings.verbose,
        )
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise ValueError(f"trainer must contain valid arguments of Lightning's Trainer, got {error}") from error


@contextmanager
def _restored(settings: TrainingSettings) -> Iterator[None]:
    """Seed a training, and restore global state after it, also after an error or an interruption.

    Restored are the random generators of torch, numpy and Python, torch's number of threads and determinism flags,
    the levels of Lightning's loggers, the warning filters, and the handler of SIGINT.
    """
    with ExitStack() as stack:
        stack.enter_context(_keyboard_interrupt())
        stack.enter_context(_quiet(settings.verbose))
        stack.enter_context(_torch_settings())
        stack.enter_context(seeded(settings.seed))
        yield


@contextmanager
def _torch_settings() -> Iterator[None]:
    """Restore what Lightning sets for several processes and for reproducible trainings, and generators of CUDA."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, workspace = torch.backends.cudnn.benchmark, os.environ.get(_WORKSPACE)
    # Reading the states would initialise CUDA, which strategies that fork do not allow.
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        os.environ.pop(_WORKSPACE, None)
        if workspace is not None:
            os.environ[_WORKSPACE] = workspace
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Suppress Lightning's advice about settings that are chosen here, and its messages unless `verbose`."""
    loggers = [] if verbose else [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    before = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # Lightning 2.6 with torch 2.13
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


@contextmanager
def _keyboard_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C, where Lightning exits the interpreter and ignores the next SIGINT."""
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
