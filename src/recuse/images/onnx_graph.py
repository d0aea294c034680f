"""The rule of networks for images as a graph, layer by layer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from recuse.deep.two_heads import COST_FLOOR
from recuse.images.backbones import SmallCNN
from recuse.images.rule import ImageRule
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value, concat
from recuse.model_file.graph.conversion import Emitted, cost_input, emits
from recuse.model_file.graph.operators import DOUBLE, FLOAT
from recuse.model_file.schema import ImageSchema, inputs_of

Floats = NDArray[np.float64]


@emits(ImageRule)
def _emit_images(rule: ImageRule, graph: GraphBuilder) -> Emitted:
    schema, network = ImageSchema(rule.shape), rule.network
    ((name, (dtype, shape)),) = inputs_of(schema).items()
    image = graph.input(name, dtype, shape)  # what the network sees: bytes must be scaled to [-1, 1]
    features = _flat(_converted(network.backbone, image))
    rejector_inputs = features
    if network.cost_input:
        scaled = (cost_input(graph) / rule.scale**2).cast(FLOAT)
        rejector_inputs = concat([features, (scaled + COST_FLOOR).unary("Log")], axis=1)
    prediction = _converted(network.regressor_head, features)
    score = _converted(network.rejector_head, rejector_inputs)
    return Emitted(schema, prediction.cast(DOUBLE) * rule.scale + rule.mean, score.cast(DOUBLE))


def _converted(layer: Any, x: Value) -> Value:
    """Convert a layer in evaluation mode; only exactly the types of `_LAYERS` have a conversion."""
    kind = type(layer)
    convert = _LAYERS.get(kind, _LAYERS_BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}"))
    if layer._forward_hooks or layer._forward_pre_hooks:
        raise ConversionError(f"{kind.__name__} cannot be saved in a model file: it has forward hooks")
    if convert is None:
        raise ConversionError(
            f"{kind.__name__} cannot be saved in a model file: there is no conversion of it. Backbones may be "
            "small_cnn, resnet50, and an nn.Sequential of Conv2d, each with BatchNorm2d after it or not, GroupNorm, "
            "ReLU, MaxPool2d, AdaptiveAvgPool2d(1), Flatten and Linear"
        )
    try:
        return convert(layer, x)
    except ConversionError:
        raise
    except ValueError as error:
        raise ConversionError(f"{kind.__name__} cannot be saved in a model file: {error}") from error


def _sequence(layers: Iterable[nn.Module], x: Value) -> Value:
    """Convert layers one after the other; a batch normalisation becomes a part of the convolution before it."""
    left = deque(layers)
    while left:
        layer = left.popleft()
        after = left[0] if left else None
        if type(layer) is nn.Conv2d and type(after) is nn.BatchNorm2d and after.running_mean is not None:
            x = _convolution(layer, x, after)
            left.popleft()
        else:
            x = _converted(layer, x)
    return x


def _convolution(layer: nn.Conv2d, x: Value, norm: nn.BatchNorm2d | None = None) -> Value:
    if layer.padding_mode != "zeros" or set(layer.dilation) != {1} or isinstance(layer.padding, str):
        raise ValueError(f"it needs dilation 1 and a number of zeros as padding, got {layer}")
    kernel, bias = _array(layer.weight), None if layer.bias is None else _array(layer.bias)
    if norm is not None:
        scale = 1.0 / np.sqrt(_array(norm.running_var) + norm.eps)
        scale = scale if norm.weight is None else scale * _array(norm.weight)
        shift = ((0.0 if bias is None else bias) - _array(norm.running_mean)) * scale
        kernel, bias = kernel * scale[:, None, None, None], shift if norm.bias is None else shift + _array(norm.bias)
    weights = [x.graph.constant(each, FLOAT) for each in (kernel, bias) if each is not None]
    pads = [int(size) for size in layer.padding] * 2
    sizes = {"kernel_shape": list(layer.kernel_size), "strides": list(layer.stride), "pads": pads}
    return x.graph.node("Conv", x, *weights, group=layer.groups, **sizes)


def _group_norm(layer: nn.GroupNorm, x: Value) -> Value:
    groups = x.reshape(-1, layer.num_groups, math.prod(x.shape[1:]) // layer.num_groups)
    centred = groups - groups.mean(2, keepdims=True)
    variance = (centred * centred).mean(2, keepdims=True)
    result = (centred / (variance + layer.eps).unary("Sqrt")).reshape(*x.shape)
    for parameter, apply in ((layer.weight, Value.__mul__), (layer.bias, Value.__add__)):
        if parameter is not None:
            result = apply(result, _array(parameter).reshape(-1, 1, 1))
    return result


def _max_pool(layer: nn.MaxPool2d, x: Value) -> Value:
    if layer.ceil_mode or layer.return_indices or _pair(layer.dilation) != [1, 1]:
        raise ValueError(f"it needs dilation 1, ceil_mode=False and return_indices=False, got {layer}")
    size, strides, pads = _pair(layer.kernel_size), _pair(layer.stride), _pair(layer.padding)
    return x.graph.node("MaxPool", x, kernel_shape=size, strides=strides, pads=pads * 2)


def _mean(layer: nn.AdaptiveAvgPool2d, x: Value) -> Value:
    if _pair(layer.output_size) != [1, 1]:
        raise ValueError(f"it needs an output of size 1, got {layer}")
    return x.unary("GlobalAveragePool")


def _flatten(layer: nn.Flatten, x: Value) -> Value:
    if (layer.start_dim, layer.end_dim) != (1, -1):
        raise ValueError(f"it needs the axes 1 to -1, got {layer}")
    return _flat(x)


def _linear(layer: nn.Linear, x: Value) -> Value:
    product = x @ _array(layer.weight).T
    return product if layer.bias is None else product + _array(layer.bias)


def _relu(layer: nn.ReLU, x: Value) -> Value:
    return x.unary("Relu")


def _resnet(network: Any, x: Value) -> Value:
    """Convert MONAI's ResNet as `recuse.images.resnet50` makes it."""
    if network.no_max_pool or network.fc is not None:
        raise ValueError("it needs a max-pool and no last layer, as resnet50 has")
    first = (network.conv1, network.bn1, network.act, network.maxpool)
    blocks = (block for layer in (network.layer1, network.layer2, network.layer3, network.layer4) for block in layer)
    return _sequence([*first, *blocks, network.avgpool], x)


