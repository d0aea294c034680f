"""The pictures of one repeat: a data set's name and folder in, rows to train on, to choose by and to test on out."""

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
from recuse.estimators.images.rows import Augment, Pictures, image_of

__all__ = ["ImageParts", "ImageSource", "augmentation", "find_source", "load_parts", "turn"]

Floats = NDArray[np.float64]
_FOLDERS: dict[str, Callable[..., ImageDataset]] = {"agedb": AgeDB, "breastpathq": BreastPathQ}


@dataclass(frozen=True)
class ImageSource:
    """Where pictures come from.

    Attributes
    ----------
    name : str
    root : Path or None
        The folder of a set that may not be redistributed; None for the generated set.
    size : int
        Pixels to a side.
    rows : tuple of int
        Of the generated set: pictures to train on, to choose by and to test on.
    """

    name: str
    root: Path | None
    size: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class ImageParts:
    """The pictures of one repeat, in the forms that `RcRImageRegressor.fit` takes.

    Attributes
    ----------
    train, validation, test : tuple (images, y) or Dataset
    mean, variance : ndarray of shape (test rows,), or None
        Of the targets given the pictures, where they are known.
    """

    train: Any
    validation: Any
    test: Any
    mean: Floats | None = None
    variance: Floats | None = None

    @property
    def test_images(self) -> Any:
        """The test pictures without their targets."""
        return self.test[0] if isinstance(self.test, tuple) else self.test

    @property
    def y(self) -> Floats:
        """The targets of the test pictures."""
        return Pictures.check(self.test, None, 0.0).y

    def picture(self, row: int) -> NDArray[np.uint8]:
        """Give a test picture as bytes (height, width, 3)."""
        image = (image_of(self.test_images, row) + 1) * 127.5
        return np.moveaxis(image.round().clamp(0, 255).byte().numpy(), 0, 2)


def find_source(spec: ImageSpec, root: Path | None) -> tuple[ImageSource, ImageProtocol]:
    """Check that the pictures are there; give their source, and the protocol with a mark of these pictures.

    The first start on a folder reads all pictures, shows progress, and caches them.
    """
    protocol = spec.protocol
    if spec.generated:
        if root is not None:
            raise ValueError(f"{spec.name} is generated: root must not be given, got {str(root)!r}")
        return ImageSource(spec.name, None, protocol.size, protocol.rows), protocol
    # where no folder is named, the data set itself says how to obtain one
    folder = Path("--root FOLDER") if root is None else root
    pictures = _FOLDERS[spec.name](folder, size=protocol.size, verbose=True)
    mark = f"{len(pictures)} with targets {zlib.crc32(pictures.y.tobytes()):08x}"
    return ImageSource(spec.name, root, protocol.size, ()), replace(protocol, pictures=mark)


@lru_cache(maxsize=1)  # a process runs many costs of one repeat, one after the other
def load_parts(source: ImageSource, repeat: int) -> ImageParts:
    """Give the pictures of one repeat; of a folder, a random split of 60 / 20 / 20 %."""
    if source.root is not None:
        return ImageParts(*_FOLDERS[source.name](source.root, size=source.size).split(repeat))
    images, y, mean, variance = make_cellularity(sum(source.rows), random_state=repeat, size=source.size)
    parts = [slice(*ends) for ends in pairwise(accumulate(source.rows, initial=0))]
    train, validation, test = ((torch.from_numpy(images[part]), y[part]) for part in parts)
    known = (np.asarray(values[parts[-1]], dtype=np.float64) for values in (mean, variance))
    return ImageParts(train, validation, test, *known)


def augmentation(protocol: ImageProtocol) -> Augment:
    """Give what changes training pictures at random."""
    known: dict[str, Augment] = {
        "crop_and_flip": partial(crop_and_flip, padding=protocol.padding),
        "turn": turn,
    }
    if protocol.augment not in known:
        raise ValueError(f"augment must be one of {list(known)}, got {protocol.augment!r}")
    return known[protocol.augment]


def turn(image: Tensor, generator: np.random.Generator) -> Tensor:
    """Turn and mirror a square picture in one of the eight possible ways: tissue has no upper side.

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
