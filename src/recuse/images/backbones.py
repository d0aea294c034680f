"""Backbones for images: a small convolutional network and ResNet-50."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from recuse.extras import import_extra
from recuse.validation import is_count

BackboneFactory = Callable[[int], nn.Module | tuple[nn.Module, int]]


class SmallCNN(nn.Sequential):
    """Four convolutions and a mean over the image; `features` is the number of outputs.

    Examples
    --------
    >>> backbone = small_cnn()
    >>> isinstance(backbone, SmallCNN), tuple(backbone(torch.zeros(2, 3, 32, 32)).shape) == (2, backbone.features)
    (True, True)
    """

    features: int


def small_cnn(in_channels: int = 3, *, norm: Literal["batch", "group"] = "batch") -> SmallCNN:
    """Make a backbone for small images: about 5 million multiplications for an image of 64 x 64.

    Parameters
    ----------
    in_channels : int, default=3
    norm : {"batch", "group"}, default="batch"
        Batch normalisation is faster. Group normalisation does not depend on the other images of a batch, so training
        on several devices equals training on one.

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


_FEATURES = 2048
# Names of layers that an error shows.
_SHOWN = 3


def resnet50(weights: str | Path | None = None, in_channels: int = 3) -> nn.Module:
    """Make a 2-D ResNet-50 without its last layer, with `features` = 2048.

    The architecture is the published one with a stem for images of 224 x 224 (7 x 7, stride 2, max-pool) and, like
    the common pretrained weights, with the stride of a block in its 3 x 3 convolution ("v1.5"; the original has it in
    the first 1 x 1). It has 23,508,032 parameters, or 25,557,032 with a last layer of 1000 classes.

    Parameters
    ----------
    weights : path, optional
        File of initial weights: a dictionary of tensors saved by torch, or ``.safetensors``; random weights if omitted.
        The names are those of torchvision's ResNet-50; the last layer ``fc`` is ignored. No code in the file is run.
    in_channels : int, default=3

    Examples
    --------
    >>> backbone = resnet50()
    >>> sum(p.numel() for p in backbone.parameters()), backbone.features
    (23508032, 2048)
    """
    networks = import_extra("monai.networks.nets.resnet", extra="images")
    backbone = networks.ResNet(
        "bottleneck",
        [3, 4, 6, 3],
        networks.get_inplanes(),
        spatial_dims=2,
        n_input_channels=in_channels,
        conv1_t_stride=2,
        feed_forward=False,
        bias_downsample=False,
    )
    if weights is not None:
        _load(backbone, Path(weights))
    backbone.features = _FEATURES
    return cast(nn.Module, backbone)


def make_backbone(backbone: str | BackboneFactory | None, channels: int) -> tuple[nn.Module, int]:
    """Make a backbone for images with this many channels.

    Parameters
    ----------
    backbone : None, "resnet50" or callable
        None is `small_cnn`. A callable takes the number of channels and returns a module and its number of features, or
        a module with an attribute `features`.
    channels : int

    Returns
    -------
    module : nn.Module
    features : int

    Examples
    --------
    >>> make_backbone(None, channels=1)[1]
    64
    """
    built_in: dict[Any, BackboneFactory] = {None: small_cnn, "resnet50": partial(resnet50, None)}
    made = backbone(channels) if callable(backbone) else built_in[backbone](channels)
    module, features = made if isinstance(made, tuple) else (made, getattr(made, "features", None))
    if not isinstance(module, nn.Module) or not is_count(features):
        raise TypeError(
            "backbone must return (module, number of features), or a module with an int attribute `features`, "
            f"got {type(made).__name__}"
        )
    return module, int(features)  # type: ignore[arg-type]


def _load(backbone: nn.Module, path: Path) -> None:
    found = {name: value for name, value in _read(path).items() if not name.startswith("fc.")}
    wanted = backbone.state_dict()
    # Old files lack the counters of batches, which nothing depends on.
    missing = [name for name in wanted if name not in found and not name.endswith("num_batches_tracked")]
    unknown = [name for name in found if name not in wanted]
    if missing or unknown:
        raise ValueError(
            f"weights must name the layers of a ResNet-50, got {path} with {len(missing)} missing{_first(missing)} "
            f"and {len(unknown)} unknown{_first(unknown)}"
        )
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            raise ValueError(
                f"weights of {name} must have shape {tuple(wanted[name].shape)}, got {tuple(value.shape)} in {path}"
            )
    backbone.load_state_dict(found, strict=False)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"weights must name a file, got {path}")
    safe = path.suffix == ".safetensors"
    load_safe = import_extra("safetensors.torch", extra="images").load_file if safe else None
    try:
        content = load_safe(path) if load_safe else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # both libraries raise several kinds, among them their own
        writer = "safetensors" if safe else "torch"
        raise ValueError(f"weights must be a dictionary of tensors saved by {writer}, got {path}: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"weights must be a dictionary of tensors, got {type(content).__name__} in {path}")
    return content


def _first(names: list[str]) -> str:
    if not names:
        return ""
    more = ", ..." if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{more})"
