"""Regression from images with cost-based rejection: a scikit-learn estimator trained with Lightning."""

from __future__ import annotations

import copy
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse import surrogates
from recuse.costs import Cost, is_constant, needs_rows
from recuse.deep.two_heads import TwoHeads
from recuse.estimators.base import RejectingRegressor
from recuse.images.backbones import BackboneFactory, make_backbone
from recuse.images.batches import SeededRows
from recuse.images.module import RejectionModule, TrainingSettings
from recuse.images.rows import Augment, ImageRows, check_images
from recuse.images.rule import ImageRule, image_of
from recuse.images.training import check_trainer_options, train
from recuse.surrogates import CarriesSurrogates, SurrogateLike
from recuse.validation import is_count, is_rate, require

Floats = NDArray[np.float64]

# Arguments of Lightning's Trainer that change the numbers of a training.
_NUMERICAL = ("precision", "gradient_clip_val", "gradient_clip_algorithm", "sync_batchnorm")


class RcRImageRegressor(CarriesSurrogates, RejectingRegressor):
    """Regression from images with cost-based rejection.

    A regressor and a rejector on one backbone are trained with Lightning (extra ``images``) on the surrogate loss of
    `RcRRegressor`, after Slow-Start. The weights of the epoch with the lowest validation RcR loss are kept.

    `predict`, `decision_function` and `decide` take images as an array or Tensor (n, channel, height, width), or a
    Dataset, whose targets they ignore. The fitted network stays on the device it was trained on and computes in single
    precision; results are float64 arrays. A pickled model can be loaded on a machine without that device, where it runs
    on the CPU. Predictions change nothing in the model, so several threads may use it at once.

    Parameters
    ----------
    cost : float, array-like or callable, default=1.0
        The cost of a rejection, in squared units of the target. If it varies by row, it is an input of the rejector,
        and `decide` accepts any cost.
    surrogate : str, Surrogate or callable, default="mae"
    backbone : None, "resnet50" or callable, default=None
        None is a small convolutional network for small images; "resnet50" has random initial weights. A callable takes
        the number of channels and returns a module and its number of features, or a module with an attribute
        `features`: ``lambda channels: recuse.images.resnet50("weights.safetensors", channels)``.
    epochs : int, default=100
    slow_start : int, default=40
        Epochs in which the regressor trains alone, at most half of all epochs.
    batch_size : int, default=128
        Rows in one step of the optimiser, over all devices together.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    schedule : {"constant", "cosine"}, default="constant"
        Keep the learning rate constant, as in the paper, or let it fall to zero over the epochs, which often gives a
        lower loss.
    weight_decay : float, default=0.0
    validation_fraction : float, default=0.2
        Share of the rows that choose the epoch, unless `fit` gets validation rows.
    augment : callable of (image, numpy Generator), optional
        Random transform of training images, such as `recuse.images.crop_and_flip`.
    early_stopping : int, optional
        Stop after this many epochs without a lower validation loss; epochs of Slow-Start do not count.
    num_workers : int, default=0
        Processes that read images.
    trainer : mapping, optional
        Further arguments of Lightning's Trainer, such as ``{"accelerator": "gpu", "precision": "bf16-mixed"}``. By
        default one device is used, the best there is. With ``"accumulate_grad_batches": k`` each batch is computed in k
        parts, for batches that do not fit into memory. With several devices, `random_state` must be an int and
        `checkpoint_dir` must be given.
    checkpoint_dir : path, optional
        Folder for ``best.ckpt``, ``last.ckpt`` and ``history.csv``. If it holds an unfinished run with the same
        settings, `fit` resumes it, with the same result as a run that was never interrupted.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show a progress bar and Lightning's messages.

    Attributes
    ----------
    network_ : TwoHeads
        The weights of the best epoch; its predictions are standardised.
    device_ : torch.device
        Device of the network.
    n_channels_ : int
        Number of channels of the images.
    image_shape_ : tuple of int
        Channels, height and width of the first training image, before `augment`.
    cost_ : the cost fitted for
    best_epoch_ : int
    validation_loss_ : float
        RcR loss of that epoch on the validation rows, in squared units of the target.
    history_ : DataFrame
        Training loss and validation measures of each epoch; the RcR loss is infinite during Slow-Start.

    Examples
    --------
    >>> images = np.random.default_rng(0).uniform(size=(40, 1, 16, 16)).astype("float32")
    >>> y = images.mean(axis=(1, 2, 3))
    >>> model = RcRImageRegressor(cost=0.1, epochs=2, random_state=0).fit(images, y)
    >>> model.decide(images[:3])
    Decision(3 rows: ...)
    """

    rule_: ImageRule
    device_: torch.device

    def __init__(
        self,
        cost: Cost = 1.0,
        surrogate: SurrogateLike = "mae",
        backbone: Literal["resnet50"] | BackboneFactory | None = None,
        epochs: int = 100,
        slow_start: int = 40,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        *,
        schedule: Literal["constant", "cosine"] = "constant",
        weight_decay: float = 0.0,
        validation_fraction: float = 0.2,
        augment: Augment | None = None,
        early_stopping: int | None = None,
        num_workers: int = 0,
        trainer: Mapping[str, Any] | None = None,
        checkpoint_dir: str | Path | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.cost = cost
        self.surrogate = surrogate
        self.backbone = backbone
        self.epochs = epochs
        self.slow_start = slow_start
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.augment = augment
        self.early_stopping = early_stopping
        self.num_workers = num_workers
        self.trainer = trainer
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, data: Any, y: ArrayLike | None = None, *, cost: Cost | None = None, validation: Any = None) -> Self:
        """Train the regressor and the rejector.

        Parameters
        ----------
        data : array or Tensor (n, channel, height, width), tuple (images, y) or (images, y, cost), or Dataset
            Images are bytes (0 to 255), which are scaled to [-1, 1], or floats, which are used unchanged. A torch
            Dataset returns (image, target) or (image, target, cost). Its targets are taken from an attribute `y` or
            `targets`, if there is one, instead of reading every image.
        y : array-like of shape (n,), optional
            Targets, if `data` is an array of images.
        cost : float, array-like or callable, optional
            Replaces the parameter `cost`; a callable gets the images as a Tensor, or the Dataset.
        validation : tuple or Dataset, optional
            Rows that choose the epoch, in any of the forms of `data`; by default, a random part of `data`.
        """
        with self._all_or_nothing():
            self._check_parameters()
            chosen = self.cost if cost is None else cost
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            rows = ImageRows.check(data, y, chosen)
            self.cost_ = rows.cost if rows.has_own_cost else chosen
            train, held_out = self._split(rows, validation, seed)
            if np.ptp(train.y) == 0:
                raise ValueError(f"y must not be constant, got {train.y[0]} in all {len(train)} rows")
            channels, height, width = image_of(train.images, int(train.index[0])).shape
            self.image_shape_ = (channels, height, width)
            self.n_channels_ = self.image_shape_[0]
            settings = self._training_settings(seed)
            if settings.folder is not None:
                required = None if self.random_state is None else seed
                stored = self._stored_settings(settings, train, held_out)
                settings = replace(settings, seed=_claim_folder(settings.folder, stored, seed=required, new_seed=seed))
            self._train(train, held_out, settings)
        return self

    def evaluate(self, data: Any, y: ArrayLike | None = None, *, cost: Cost | None = None) -> dict[str, float]:
        """Measure the decisions on rows with targets, in any of the forms of `fit`; see `recuse.metrics.evaluate`."""
        check_is_fitted(self)
        usual = None if needs_rows(self.cost_) else self.cost_  # costs of training rows are not those of other rows
        rows = ImageRows.check(data, y, usual if cost is None else cost)
        return self.decide(rows.images, rows.cost).evaluate(rows.y)

    @property
    def serves_any_cost(self) -> bool:
        """Whether `decide` accepts any cost: if the cost varied by row in training."""
        check_is_fitted(self)
        return self._varying_cost

    @property
    def network_(self) -> TwoHeads:
        """The trained network."""
        return self.rule_.network

    @property
    def _varying_cost(self) -> bool:
        return not is_constant(self.cost_)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the network on the CPU, so that any machine can load it."""
        state: dict[str, Any] = super().__getstate__()
        if "rule_" in state and self.device_.type != "cpu":
            state["rule_"] = replace(self.rule_, network=copy.deepcopy(self.network_).cpu())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state; the network goes to the device it was on, if this machine has it."""
        super().__setstate__(state)
        if "rule_" in state:
            self.device_ = _available(self.device_)
            self.network_.to(self.device_)

    def _check_parameters(self) -> None:
        """Check all parameters except the cost, which is checked with the rows."""
        surrogates.get(self.surrogate)
        for name, least in (("epochs", 1), ("batch_size", 1), ("slow_start", 0), ("num_workers", 0)):
            require(is_count(getattr(self, name), least), name, f"an int >= {least}", getattr(self, name))
        patience, decay, share = self.early_stopping, self.weight_decay, self.validation_fraction
        require(patience is None or is_count(patience), "early_stopping", "an int >= 1 or None", patience)
        require(is_rate(self.learning_rate), "learning_rate", "> 0 and finite", self.learning_rate)
        require(self.schedule in ("constant", "cosine"), "schedule", "'constant' or 'cosine'", self.schedule)
        require(decay == 0 or is_rate(decay), "weight_decay", ">= 0 and finite", decay)
        require(isinstance(share, float) and 0 < share < 1, "validation_fraction", "between 0 and 1", share)
        known = self.backbone in (None, "resnet50") or callable(self.backbone)
        require(known, "backbone", "None, 'resnet50' or a callable of the number of channels", self.backbone)
        self._check_trainer()

    def _check_trainer(self) -> None:
        options = dict(self.trainer or {})
        check_trainer_options(options)
        devices = options.get("devices", 1)
        one = devices in (1, "1") or (isinstance(devices, list) and len(devices) == 1)
        if not one or options.get("num_nodes", 1) != 1:
            is_fixed = isinstance(self.random_state, Integral)
            require(is_fixed, "random_state", "an int if several processes train together", self.random_state)
            shared = self.checkpoint_dir is not None
            require(shared, "checkpoint_dir", "a folder that all processes share", self.checkpoint_dir)

    def _training_settings(self, seed: int) -> TrainingSettings:
        return TrainingSettings(
            self.epochs,
            min(self.slow_start, self.epochs // 2),
            self.batch_size,
            self.learning_rate,
            seed,
            surrogate=self.surrogate,
            schedule=self.schedule,
            weight_decay=self.weight_decay,
            early_stopping=self.early_stopping,
            num_workers=self.num_workers,
            folder=None if self.checkpoint_dir is None else Path(self.checkpoint_dir),
            trainer=self.trainer or {},
            verbose=self.verbose,
        )

    def _stored_settings(self, settings: TrainingSettings, train: ImageRows, held_out: ImageRows) -> dict[str, Any]:
        """Return the settings that a resumed training must share, as plain values; targets and costs as checksums."""
        backbone, options = self.backbone, settings.trainer
        return {
            "backbone": getattr(backbone, "__qualname__", type(backbone).__name__) if callable(backbone) else backbone,
            "surrogate": surrogates.get(settings.surrogate).name,
            "slow_start": int(settings.slow_start),
            "batch_size": int(settings.batch_size),
            "learning_rate": float(settings.learning_rate),
            "schedule": "constant" if self.schedule == "constant" else f"{self.schedule} over {self.epochs} epochs",
            "weight_decay": float(settings.weight_decay),
            **{name: str(options[name]) for name in _NUMERICAL if name in options},
            "training rows": len(train),
            "validation rows": len(held_out),
            "targets": _checksum(train.y, held_out.y),
            "costs": _checksum(train.cost, held_out.cost),
        }

    def _split(self, rows: ImageRows, validation: Any, seed: int) -> tuple[ImageRows, ImageRows]:
        """Return the training rows and the validation rows."""
        if validation is not None:
            try:
                # one cost per training row cannot be used for the validation rows
                return rows, ImageRows.check(validation, None, None if needs_rows(self.cost_) else self.cost_)
            except ValueError as error:
                raise ValueError(f"in validation: {error}") from error
        held_out = round(self.validation_fraction * len(rows))
        if not 0 < held_out < len(rows):
            raise ValueError(f"training needs training rows and validation rows, got {len(rows)} in all")
        order = np.random.default_rng(seed).permutation(len(rows))
        return rows.take(np.sort(order[held_out:])), rows.take(np.sort(order[:held_out]))

    def _train(self, rows: ImageRows, held_out: ImageRows, settings: TrainingSettings) -> None:
        mean, scale = float(rows.y.mean()), float(rows.y.std())
        module = RejectionModule(self._new_network(settings.seed), settings, mean, scale)
        training_rows = SeededRows(rows, self.augment, settings.seed)
        self.best_epoch_, self.device_ = train(module, training_rows, SeededRows(held_out))
        network = module.network.float().eval().to(self.device_)  # precision="bf16-true" leaves other weights
        self.rule_ = ImageRule(network, self.image_shape_, mean, scale, self.batch_size)
        self.history_ = pd.DataFrame(module.history)
        self.validation_loss_ = float(self.history_[settings.monitor][self.best_epoch_])

    def _new_network(self, seed: int) -> TwoHeads:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone, features = make_backbone(self.backbone, self.n_channels_)
            return TwoHeads(backbone, features, cost_input=self._varying_cost)

    def _check_new_rows(self, X: Any, cost: Cost | None = None) -> Any:
        check_is_fitted(self)
        images = check_images(X)
        channels = len(image_of(images, 0))
        if channels != self.n_channels_:
            raise ValueError(f"images must have {self.n_channels_} channels, as in fit, got {channels}")
        return images


def _available(device: torch.device) -> torch.device:
    """Return a device of the same type if this machine has one, else the CPU."""
    try:
        return torch.empty(0, device=device.type).device
    except (RuntimeError, AssertionError):  # torch raises either, depending on how it was built
        return torch.device("cpu")


def _claim_folder(folder: Path, settings: Mapping[str, Any], *, seed: int | None, new_seed: int) -> int:
    """Check that a folder is new or holds a run with these settings, and return the seed to train with.

    The settings are stored in the file ``settings.json``. A `seed` of None accepts the seed of the run in the folder.
    """
    file = folder / "settings.json"
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        wanted = {"seed": stored.get("seed") if seed is None else seed, **settings}
        for name, value in wanted.items():
            if stored.get(name) != value:
                raise ValueError(
                    f"checkpoint_dir must hold a run of the same settings, got {name} {stored.get(name)!r} in {folder} "
                    f"and {value!r} here: choose another folder, or delete this one"
                )
        return int(wanted["seed"])
    folder.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.partial")  # several processes may write it
    partial.write_text(json.dumps({"seed": new_seed, **settings}, indent=1), encoding="utf-8")
    partial.replace(file)
    return new_seed


def _checksum(*columns: Floats) -> int:
    return zlib.crc32(b"".join(np.ascontiguousarray(column).tobytes() for column in columns))
