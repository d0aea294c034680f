"""Specification of a paper's image experiments, read from its TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from recuse.engine.schedule import slow_start_epochs

__all__ = ["MODELS", "ImageProtocol", "ImageSpec", "image_specs", "printed_in_target_units"]

MODELS = ("resnet50", "small_cnn")
_SQUARED = ("rcrloss", "al", "rl", "sup")  # measures in squared units of the target
_PADDING = 14  # the paper pads 224 pixels by 16, which is a fourteenth


@dataclass(frozen=True)
class ImageProtocol:
    """Settings of a training that do not depend on data set, model, surrogate, cost and repeat.

    Attributes
    ----------
    epochs, slow_start, batch_size, learning_rate, schedule
        As in `recuse.estimators.images.RcRImageRegressor`.
    augment : str
        Random transform of training images: "crop_and_flip" as in the paper, or "turn", which rotates and mirrors
        them in one of eight ways.
    size : int
        Height and width in pixels.
    rows : tuple of int
        Training, validation and test images of a generated data set; empty for a folder.
    precision : str
        As in Lightning's Trainer.
    pictures : str
        Fingerprint of the images in a folder.
    """

    epochs: int
    slow_start: int
    batch_size: int
    learning_rate: float
    schedule: str
    augment: str
    size: int
    rows: tuple[int, ...] = ()
    precision: str = "32"
    pictures: str = ""

    @property
    def alone(self) -> int:
        """Epochs in which the regressor trains alone: Slow-Start, at most half of all epochs."""
        return slow_start_epochs(self.slow_start, self.epochs)

    @property
    def padding(self) -> int:
        """Pixels of padding before the random crop."""
        return round(self.size / _PADDING)


@dataclass(frozen=True)
class ImageSpec:
    """One image data set.

    Attributes
    ----------
    name, model : str
    surrogates : tuple of str
    costs : tuple of float
        In squared units of the target.
    repeats : int
    printed_scale : float
        The paper prints costs and losses multiplied by this.
    protocol : ImageProtocol
    """

    name: str
    model: str
    surrogates: tuple[str, ...]
    costs: tuple[float, ...]
    repeats: int
    printed_scale: float
    protocol: ImageProtocol

    @property
    def generated(self) -> bool:
        """Whether the images are generated, so that mean and variance of each target are known."""
        return bool(self.protocol.rows)


def image_specs(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ImageSpec]:
    """Read the tables ``[images.*]`` of a paper's file."""
    return {name: _image_spec(name, dict(table)) for name, table in tables.items()}


def _image_spec(name: str, table: dict[str, Any]) -> ImageSpec:
    own = {key: table.pop(key) for key in ("model", "repeats")}
    surrogates, costs = tuple(table.pop("surrogates")), tuple(float(cost) for cost in table.pop("costs"))
    scale = float(table.pop("printed_scale", 1))
    protocol = ImageProtocol(**table | {"rows": tuple(table.get("rows", ()))})
    return ImageSpec(name, surrogates=surrogates, costs=costs, printed_scale=scale, protocol=protocol, **own)


def printed_in_target_units(printed: pd.DataFrame, spec: ImageSpec) -> pd.DataFrame:
    """Return the printed numbers of one data set with costs and losses in squared units of the target.

    Examples
    --------
    >>> from recuse.bench import spec
    >>> paper = spec.load("rcr2023")
    >>> printed_in_target_units(paper.printed, paper.images["breastpathq"]).head(1)[["cost", "metric", "mean"]]
        cost   metric     mean
    0  0.005  rcrloss  0.00437
    """
    own = printed[printed["dataset"] == spec.name]
    factor = own["metric"].isin(_SQUARED).map({True: spec.printed_scale, False: 1.0})
    # a cost read from a file and the same cost divided may differ in the last bit
    costs = (own["cost"] / spec.printed_scale).round(12)
    return own.assign(cost=costs, mean=own["mean"] / factor, std=own["std"] / factor)
