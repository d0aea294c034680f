"""Checks of the arguments that a user passes on to Lightning's Trainer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.accelerators import AcceleratorRegistry

__all__ = ["check_trainer_options"]

_LENGTH = "set epochs or early_stopping instead"
_VERBOSE = "set verbose instead"
_EPOCH = "each epoch must end with one validation on all rows"
_FIT_ONLY = "it has no effect in fit"
# arguments that the training sets itself, or that would change its epochs or its results
_RESERVED = {
    "max_epochs": "set epochs instead",
    "min_epochs": _LENGTH,
    "max_steps": _LENGTH,
    "min_steps": _LENGTH,
    "max_time": _LENGTH,
    "callbacks": "the training needs its own; use RejectionModule with a Trainer of your own to add others",
    "fast_dev_run": _EPOCH,
    "limit_train_batches": _EPOCH,
    "limit_val_batches": _EPOCH,
    "limit_test_batches": _FIT_ONLY,
    "limit_predict_batches": _FIT_ONLY,
    "overfit_batches": _EPOCH,
    "val_check_interval": _EPOCH,
    "check_val_every_n_epoch": _EPOCH,
    "num_sanity_val_steps": _EPOCH,
    "barebones": _EPOCH,
    "enable_checkpointing": "the training writes its own checkpoints",
    "enable_progress_bar": _VERBOSE,
    "enable_model_summary": _VERBOSE,
    "use_distributed_sampler": "the training divides the rows among the processes itself",
    "reload_dataloaders_every_n_epochs": "the training makes its data loaders once",
}


def check_trainer_options(options: Mapping[str, Any]) -> None:
    """Raise a ValueError unless these are arguments of Lightning's Trainer that a user may set.

    Parameters
    ----------
    options : mapping of str to object

    Examples
    --------
    >>> check_trainer_options({"accelerator": "cpu", "precision": "bf16-mixed"})
    >>> check_trainer_options({"max_epochs": 3})
    Traceback (most recent call last):
    ValueError: trainer must not contain 'max_epochs': set epochs instead
    >>> check_trainer_options({"acelerator": "cpu"})
    Traceback (most recent call last):
    ValueError: trainer must contain arguments of Lightning's Trainer, got 'acelerator': did you mean 'accelerator'?
    """
    known = list(inspect.signature(Trainer).parameters)
    for name in options:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"trainer must contain arguments of Lightning's Trainer, got {name!r}{hint}")
        if name in _RESERVED:
            raise ValueError(f"trainer must not contain {name!r}: {_RESERVED[name]}")
    _check_accelerator(options.get("accelerator", "auto"))


def _check_accelerator(accelerator: Any) -> None:
    if not isinstance(accelerator, str) or accelerator == "auto":
        return
    names = sorted(AcceleratorRegistry.available_accelerators())
    if accelerator not in (*names, "gpu"):
        raise ValueError(f"accelerator must be one of auto, gpu, {', '.join(names)}, got {accelerator!r}")
    meant = ("cuda", "mps") if accelerator == "gpu" else (accelerator,)
    if not any(AcceleratorRegistry[name]["accelerator"].is_available() for name in meant):
        raise ValueError(
            f"accelerator must be one that this machine has, got {accelerator!r}: use 'auto' for the best there is"
        )
