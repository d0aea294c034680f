"""Layers of torch networks in evaluation mode, expressed by ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from recuse.model_file.graph.builder import Value
from recuse.model_file.graph.operators import FLOAT
from recuse.model_file.graph.torch_modules import tensor_functions as tensors

__all__ = ["ALIASES", "LAYERS", "can_join", "convolution"]

Floats = NDArray[np.float64]


def convolution(layer: nn.Conv2d, x: Value, norm: nn.BatchNorm2d | None = None) -> Value:
    """Convert a convolution, joined with the batch normalisation of its result."""
    if x.dtype != FLOAT:
        raise ValueError("ONNX Runtime computes convolutions in single precision only")
    if layer.padding_mode != "zeros" or set(layer.dilation) != {1}:
        raise ValueError(f"it needs dilation 1 and padding with zeros, got {layer}")
    kernel, bias = _array(layer.weight), None if layer.bias is None else _array(layer.bias)
    if norm is not None:
        scale, shift = _scale_and_shift(norm)
        kernel = kernel * scale[:, None, None, None]
        bias = shift if bias is None else bias * scale + shift
    weights = [x.graph.constant(each, FLOAT) for each in (kernel, bias) if each is not None]
    sizes = {"kernel_shape": list(layer.kernel_size), "strides": list(layer.stride), "pads": _pads(layer)}
    return x.graph.node("Conv", x, *weights, group=layer.groups, **sizes)


def can_join(layer: nn.Module, norm: nn.Module) -> bool:
    """Whether the batch normalisation can become a part of the convolution before it."""
    return type(layer) is nn.Conv2d and type(norm) is nn.BatchNorm2d and norm.running_mean is not None


def _pads(layer: nn.Conv2d) -> list[int]:
    """Return the padding as (top, left, bottom, right)."""
    if layer.padding == "valid":
        return [0, 0, 0, 0]
    if layer.padding == "same":
        total = [size - 1 for size in layer.kernel_size]
        before = [size // 2 for size in total]
        return [*before, *(size - first for size, first in zip(total, before, strict=True))]
    return [int(size) for size in layer.padding] * 2


def _scale_and_shift(norm: Any) -> tuple[Floats, Floats]:
    if norm.running_mean is None:
        raise ValueError("it has no running statistics, so that a result depends on the other rows")
    scale = 1.0 / np.sqrt(_array(norm.running_var) + norm.eps)
    scale = scale if norm.weight is None else scale * _array(norm.weight)
    shift = -_array(norm.running_mean) * scale
    return scale, shift if norm.bias is None else shift + _array(norm.bias)


def _batch_norm(layer: Any, x: Value) -> Value:
    scale, shift = (_per_channel(each, x) for each in _scale_and_shift(layer))
    return x * scale + shift


def _group_norm(layer: nn.GroupNorm, x: Value) -> Value:
    size = math.prod(x.shape[1:]) // layer.num_groups
    groups = tensors.standardised(x.reshape(-1, layer.num_groups, size), [2], layer.eps)
    result = groups.reshape(*x.shape)
    if layer.weight is not None:
        result = result * _per_channel(_array(layer.weight), x)
    return result if layer.bias is None else result + _per_channel(_array(layer.bias), x)


def _layer_norm(layer: nn.LayerNorm, x: Value) -> Value:
    return tensors.layer_norm(x, layer.normalized_shape, _constant(layer.weight), _constant(layer.bias), layer.eps)


def _linear(layer: nn.Linear, x: Value) -> Value:
    return tensors.linear(x, layer.weight.detach().cpu(), _constant(layer.bias))


def _max_pool(layer: nn.MaxPool2d, x: Value) -> Value:
    if layer.ceil_mode or layer.return_indices or _pair(layer.dilation) != [1, 1]:
        raise ValueError(f"it needs dilation 1, ceil_mode=False and return_indices=False, got {layer}")
    size, strides, pads = _pair(layer.kernel_size), _pair(layer.stride), _pair(layer.padding)
    return x.graph.node("MaxPool", x, kernel_shape=size, strides=strides, pads=pads * 2)


def _adaptive_mean(layer: nn.AdaptiveAvgPool2d, x: Value) -> Value:
    wanted = layer.output_size if isinstance(layer.output_size, tuple) else (layer.output_size,) * 2
    return _block_means(x, [int(size if new is None else new) for new, size in zip(wanted, x.shape[2:], strict=True)])


def _mean_pool(layer: nn.AvgPool2d, x: Value) -> Value:
    size = _pair(layer.kernel_size)
    counts = [full // part for full, part in zip(x.shape[2:], size, strict=True)]
    whole = all(full % part == 0 for full, part in zip(x.shape[2:], size, strict=True))
    one_block = counts == [1, 1] and whole
    if (
        not whole
        or any(_pair(layer.padding))
        or layer.divisor_override
        or not (one_block or _pair(layer.stride) == size)
    ):
        raise ValueError(f"it needs windows that divide images of {x.shape[2:]} without overlap, got {layer}")
    return _block_means(x, counts)


def _block_means(x: Value, counts: Sequence[int]) -> Value:
    """Average over equal blocks of images, `counts` of them along height and width."""
    rows, channels, height, width = x.shape
    if list(counts) == [1, 1]:
        return x.unary("GlobalAveragePool") if x.dtype == FLOAT else x.mean([2, 3], keepdims=True)
    if height % counts[0] or width % counts[1]:
        raise ValueError(f"an image of {(height, width)} has no {tuple(counts)} equal blocks")
    blocks = x.reshape(rows, channels, counts[0], height // counts[0], counts[1], width // counts[1])
    return blocks.mean([3, 5])


def _per_channel(values: Floats, x: Value) -> Floats:
    return values.reshape(-1, *[1] * (len(x.shape) - 2))


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _constant(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().cpu()


def _pair(size: Any) -> list[int]:
    return [int(each) for each in (size if isinstance(size, tuple | list) else (size, size))]


def _same(layer: nn.Module, x: Value) -> Value:
    return x


# converters of exactly these types; each takes the layer and its input
LAYERS: dict[type[nn.Module], Callable[[Any, Value], Value]] = {
    nn.Linear: _linear,
    nn.Conv2d: convolution,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _mean_pool,
    nn.AdaptiveAvgPool2d: _adaptive_mean,
    nn.Flatten: lambda layer, x: tensors.flatten(x, layer.start_dim, layer.end_dim),
    nn.ReLU: lambda layer, x: tensors.relu(x),
    nn.Tanh: lambda layer, x: x.unary("Tanh"),
    nn.Sigmoid: lambda layer, x: tensors.sigmoid(x),
    nn.Softplus: lambda layer, x: tensors.softplus(x, layer.beta, layer.threshold),
    nn.SiLU: lambda layer, x: tensors.silu(x),
    nn.GELU: lambda layer, x: tensors.gelu(x, layer.approximate),
    nn.ELU: lambda layer, x: tensors.elu(x, layer.alpha),
    nn.LeakyReLU: lambda layer, x: tensors.leaky_relu(x, layer.negative_slope),
    nn.Softmax: lambda layer, x: tensors.softmax(x, layer.dim),
    nn.Identity: _same,
    nn.Dropout: _same,
    nn.Dropout1d: _same,
    nn.Dropout2d: _same,
    nn.AlphaDropout: _same,
}

# layers whose result may share its memory with their input
ALIASES = (nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)
