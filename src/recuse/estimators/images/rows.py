"""Pictures: images and targets, as arrays or as a torch Dataset, in; checked rows to train on or to decide on out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from recuse.costs import Cost, resolve

__all__ = ["Augment", "PictureRows", "Pictures", "check_images"]

Floats = NDArray[np.float64]
Images = Tensor | Dataset[Any]
Augment = Callable[[Tensor, np.random.Generator], Tensor]


@dataclass(frozen=True)
class Pictures:
    """Rows to learn from.

    Attributes
    ----------
    images : Tensor of shape (n, channel, height, width), or Dataset
    y, cost : ndarray of shape (n,)
    index : ndarray of shape (n,)
        Which of the images belong to the rows.
    brought_cost : bool
        Whether the costs came with the images.
    """

    images: Images
    y: Floats
    cost: Floats
    index: NDArray[np.int64]
    brought_cost: bool = False

    @classmethod
    def check(cls, data: Any, y: ArrayLike | None, cost: Cost | None) -> Self:
        """Take (images, y), (images, y, cost), images and y apart, or a Dataset."""
        own_cost = None
        if isinstance(data, tuple | list):
            if y is not None or len(data) not in (2, 3):
                raise ValueError(f"data must be (images, y) or (images, y, cost), got a tuple of {len(data)}")
            data, y, own_cost = data[0], data[1], data[2] if len(data) == 3 else None
        images = check_images(data)
        if y is None:
            if isinstance(images, Tensor):
                raise ValueError("images need their targets: pass (images, y), got y=None")
            y, own_cost = _columns(images)
        target = _targets(y, len(images))  # type: ignore[arg-type]
        costs = resolve(cost if own_cost is None else own_cost, data, len(target))  # type: ignore[arg-type]
        return cls(images, target, costs, np.arange(len(target)), brought_cost=own_cost is not None)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Give some of the rows."""
        return replace(self, y=self.y[rows], cost=self.cost[rows], index=self.index[rows])


class PictureRows(Dataset[Any]):
    """Rows as batches want them: (image, y, cost).

    Parameters
    ----------
    pictures : Pictures
    augment : callable of (image, numpy Generator), optional
        Changes an image at random.
    seed : int, default=0
        With epoch and row, all that the changes depend on.
    """

    def __init__(self, pictures: Pictures, augment: Augment | None = None, seed: int = 0) -> None:
        self.pictures, self.augment, self.seed, self.epoch = pictures, augment, seed, 0

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        image = image_of(self.pictures.images, int(self.pictures.index[row]))
        if self.augment is not None:
            image = self.augment(image, np.random.default_rng([self.seed, self.epoch, row]))
        y, cost = self.pictures.y[row], self.pictures.cost[row]
        return image, torch.tensor(y, dtype=torch.float32), torch.tensor(cost, dtype=torch.float32)

    def set_epoch(self, epoch: int) -> None:
        """Change to the random changes of another epoch."""
        self.epoch = epoch
        tell = getattr(self.pictures.images, "set_epoch", None)
        if tell is not None:
            tell(epoch)


def check_images(images: Any) -> Images:
    """Check images to learn from or to decide on.

    Examples
    --------
    >>> check_images(np.zeros((2, 8, 8)))
    Traceback (most recent call last):
    ValueError: images must have shape (n, channel, height, width), got (2, 8, 8)
    """
    if isinstance(images, Dataset):
        if not hasattr(images, "__len__") or len(images) == 0:
            raise ValueError(f"a Dataset of images must have at least one row, got {type(images).__name__}")
        return images
    tensor = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
    if tensor.ndim != 4 or 0 in tensor.shape:
        raise ValueError(f"images must have shape (n, channel, height, width), got {tuple(tensor.shape)}")
    if tensor.dtype != torch.uint8 and not tensor.is_floating_point():
        raise ValueError(f"images must be uint8 (0 to 255) or floats, got {tensor.dtype}")
    for row in range(len(tensor)) if tensor.is_floating_point() else ():
        if not tensor[row].isfinite().all():
            raise ValueError(f"images must be finite, got NaN or infinity in row {row}")
    return tensor


def image_of(images: Images, row: int) -> Tensor:
    """Give one image (channel, height, width) as floats; bytes become numbers from -1 to 1."""
    item = images[row]
    image = torch.as_tensor(item[0] if isinstance(item, tuple | list) else item)
    return image.float() / 127.5 - 1 if image.dtype == torch.uint8 else image.float()


def _columns(rows: Dataset[Any]) -> tuple[Any, Any]:
    """Give the targets of a Dataset and its costs, if it has some; reads every row if it does not tell them."""
    first = rows[0]
    if not isinstance(first, tuple | list) or len(first) not in (2, 3):
        found = f"a tuple of {len(first)}" if isinstance(first, tuple | list) else type(first).__name__
        raise ValueError(f"a Dataset must give (image, target) or (image, target, cost), got {found}")
    for name in ("y", "targets"):
        if hasattr(rows, name) and len(first) == 2:
            return getattr(rows, name), None
    items = [rows[row][1:] for row in range(len(rows))]  # type: ignore[arg-type]
    columns = [np.array([float(value) for value in column]) for column in zip(*items, strict=True)]
    return columns[0], columns[1] if len(columns) == 2 else None


def _targets(y: ArrayLike | Tensor | Sequence[float], n_rows: int) -> Floats:
    values = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    target = np.asarray(values, dtype=np.float64)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.shape != (n_rows,):
        raise ValueError(f"y must have one value for each of {n_rows} images, got shape {target.shape}")
    if not np.isfinite(target).all():
        row = int((~np.isfinite(target)).argmax())
        raise ValueError(f"y must be finite, got {target[row]} at row {row}")
    return target
