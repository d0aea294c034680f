"""One training of RcRImageRegressor: its parameters and rows in; checks, a claim to a folder, a trained network out."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Dataset

from recuse import surrogates
from recuse.deep.backbones import resnet50, small_cnn
from recuse.deep.two_heads import TwoHeads
from recuse.estimators.images.rows import PictureRows, Pictures
from recuse.validation import is_count, is_rate, require

if TYPE_CHECKING:
    from recuse.deep.lightning import Outcome

__all__ = [
    "BackboneFactory",
    "check_image_parameters",
    "claim_folder",
    "make_backbone",
    "run_settings",
    "train_network",
]

BackboneFactory = Callable[[int], nn.Module | tuple[nn.Module, int]]

_KEPT = ("best.ckpt", "last.ckpt", "history.csv", "settings.json")


def check_image_parameters(model: Any) -> None:
    """Check every parameter but the cost, which is checked with the rows, and those that only Lightning understands."""
    surrogates.get(model.surrogate)
    for name in ("epochs", "batch_size", "accumulate", "num_nodes"):
        require(is_count(getattr(model, name)), name, "an int >= 1", getattr(model, name))
    for name in ("slow_start", "num_workers"):
        require(is_count(getattr(model, name), least=0), name, "an int >= 0", getattr(model, name))
    patience = model.early_stopping
    require(patience is None or is_count(patience), "early_stopping", "an int >= 1 or None", patience)
    require(is_rate(model.learning_rate), "learning_rate", "> 0 and finite", model.learning_rate)
    require(model.schedule in ("constant", "cosine"), "schedule", "'constant' or 'cosine'", model.schedule)
    decay = model.weight_decay
    require(decay == 0 or is_rate(decay), "weight_decay", ">= 0 and finite", decay)
    share = model.validation_fraction
    require(isinstance(share, float) and 0 < share < 1, "validation_fraction", "between 0 and 1", share)
    known = model.backbone in (None, "resnet50") or callable(model.backbone)
    require(known, "backbone", "None, 'resnet50' or a callable of the number of channels", model.backbone)
    require(
        all(is_count(width) for width in model.rejector_hidden), "rejector_hidden", "ints >= 1", model.rejector_hidden
    )
    if model.devices != 1 or model.num_nodes != 1:
        agreed = isinstance(model.random_state, Integral)
        require(agreed, "random_state", "an int where several processes must agree on it", model.random_state)
        require(model.checkpoint_dir is not None, "checkpoint_dir", "a folder that all processes share", None)


def make_backbone(backbone: str | BackboneFactory | None, channels: int) -> tuple[nn.Module, int]:
    """Give a backbone for images of so many channels, and the number of its features."""
    built_in: dict[Any, BackboneFactory] = {None: small_cnn, "resnet50": partial(resnet50, None)}
    made = backbone(channels) if callable(backbone) else built_in[backbone](channels)
    module, features = made if isinstance(made, tuple) else (made, getattr(made, "features", None))
    if not isinstance(module, nn.Module) or not is_count(features):
        raise TypeError(
            "backbone must return (module, number of features), or a module with an int attribute `features`, "
            f"got {type(made).__name__}"
        )
    return module, int(features)  # type: ignore[arg-type]


def run_settings(model: Any, slow_start: int, train: Pictures, validation: Pictures) -> dict[str, Any]:
    """Give all that the numbers of a training depend on, as plain values: rows and costs by their checksums."""
    backbone = model.backbone
    return {
        "backbone": getattr(backbone, "__qualname__", type(backbone).__name__) if callable(backbone) else backbone,
        "surrogate": surrogates.get(model.surrogate).name,
        "slow_start": slow_start,
        "batch_size": int(model.batch_size),
        "learning_rate": float(model.learning_rate),
        "schedule": model.schedule if model.schedule == "constant" else f"{model.schedule} over {model.epochs} epochs",
        "weight_decay": float(model.weight_decay),
        "shared": bool(model.shared),
        "rejector_hidden": [int(width) for width in model.rejector_hidden],
        "scale_target": bool(model.scale_target),
        "training rows": len(train),
        "validation rows": len(validation),
        "targets": _checksum(train.y, validation.y),
        "costs": _checksum(train.cost, validation.cost),
    }


def train_network(
    model: Any,
    network: TwoHeads,
    train: Pictures,
    validation: Pictures,
    seed: int,
    slow_start: int,
    units: tuple[float, float],
) -> Outcome:
    """Train with Lightning; the network is left with the weights of the best epoch."""
    from recuse.deep import lightning  # an extra: only now is it needed

    module = lightning.RejectionModule(
        network,
        model.surrogate,
        learning_rate=model.learning_rate,
        schedule=model.schedule,
        weight_decay=model.weight_decay,
        slow_start=slow_start,
        target_mean=units[0],
        target_scale=units[1],
    )
    data = lightning.RejectionData(
        PictureRows(train, model.augment, seed),
        PictureRows(validation),
        batch_size=model.batch_size,
        accumulate=model.accumulate,
        num_workers=model.num_workers,
        seed=seed,
        random=isinstance(train.images, Dataset),
    )
    same = ("epochs", "early_stopping", "accelerator", "devices", "num_nodes", "strategy", "precision")
    settings = {name: getattr(model, name) for name in (*same, "sync_batchnorm", "verbose")}
    folder = None if model.checkpoint_dir is None else Path(model.checkpoint_dir)
    return lightning.train(module, data, lightning.Run(seed=seed, folder=folder, **settings))


def claim_folder(folder: Path, settings: dict[str, Any], *, seed: int | None, resume: bool, fresh_seed: int) -> int:
    """Make sure that what is in the folder belongs to these settings; give the seed to train with."""
    file = folder / "settings.json"
    if not resume:
        for name in _KEPT:
            (folder / name).unlink(missing_ok=True)
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        now = {"seed": before.get("seed") if seed is None else seed, **settings}
        for name, value in now.items():
            if before.get(name) != value:
                raise ValueError(
                    f"checkpoint_dir must hold a run of the same settings, got {name} {before.get(name)!r} in {folder} "
                    f"and {value!r} here: choose another folder, or resume=False to start afresh"
                )
        return int(now["seed"])
    folder.mkdir(parents=True, exist_ok=True)
    chosen = fresh_seed if seed is None else seed
    partial = file.with_suffix(f".{os.getpid()}.partial")  # several processes may write it
    partial.write_text(json.dumps({"seed": chosen, **settings}, indent=1), encoding="utf-8")
    partial.replace(file)
    return chosen


def _checksum(*columns: NDArray[np.float64]) -> int:
    return zlib.crc32(b"".join(np.ascontiguousarray(column).tobytes() for column in columns))
