"""Conversion of stacks of small networks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from recuse.engine.mlp import StackedMLP
from recuse.engine.selectivenet import EPSILON, StackedSelectiveNet
from recuse.engine.stack import Stack
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.conversion import converts
from recuse.model_file.graph.preprocessing import standardised

Floats = NDArray[np.float64]


def stack_outputs(stack: Stack, x: Value) -> Value:
    """Return the outputs (member, row, output) of a stack for inputs (row, feature)."""
    first, *layers = _layers(stack)
    return _through(layers, _with_one(x) @ first)


def stack_outputs_at(stack: Stack, x: Value, knots: Floats) -> Value:
    """Return the outputs (knot, member, row, output) for inputs (row, feature), followed by one of the knots.

    The first layer is linear in that input, so its part that depends on the features is computed once.
    """
    first, *layers = _layers(stack)
    by_feature, by_knot, bias = first[:, :-2], first[:, -2:-1], first[:, -1:]
    at_knot = knots[:, None, None, None] * by_knot + bias  # (knot, member, 1, width)
    return _through(layers, (x @ by_feature).unsqueeze(0) + at_knot)


def _layers(stack: Stack) -> list[Floats]:
    """Return the weights (member, in, out) without padding; the last input is 1 and has the bias.

    All layers but the last one have a last output that is 1, for the next layer. So a layer is one matrix product:
    adding the bias to small matrices would take as long as the product.
    """
    if not isinstance(stack, StackedMLP):
        raise ConversionError(f"{type(stack).__name__} cannot be saved in a model file")
    weights = [view.astype(np.float64) for view in stack.views(stack.parameters)]
    layers = [
        weight[:, :out, : into + 1].transpose(0, 2, 1)
        for weight, (into, out) in zip(weights, pairwise(stack.widths), strict=True)
    ]
    return [*(_with_unit(layer) for layer in layers[:-1]), layers[-1]]


def _with_unit(layer: Floats) -> Floats:
    """Append an output that is always 1."""
    unit = np.zeros((*layer.shape[:2], 1))
    unit[:, -1] = 1.0
    return np.concatenate([layer, unit], axis=2)


def _with_one(x: Value) -> Value:
    """Append a column of ones to (row, feature)."""
    return concat([x, x.columns(0, 1).squeeze(1).clip(1.0, 1.0).unsqueeze(1)], axis=1)


def _through(layers: list[Floats], signal: Value) -> Value:
    """Apply the layers after the first, each to the positive part of the signal."""
    for weight in layers:
        signal = signal.unary("Relu") @ weight
    return signal


def selective_heads(stack: StackedSelectiveNet, x: Value) -> tuple[Value, Value]:
    """Return the predictions and the selections (member, row, 1) of SelectiveNets."""
    if not isinstance(stack, StackedSelectiveNet):
        raise ConversionError(f"{type(stack).__name__} cannot be saved in a model file")
    layers = [[part.astype(np.float64) for part in layer] for layer in stack.layers(stack.parameters)]
    signal = x
    for layer in layers[:-3]:
        signal = _normalised(signal, layer)
    chosen = _normalised(signal, layers[-3])
    (selection_weight, selection_bias), (weight, bias) = layers[-2:]
    selection = chosen @ selection_weight.transpose(0, 2, 1) + selection_bias.transpose(0, 2, 1)
    prediction = signal @ weight[:, :1].transpose(0, 2, 1) + bias[:, :1].transpose(0, 2, 1)
    return prediction, selection.unary("Sigmoid")


def _normalised(signal: Value, layer: list[Floats]) -> Value:
    """Apply a linear layer and batch norm, which together are one linear layer, and ReLU."""
    weight, scale, shift, mean, variance = layer
    factor = scale / np.sqrt(variance + EPSILON)  # (member, out)
    folded = (weight * factor[:, :, None]).transpose(0, 2, 1)
    return (signal @ folded + (shift - mean * factor)[:, None, :]).unary("Relu")


def in_target_units(output: Value, scale: float, mean: float | Floats) -> Value:
    """Return outputs (..., output) of networks in the units of the target."""
    return output * scale + np.atleast_1d(mean)


def member_predictions(model: StackedMLPRegressor, x: Value) -> Value:
    """Return the predictions (member, row, output) of every member."""
    units = model.units_
    outputs = stack_outputs(model.regressor_, standardised(units.encoder, x))
    return in_target_units(outputs, units.target_scale, units.target_mean)


@converts(StackedMLPRegressor)
def _convert_stacked_mlp(model: StackedMLPRegressor, x: Value) -> Value:
    return member_predictions(model, x).mean(axis=0)
