"""The decision rule of networks for images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from recuse.deep.two_heads import TwoHeads

Floats = NDArray[np.float64]
Images = Tensor | Dataset[Any]


@dataclass(frozen=True)
class ImageRule:
    """Accept an image where the score of the network is above zero.

    Attributes
    ----------
    network : TwoHeads
    shape : tuple of int
        Channels, height and width of the training images.
    mean, scale : float
        Mean and standard deviation of the target.
    batch_size : int
        Number of images decided at once.
    """

    network: TwoHeads
    shape: tuple[int, int, int]
    mean: float
    scale: float
    batch_size: int

    def predict(self, rows: Images) -> Floats:
        """Return h(x) of checked images, which does not depend on their costs."""
        return self.decide(rows, np.ones(len(rows)))[0]  # type: ignore[arg-type]

    @torch.inference_mode()
    def decide(self, rows: Images, cost: Floats) -> tuple[Floats, Floats]:
        """Return h(x) and the score (row,) of checked images, computed in single precision."""
        device = next(self.network.parameters()).device
        results = []
        for first in range(0, len(cost), self.batch_size):
            batch = range(first, min(first + self.batch_size, len(cost)))
            x = torch.stack([image_of(rows, row) for row in batch]).to(device)
            scaled = torch.as_tensor(cost[batch.start : batch.stop] / self.scale**2, dtype=torch.float32)
            results.append(torch.stack(self.network(x, scaled.to(device))).cpu())
        prediction, score = torch.cat(results, dim=1).double().numpy()
        return prediction * self.scale + self.mean, score


def image_of(images: Images, row: int) -> Tensor:
    """Return one image (channel, height, width) as floats; bytes are scaled to [-1, 1]."""
    item = images[row]
    image = torch.as_tensor(item[0] if isinstance(item, tuple | list) else item)
    return image.float() / 127.5 - 1 if image.dtype == torch.uint8 else image.float()
