"""Training, validation and test images of one repeat of an image experiment."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recuse.bench.images.spec import ImageProtocol, ImageSpec
from recuse.datasets import AgeDB, BreastPathQ, ImageDataset, crop_and_flip, make_cellularity
from recuse.estimators.images.rows import Augment, ImageRows
from recuse.rules.networks import image_of

__all__ = ["ImageParts", "ImageSource", "augmentation", "find_source", "load_parts", "turn"]

Floats = NDArray[np.float64]
_FOLDERS: dict[str, Callable[..., ImageDataset]] = {"agedb": AgeDB, "breastpathq": BreastPathQ}


@dataclass(frozen=True)
class ImageSource:
    """Where the images come from.

    Attributes
    ----------
    name : str
    root : Path or None
        Folder of a data set that may not be redistributed; None for the generated one.
    size : int
        Height and width in pixels.
    rows : tuple of int
        Training, validation and test images of the generated data set.
    """

    name: str
    root: Path | None
    size: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class ImageParts:
    """The images of one repeat, in the forms that `RcRImageRegressor.fit` accepts.

    Attributes
    ----------
    train, validation, test : tuple (images, y) or Dataset
    mean, variance : ndarray of shape (test rows,), or None
        Conditional mean and variance of the targets, if they are known.
    """

    train: Any
    validation: Any
    test: Any
    mean: Floats | None = None
    variance: Floats | None = None

    @property
    def test_images(self) -> Any:
        """The test images without their targets."""
        return self.test[0] if isinstance(self.test, tuple) else self.test

    @property
    def y(self) -> Floats:
        """The targets of the test images."""
        return ImageRows.check(self.test, None, 0.0).y

    def picture(self, row: int) -> NDArray[np.uint8]:
        """Return a test image as bytes (height, width, 3)."""
        image = (image_of(self.test_images, row) + 1) * 127.5
        return np.moveaxis(image.round().clamp(0, 255).byte().numpy(), 0, 2)


def find_source(spec: ImageSpec, root: Path | None) -> tuple[ImageSource, ImageProtocol]:
    """Check that the images exist; return their source, and the protocol with a fingerprint of the images.

    The first start on a folder reads and caches all images, and shows progress.
    """
    protocol = spec.protocol
    if spec.generated:
        if root is not None:
            raise ValueError(f"{spec.name} is generated: root must not be given, got {str(root)!r}")
        return ImageSource(spec.name, None, protocol.size, protocol.rows), protocol
    # without a folder, the error of the data set explains how to obtain one
    folder = Path("--root FOLDER") if root is None else root
    pictures = _FOLDERS[spec.name](folder, size=protocol.size, verbose=True)
    mark = f"{len(pictures)} with targets {zlib.crc32(pictures.y.tobytes()):08x}"
    return ImageSource(spec.name, root, protocol.size, ()), replace(protocol, pictures=mark)


@lru_cache(maxsize=1)  # a process runs many costs of one repeat in turn
def load_parts(source: ImageSource, repeat: int) -> ImageParts:
    """Return the images of one repeat; those of a folder are split at random into 60 / 20 / 20 %."""
    if source.root is not None:
        return ImageParts(*_FOLDERS[source.name](source.root, size=source.size).split(repeat))
    images, y, mean, variance = make_cellularity(sum(source.rows), random_state=repeat, size=source.size)
    parts = [slice(*ends) for ends in pairwise(accumulate(source.rows, initial=0))]
    train, validation, test = ((torch.from_numpy(images[part]), y[part]) for part in parts)
    known = (np.asarray(values[parts[-1]], dtype=np.float64) for values in (mean, variance))
    return ImageParts(train, validation, test, *known)


def augmentation(protocol: ImageProtocol) -> Augment:
    """Return the random transform of training images."""
    known: dict[str, Augment] = {
        "crop_and_flip": partial(crop_and_flip, padding=protocol.padding),
        "turn": turn,
    }
    if protocol.augment not in known:
        raise ValueError(f"augment must be one of {list(known)}, got {protocol.augment!r}")
    return known[protocol.augment]


def turn(image: Tensor, generator: np.random.Generator) -> Tensor:
    """Rotate and mirror a square image in one of the eight possible ways, since tissue has no orientation.

    Examples
    --------
    >>> picture = torch.arange(4.0).reshape(1, 2, 2)
    >>> ways = {tuple(turn(picture, np.random.default_rng(seed)).flatten().tolist()) for seed in range(100)}
    >>> len(ways)
    8
    """
    way = int(generator.integers(8))
    turned = torch.rot90(image, way % 4, (-2, -1))
    return (turned.flip(-1) if way >= 4 else turned).contiguous()
