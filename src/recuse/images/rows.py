"""Checks of images, targets and costs, given as arrays or as a torch Dataset."""

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
from recuse.images.rule import Images

Floats = NDArray[np.float64]
Augment = Callable[[Tensor, np.random.Generator], Tensor]


@dataclass(frozen=True)
class ImageRows:
    """Checked rows to train on.

    Attributes
    ----------
    images : Tensor of shape (n, channel, height, width), or Dataset
    y, cost : ndarray of shape (n,)
    index : ndarray of shape (n,)
        Position of each row's image in `images`.
    has_own_cost : bool
        Whether the costs came with the images.
    """

    images: Images
    y: Floats
    cost: Floats
    index: NDArray[np.int64]
    has_own_cost: bool = False

    @classmethod
    def check(cls, data: Any, y: ArrayLike | None, cost: Cost | None) -> Self:
        """Check (images, y), (images, y, cost), separate images and y, or a Dataset."""
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
        costs = resolve(cost if own_cost is None else own_cost, images, len(target))  # type: ignore[arg-type]
        return cls(images, target, costs, np.arange(len(target)), has_own_cost=own_cost is not None)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return some of the rows."""
        return replace(self, y=self.y[rows], cost=self.cost[rows], index=self.index[rows])


def check_images(images: Any) -> Images:
    """Check images to train on or to decide on.

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


def _columns(rows: Dataset[Any]) -> tuple[Any, Any]:
    """Return the targets of a Dataset and its costs or None; reads every row if it has no attribute for them."""
    first = rows[0]
    if not isinstance(first, tuple | list) or len(first) not in (2, 3):
        found = f"a tuple of {len(first)}" if isinstance(first, tuple | list) else type(first).__name__
        raise ValueError(f"a Dataset must return (image, target) or (image, target, cost), got {found}")
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
