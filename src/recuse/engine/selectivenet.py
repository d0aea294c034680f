"""Stacks of SelectiveNets of one shape, evaluated and differentiated together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from recuse.engine.stack import Array, Stack, uniform

EPSILON = 1e-5  # added to the variances of batch norm
_MOMENTUM = 0.1  # share of a batch in the running statistics
_NORMALISED, _AFFINE = 5, 2  # parts of a layer: weight, scale, shift, mean and variance; or weight and bias


class StackedSelectiveNet(Stack):
    """Networks with a body and three heads: prediction, selection and auxiliary (Geifman and El-Yaniv, 2019).

    The body is fully connected; prediction and auxiliary head are linear, the selection head has one hidden layer
    and ends in a sigmoid. Hidden layers are linear, then batch norm, then ReLU. The outputs are all predictions, then
    all selections, then all auxiliary predictions: (3 * member, row).

    Parameters
    ----------
    seeds : sequence of int
        One seed for each member. The initial weights depend on the member's seed only: uniform within
        ``1 / sqrt(fan_in)``.
    inputs : int
        Number of features, without the bias.
    hidden : tuple of int
        Widths of the layers of the body. If it is empty, the features are the inputs of the heads.
    selection_hidden : int
        Width of the hidden layer of the selection head.
    dtype : type

    Notes
    -----
    The running statistics of batch norm are part of `parameters`, but not trainable. So every copy of a member's
    parameters includes them.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        hidden: Sequence[int] = (64,),
        selection_hidden: int = 16,
        dtype: type = np.float32,
    ) -> None:
        self.inputs, self.hidden = inputs, tuple(hidden)
        body = (inputs, *self.hidden)
        shapes = [shape for into, out in pairwise(body) for shape in _normalised(into, out)]
        shapes += _normalised(body[-1], selection_hidden)
        shapes += [(1, selection_hidden), (1, 1)]  # selection
        shapes += [(2, body[-1]), (2, 1)]  # prediction and auxiliary
        super().__init__(len(seeds), shapes, dtype)
        randoms = [np.random.RandomState(seed) for seed in seeds]
        for layer in self.layers(self.parameters):
            normalised = len(layer) == _NORMALISED
            for part in layer[:1] if normalised else layer:
                for member, random in enumerate(randoms):
                    part[member] = uniform(random, layer[0].shape[2] ** -0.5, part.shape[1:])
            if normalised:
                _, scale, _, _, variance = layer
                scale[:] = variance[:] = 1

    def layers(self, flat: Array) -> list[list[Array]]:
        """Return the parts by layer: body, hidden layer of the selection head, its output, the other two heads."""
        parts, hidden = self.views(flat), len(self.hidden) + 1
        lengths = [_NORMALISED] * hidden + [_AFFINE] * 2
        return [parts[sum(lengths[:layer]) : sum(lengths[: layer + 1])] for layer in range(len(lengths))]

    def trainable(self) -> Array:
        """Return a flat mask: one for every weight, zero for the running statistics."""
        mask = np.ones_like(self.parameters)
        for layer in self.layers(mask):
            for statistic in layer[3:]:
                statistic[:] = 0
        return mask

    def workspace(self) -> SelectiveNetWorkspace:
        """Return the state of a training or an evaluation."""
        return SelectiveNetWorkspace(self)


class _Hidden(NamedTuple):
    """What a hidden layer computed, for `backward`."""

    signal: Array  # its input (member, in, row)
    normal: Array  # with mean 0 and variance 1 over the rows (member, out, row)
    inverse: Array  # inverse standard deviations (member, out, 1)
    output: Array


