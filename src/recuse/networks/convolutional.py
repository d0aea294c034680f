"""A small convolutional backbone: images (n, channels, height, width) in, features (n, 64) out."""

from __future__ import annotations

from typing import Literal

from torch import nn

__all__ = ["SmallCNN", "small_cnn"]


class SmallCNN(nn.Sequential):
    """Four convolutions and a mean over the picture; `features` says how many numbers come out."""

    features: int


def small_cnn(in_channels: int = 3, *, norm: Literal["batch", "group"] = "batch") -> SmallCNN:
    """Make a backbone for small pictures: about 5 million multiplications for one of 64 x 64.

    Parameters
    ----------
    in_channels : int, default=3
    norm : {"batch", "group"}, default="batch"
        Batch normalisation is faster. Group normalisation treats each picture alone, so that training on several
        devices gives the numbers of a training on one.

    Examples
    --------
    >>> import torch
    >>> backbone = small_cnn()
    >>> backbone(torch.zeros(2, 3, 64, 64)).shape, backbone.features
    (torch.Size([2, 64]), 64)
    """
    if norm not in ("batch", "group"):
        raise ValueError(f"norm must be 'batch' or 'group', got {norm!r}")
    widths, strides = (in_channels, 16, 32, 64, 64), (2, 2, 2, 1)
    layers: list[nn.Module] = []
    for before, after, stride in zip(widths[:-1], widths[1:], strides, strict=True):
        layers.append(nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False))
        layers += [nn.BatchNorm2d(after) if norm == "batch" else nn.GroupNorm(after // 8, after), nn.ReLU(inplace=True)]
    backbone = SmallCNN(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    backbone.features = widths[-1]
    return backbone