def _bottleneck(block: Any, x: Value) -> Value:
    parts = (block.conv1, block.bn1, block.act, block.conv2, block.bn2, block.act, block.conv3, block.bn3)
    residual = x if block.downsample is None else _converted(block.downsample, x)
    return _converted(block.act, _sequence(parts, x) + residual)


def _flat(x: Value) -> Value:
    return x if len(x.shape) == 2 else x.reshape(-1, math.prod(x.shape[1:]))


def _array(tensor: Tensor | None) -> Floats:
    assert tensor is not None
    return tensor.detach().cpu().double().numpy()


def _pair(size: Any) -> list[int]:
    return [int(each) for each in (size if isinstance(size, tuple | list) else (size, size))]


_LAYERS: dict[type[nn.Module], Callable[[Any, Value], Value]] = {
    nn.Sequential: _sequence,
    SmallCNN: _sequence,
    nn.Conv2d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.ReLU: _relu,
    nn.MaxPool2d: _max_pool,
    nn.AdaptiveAvgPool2d: _mean,
    nn.Flatten: _flatten,
    nn.Linear: _linear,
}
# MONAI is imported by its own networks only.
_LAYERS_BY_NAME: dict[str, Callable[[Any, Value], Value]] = {
    "monai.networks.nets.resnet.ResNet": _resnet,
    "monai.networks.nets.resnet.ResNetBottleneck": _bottleneck,
}
