"""ResNet-50 as a backbone: images (n, channels, height, width) in, features (n, 2048) out."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from recuse.extras import import_extra

__all__ = ["resnet50"]

_FEATURES = 2048
_SHOWN = 3  # names of layers in an error


def resnet50(weights: str | Path | None = None, in_channels: int = 3) -> nn.Module:
    """Make a 2-D ResNet-50 without its last layer, with `features` = 2048.

    The architecture is the published one with a stem for pictures of 224 x 224 (7 x 7, stride 2, max-pool) and, like
    the common trained weights, with the stride of a block in its 3 x 3 convolution ("v1.5"; the original had it in the
    first 1 x 1). It has 23,508,032 parameters, or 25,557,032 with a last layer of 1000 classes.

    Parameters
    ----------
    weights : path, optional
        A file of weights to start from, instead of at random: a dictionary of tensors saved by torch, or
        ``.safetensors``. The names are those of torchvision's ResNet-50; a last layer ``fc`` is left out. No code in
        the file is run.
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


def _load(backbone: nn.Module, path: Path) -> None:
    found = {name: value for name, value in _read(path).items() if not name.startswith("fc.")}
    wanted = backbone.state_dict()
    # counters of batches that old files lack; nothing depends on them
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
    if path.suffix == ".safetensors":
        tensors: dict[str, Tensor] = import_extra("safetensors.torch", extra="images").load_file(path)
        return tensors
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several kinds, among them its own
        raise ValueError(f"weights must be a dictionary of tensors saved by torch, got {path}: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"weights must be a dictionary of tensors, got {type(content).__name__} in {path}")
    return content


def _first(names: list[str]) -> str:
    if not names:
        return ""
    more = ", ..." if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{more})"