class SelectiveNetWorkspace:
    """A computation of a stack of SelectiveNets, with its gradient by hand."""

    def __init__(self, stack: StackedSelectiveNet) -> None:
        self.stack, self.gradient = stack, np.zeros_like(stack.parameters)
        self._layers, self._gradients = stack.layers(stack.parameters), stack.layers(self.gradient)
        self._done: tuple[list[_Hidden], Array] | None = None  # hidden layers and selections of the last training step

    def forward(self, x: Array, *, training: bool = False) -> Array:
        """Compute the outputs (3 * member, row) for inputs (table, feature, row).

        In training, batch norm takes its statistics from these rows, none of which may be padding, and updates the
        running statistics. Otherwise it uses these, and nothing in the stack changes.
        """
        signal = x[:, : self.stack.inputs].repeat(len(self.stack) // len(x), axis=0)  # (member, feature, row)
        hidden = []
        for layer in self._layers[:-3]:
            hidden.append(_hidden_layer(signal, layer, training=training))
            signal = hidden[-1].output
        hidden.append(_hidden_layer(signal, self._layers[-3], training=training))
        (selection_weight, selection_bias), (weight, bias) = self._layers[-2:]
        # the clip keeps the exponential finite
        selection = 1 / (1 + np.exp(-(selection_weight @ hidden[-1].output + selection_bias).clip(-80, None)))
        values = weight @ signal + bias  # (member, 2, row)
        if training:
            self._done = hidden, selection
        return np.concatenate([values[:, 0], selection[:, 0], values[:, 1]])

    def backward(self, slope: Array) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs of the last training step."""
        if self._done is None:
            raise RuntimeError("backward needs a forward(x, training=True) before it")
        (hidden, selection), self._done = self._done, None
        prediction, selected, auxiliary = slope.reshape(3, len(self.stack), -1)
        values = np.stack([prediction, auxiliary], axis=1)  # (member, 2, row)
        logit = selected[:, None] * selection * (1 - selection)
        above = _affine_backward(logit, hidden[-1].output, self._layers[-2], self._gradients[-2])
        chosen = _hidden_backward(above, hidden[-1], self._layers[-3], self._gradients[-3])
        below = hidden[-1].signal
        above = chosen + _affine_backward(values, below, self._layers[-1], self._gradients[-1])
        for layer in range(len(hidden) - 2, -1, -1):
            above = _hidden_backward(above, hidden[layer], self._layers[layer], self._gradients[layer])


def _normalised(into: int, out: int) -> list[tuple[int, ...]]:
    return [(out, into), (out,), (out,), (out,), (out,)]


def _hidden_layer(signal: Array, layer: list[Array], *, training: bool) -> _Hidden:
    """Apply a linear layer, batch norm and ReLU to (member, in, row); in training, update the running statistics."""
    weight, scale, shift, running_mean, running_variance = layer
    raw = weight @ signal
    mean, variance = running_mean, running_variance
    if training:
        mean, variance, rows = raw.mean(axis=2), raw.var(axis=2), raw.shape[2]
        running_mean += _MOMENTUM * (mean - running_mean)
        running_variance += _MOMENTUM * (variance * (rows / (rows - 1)) - running_variance)
    inverse = 1 / np.sqrt(variance + EPSILON)[..., None]
    normal = (raw - mean[..., None]) * inverse
    return _Hidden(signal, normal, inverse, np.maximum(normal * scale[..., None] + shift[..., None], 0))


def _hidden_backward(above: Array, done: _Hidden, layer: list[Array], gradients: list[Array]) -> Array:
    """Fill the gradients of a hidden layer, and return the derivative by its input."""
    delta = above * (done.output > 0)
    gradients[1][:], gradients[2][:] = (delta * done.normal).sum(axis=2), delta.sum(axis=2)
    # the statistics of batch norm depend on every row
    through_scale, through_shift = (each[..., None] / delta.shape[2] for each in gradients[1:3])
    raw = (delta - through_shift - done.normal * through_scale) * (done.inverse * layer[1][..., None])
    np.matmul(raw, done.signal.transpose(0, 2, 1), out=gradients[0])
    return np.asarray(layer[0].transpose(0, 2, 1) @ raw)


def _affine_backward(above: Array, signal: Array, layer: list[Array], gradients: list[Array]) -> Array:
    """Fill the gradients of a linear layer, and return the derivative by its input."""
    np.matmul(above, signal.transpose(0, 2, 1), out=gradients[0])
    gradients[1][:] = above.sum(axis=2, keepdims=True)
    return np.asarray(layer[0].transpose(0, 2, 1) @ above)
