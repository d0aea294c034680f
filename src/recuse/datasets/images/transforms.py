"""Normalisation of images, and the paper's random crops and flips."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from recuse.validation import check_count

__all__ = ["Augmented", "crop_and_flip", "normalise"]


class ImagePairs(Protocol):
    """A torch data set of pairs (image, target) with a length."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Tensor, Tensor]: ...


def normalise(pixels: npt.NDArray[np.uint8]) -> Tensor:
    """Convert bytes to floats, normalised by mean .5 and standard deviation .5: 0 becomes -1 and 255 becomes 1.

    Examples
    --------
    >>> import numpy as np
    >>> normalise(np.array([[[0, 51, 255]]], np.uint8))
    tensor([[[-1.0000, -0.6000,  1.0000]]])
    """
    return torch.from_numpy(np.array(pixels)).to(torch.float32).div_(127.5).sub_(1.0)


def crop_and_flip(image: Tensor, generator: np.random.Generator, padding: int = 16) -> Tensor:
    """Pad with black, crop at random to the original size, and flip horizontally with probability 1/2.

    Parameters
    ----------
    image : Tensor of shape (channel, height, width)
        A normalised image; black is -1.
    generator : numpy Generator
        Source of the random numbers.
    padding : int, default=16
        Pixels added on each side.

    Returns
    -------
    Tensor of shape (channel, height, width)

    Examples
    --------
    >>> import numpy as np, torch
    >>> crop_and_flip(torch.zeros(3, 8, 8), np.random.default_rng(0), padding=2).shape
    torch.Size([3, 8, 8])
    """
    top, left = generator.integers(2 * padding + 1, size=2)
    height, width = image.shape[-2:]
    padded = functional.pad(image, [padding] * 4, value=-1.0)
    crop = padded[..., top : top + height, left : left + width]
    return crop.flip(-1) if generator.random() < 0.5 else crop.contiguous()


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """A data set with the training transforms: random crop with padding, horizontal flip.

    The transform of image `index` depends on seed, epoch and index only. It does not depend on batches, workers or
    processes, and is the same in a resumed run as in one that was never interrupted.

    Parameters
    ----------
    dataset : torch Dataset
        Pairs (normalised image, target), e.g. the training part of `AgeDB(root).split(0)`.
    seed : int, default=0
        Seed of the crops and flips.
    padding : int, default=16
        Pixels added on each side before the crop.

    Examples
    --------
    >>> from recuse import datasets
    >>> images, y, _, _ = datasets.make_cellularity(10, random_state=0)
    >>> train = datasets.Augmented(datasets.ImageArrays(images, y), seed=0, padding=4)
    >>> train.set_epoch(1)
    >>> image, target = train[3]
    >>> image.shape
    torch.Size([3, 64, 64])
    """

    def __init__(self, dataset: ImagePairs, seed: int = 0, padding: int = 16) -> None:
        self.dataset = dataset
        self.seed = check_count("seed", seed, least=0)
        self.padding = check_count("padding", padding, least=0)
        # The epoch is in shared memory, so that persistent workers see when it changes.
        self._epoch: Tensor = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    @property
    def epoch(self) -> int:
        """The epoch that determines the crops and flips."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, counted from 0."""
        self._epoch.fill_(check_count("epoch", epoch, least=0))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        index = range(len(self))[index]  # so that -1 gets the crop of the last image
        image, target = self.dataset[index]
        generator = np.random.default_rng([self.seed, self.epoch, index])
        return crop_and_flip(image, generator, self.padding), target

    @property
    def y(self) -> npt.NDArray[np.float64]:
        """Targets of the wrapped data set, if it has an attribute `y`."""
        targets: Any = getattr(self.dataset, "y")  # noqa: B009
        return np.asarray(targets, dtype=np.float64)
