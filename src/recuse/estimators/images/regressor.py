"""RcRImageRegressor: images and costs in, a deep regressor and rejector trained together out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse.costs import Cost, is_constant, needs_rows
from recuse.deep.two_heads import TwoHeads
from recuse.engine.schedule import slow_start_epochs
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.images.rows import Augment, Images, Pictures, check_images, image_of
from recuse.estimators.images.training import (
    BackboneFactory,
    check_image_parameters,
    claim_folder,
    make_backbone,
    run_settings,
    train_network,
)
from recuse.surrogates import SurrogateLike

__all__ = ["RcRImageRegressor"]

Floats = NDArray[np.float64]


class RcRImageRegressor(RejectingRegressor):
    """Regression from images with cost-based rejection, on whatever hardware there is.

    A regressor and a rejector round one backbone are trained with Lightning (extra ``images``) on the surrogate loss of
    `RcRRegressor`, after Slow-Start, and the epoch of the lowest validation RcR loss is kept.

    Parameters
    ----------
    cost : float, array-like or callable, default=1.0
        What a rejection costs, in squared units of the target. Where it varies by row, the rejector sees it too, and
        any cost can be asked for in `decide`.
    surrogate : str, Surrogate or callable, default="mae"
    backbone : None, "resnet50" or callable, default=None
        None is a small convolutional network for small images, "resnet50" starts at random. A callable gets the number
        of channels and returns a module and the number of its features, or a module that has them as `features`:
        ``lambda channels: recuse.deep.backbones.resnet50("weights.pt", channels)``.
    epochs : int, default=100
    slow_start : int, default=40
        Epochs in which the regressor trains alone, at most half of them.
    batch_size : int, default=128
        Rows for one step of the optimiser, over all devices together.
    learning_rate : float, default=1e-3
        Of Adam.
    schedule : {"constant", "cosine"}, default="constant"
        Whether the learning rate stays, as in the paper, or falls to zero over the epochs, which often ends lower.
    weight_decay : float, default=0.0
    shared : bool, default=True
        Whether the rejector shares the backbone, or has its own.
    rejector_hidden : sequence of int, default=(64,)
        Hidden layers of the rejector's head.
    validation_fraction : float, default=0.2
        Share of the rows that choose the epoch, unless `fit` is given others.
    scale_target : bool, default=True
        Standardise the target (and the cost with it) inside; the results stay in the user's units.
    augment : callable of (image, numpy Generator), optional
        Changes training images at random, e.g. `recuse.datasets.crop_and_flip`.
    early_stopping : int, optional
        Stop after so many epochs without a better validation loss, Slow-Start aside.
    accumulate : int, default=1
        Compute each batch in so many parts, where a whole one does not fit into memory. But for batch normalisation
        this hardly changes the result.
    accelerator, devices, num_nodes, strategy, precision, sync_batchnorm
        As in Lightning's Trainer; ``precision="bf16-mixed"`` halves the memory on most accelerators. With several
        devices, `random_state` and `checkpoint_dir` must be given.
    num_workers : int, default=0
        Processes that read images.
    checkpoint_dir : path, optional
        Where ``best.ckpt``, ``last.ckpt``, ``history.csv`` and TensorBoard's files go.
    resume : bool, default=True
        Go on from ``last.ckpt`` in `checkpoint_dir`, if it is there: the result is that of a run that was never
        interrupted. Otherwise start afresh and replace what is there.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show a progress bar and Lightning's messages.

    Attributes
    ----------
    network_ : TwoHeads
        The weights of the best epoch; predictions are standardised if `scale_target`.
    cost_ : the cost fitted for
    best_epoch_ : int
    validation_loss_ : float
        RcR loss of that epoch on the validation rows, in the user's units.
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
        shared: bool = True,
        rejector_hidden: Sequence[int] = (64,),
        validation_fraction: float = 0.2,
        scale_target: bool = True,
        augment: Augment | None = None,
        early_stopping: int | None = None,
        accumulate: int = 1,
        accelerator: str = "auto",
        devices: int | str | list[int] = 1,
        num_nodes: int = 1,
        strategy: Any = "auto",
        precision: Any = 32,
        sync_batchnorm: bool = False,
        num_workers: int = 0,
        checkpoint_dir: str | Path | None = None,
        resume: bool = True,
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
        self.shared = shared
        self.rejector_hidden = rejector_hidden
        self.validation_fraction = validation_fraction
        self.scale_target = scale_target
        self.augment = augment
        self.early_stopping = early_stopping
        self.accumulate = accumulate
        self.accelerator = accelerator
        self.devices = devices
        self.num_nodes = num_nodes
        self.strategy = strategy
        self.precision = precision
        self.sync_batchnorm = sync_batchnorm
        self.num_workers = num_workers
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, data: Any, y: ArrayLike | None = None, *, cost: Cost | None = None, validation: Any = None) -> Self:
        """Train the pair.

        Parameters
        ----------
        data : array or Tensor (n, channel, height, width), tuple (images, y) or (images, y, cost), or Dataset
            Images are bytes (0 to 255) or floats, which are taken as they are. A torch Dataset gives (image, target) or
            (image, target, cost); if it has the targets as an attribute `y` or `targets`, it is not read for them.
        y : array-like of shape (n,), optional
            The targets of an array of images.
        cost : float, array-like or callable, optional
            Takes the place of the parameter `cost`; a callable gets the images or the Dataset.
        validation : tuple or Dataset, optional
            Rows that choose the epoch, in any of the forms of `data`; a part of `data`, drawn at random, if omitted.
        """
        with self._all_or_nothing():
            check_image_parameters(self)
            chosen = self.cost if cost is None else cost
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            rows = Pictures.check(data, y, chosen)
            chosen = rows.cost if rows.brought_cost else chosen
            train, held_out = self._divide(rows, validation, chosen, seed)
            if np.ptp(train.y) == 0:
                raise ValueError(f"y must not be constant, got {train.y[0]} in all {len(train)} rows")
            self.cost_, self.n_channels_ = chosen, len(image_of(train.images, int(train.index[0])))
            self._mean, self._scale = (float(train.y.mean()), float(train.y.std())) if self.scale_target else (0.0, 1.0)
            slow_start = slow_start_epochs(self.slow_start, self.epochs)
            seed = self._claim_folder(run_settings(self, slow_start, train, held_out), seed)
            self._train(train, held_out, seed, slow_start)
        return self

    def evaluate(self, data: Any, y: ArrayLike | None = None, *, cost: Cost | None = None) -> dict[str, float]:
        """Measure the decisions on rows with targets, in any of the forms of `fit`; see `recuse.metrics.evaluate`."""
        check_is_fitted(self)
        rows = Pictures.check(data, y, self.cost_ if cost is None else cost)
        return self.decide(rows.images, rows.cost).evaluate(rows.y)

    @property
    def serves_any_cost(self) -> bool:
        """Whether any cost can be asked for: where it varied in training."""
        check_is_fitted(self)
        return self._varied

    @property
    def _varied(self) -> bool:
        return not is_constant(self.cost_)

    def _divide(self, rows: Pictures, validation: Any, cost: Cost, seed: int) -> tuple[Pictures, Pictures]:
        """Give the rows to train on and the rows to choose by."""
        if validation is not None:
            try:
                # costs that belong to the rows of training are no costs of these
                return rows, Pictures.check(validation, None, None if needs_rows(cost) else cost)
            except ValueError as error:
                raise ValueError(f"in validation: {error}") from error
        held_out = round(self.validation_fraction * len(rows))
        if not 0 < held_out < len(rows):
            raise ValueError(f"training needs rows to train on and rows to choose by, got {len(rows)} in all")
        order = np.random.default_rng(seed).permutation(len(rows))
        return rows.take(np.sort(order[held_out:])), rows.take(np.sort(order[:held_out]))

    def _claim_folder(self, settings: dict[str, Any], seed: int) -> int:
        if self.checkpoint_dir is None:
            return seed
        own = None if self.random_state is None else seed
        return claim_folder(Path(self.checkpoint_dir), settings, seed=own, resume=self.resume, fresh_seed=seed)

    def _train(self, train: Pictures, held_out: Pictures, seed: int, slow_start: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone, features = make_backbone(self.backbone, self.n_channels_)
            network = TwoHeads(
                backbone,
                features,
                shared=self.shared,
                rejector_hidden=self.rejector_hidden,
                cost_input=self._varied,
            )
        outcome = train_network(self, network, train, held_out, seed, slow_start, (self._mean, self._scale))
        self.network_ = network.to("cpu").eval()
        self.best_epoch_, self.validation_loss_ = outcome.best_epoch, outcome.best_loss
        self.history_ = pd.DataFrame(outcome.history)

    def _check_new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        images = check_images(X)
        channels = len(image_of(images, 0))
        if channels != self.n_channels_:
            raise ValueError(f"images must have {self.n_channels_} channels, as in fit, got {channels}")
        return images

    def _predictions(self, rows: Images) -> Floats:
        # any cost will do: the prediction does not depend on it
        return self._judge(rows, np.ones(len(rows)))[0]  # type: ignore[arg-type]

    @torch.inference_mode()
    def _judge(self, rows: Images, cost: Floats) -> tuple[Floats, Floats]:
        """Give predictions and scores in double precision."""
        images = rows
        device = _device(self.accelerator)
        network = self.network_.to(device)
        outputs = []
        for first in range(0, len(cost), self.batch_size):
            block = range(first, min(first + self.batch_size, len(cost)))
            x = torch.stack([image_of(images, row) for row in block]).to(device)
            costs = torch.as_tensor(cost[block.start : block.stop] / self._scale**2, dtype=torch.float32, device=device)
            outputs.append(torch.stack(network(x, costs)).double().cpu())
        network.to("cpu")
        prediction, score = torch.cat(outputs, dim=1).numpy()
        return prediction * self._scale + self._mean, score


def _device(accelerator: str) -> str:
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return "cuda"
    return "mps" if accelerator in ("auto", "gpu", "mps") and torch.backends.mps.is_available() else "cpu"
