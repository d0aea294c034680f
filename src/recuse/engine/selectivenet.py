"""Stacks of SelectiveNets of one shape, evaluated and differentiated together.

The gradient is computed by autograd, since a manual gradient of batch norm would need more code than the rest of this
module.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, pad

from recuse.engine.stack import pad_rows

__all__ = ["StackedSelectiveNet"]

_NORMALISED, _AFFINE = 5, 2  # parts of a layer: weight, scale, shift, mean and variance; or weight and bias


class StackedSelectiveNet:
    """Networks with a body and three heads: prediction, selection and auxiliary (Geifman and El-Yaniv, 2019).

    The body is fully connected; prediction and auxiliary head are linear, the selection head has one hidden layer
    and ends in a sigmoid. Hidden layers are linear, then batch norm, then ReLU.

    Parameters
    ----------
    seeds : sequence of int
        One seed for each member. The initial weights depend on the member's seed only. They follow the rule of
        ``nn.Linear``: uniform within ``1 / sqrt(fan_in)``.
    inputs : int
        Number of features, without the bias.
    hidden : tuple of int
        Widths of the layers of the body. If it is empty, the features are the inputs of the heads.
    selection_hidden : int
        Width of the hidden layer of the selection head.
    device, dtype
        Device and type of the weights.

    Notes
    -----
    The running statistics of batch norm are part of `parameters`, but not trainable. So every copy of a member's
    parameters includes them.
    """

    _graph: tuple[Tensor, Tensor] | None  # outputs of a training step, and the weights they were computed from

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        hidden: Sequence[int] = (64,),
        selection_hidden: int = 16,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.inputs, self.hidden, self.selection_hidden = inputs, tuple(hidden), selection_hidden
        self._allocate(len(seeds), torch.device(device), dtype)
        for member, seed in enumerate(seeds):
            self._initialise(member, seed)

    def __len__(self) -> int:
        return self.members

    def _allocate(self, members: int, device: torch.device, dtype: torch.dtype) -> None:
        self.members = members
        body = (self.inputs, *self.hidden)
        shapes = [shape for into, out in pairwise(body) for shape in _normalised(into, out)]
        shapes += _normalised(body[-1], self.selection_hidden)
        shapes += _affine(self.selection_hidden, 1)  # selection
        shapes += _affine(body[-1], 2)  # prediction and auxiliary
        self._shapes = [torch.Size((members, *shape)) for shape in shapes]
        size = sum(shape.numel() for shape in self._shapes)
        self.parameters = torch.zeros(size, device=device, dtype=dtype)
        self.gradient = torch.zeros_like(self.parameters)
        self.end_training()

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return views (member, ...), one per part of each layer, of a buffer laid out like `parameters`."""
        parts = torch.split(flat, [shape.numel() for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _layers(self, flat: Tensor) -> list[list[Tensor]]:
        """Return the parts by layer: body, hidden layer of the selection head, its output, the other two heads."""
        parts, hidden = self.views(flat), len(self.hidden) + 1
        lengths = [_NORMALISED] * hidden + [_AFFINE] * 2
        starts = [sum(lengths[:layer]) for layer in range(len(lengths))]
        return [parts[start : start + length] for start, length in zip(starts, lengths, strict=True)]

    def _initialise(self, member: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for layer in self._layers(self.parameters):
            bound = layer[0].shape[2] ** -0.5
            drawn = layer if len(layer) == _AFFINE else layer[:1]
            for part in drawn:
                values = torch.empty(part.shape[1:]).uniform_(-bound, bound, generator=generator)
                part[member] = values.to(part)
            if len(layer) == _NORMALISED:
                _, scale, _, _, variance = layer
                scale[member] = variance[member] = 1

    def trainable(self) -> Tensor:
        """Return a flat mask: one for every weight, zero for the running statistics."""
        mask = torch.ones_like(self.parameters)
        for layer in self._layers(mask):
            for statistic in layer[3:]:
                statistic.zero_()
        return mask

    def forward(self, x: Tensor, *, training: bool = False, reuse: bool = False) -> Tensor:
        """Compute all predictions, then all selections, then all auxiliary predictions.

        Parameters
        ----------
        x : Tensor of shape (table, feature, row)
            The members are divided evenly among the tables, in order.
        training : bool, default=False
            Take the statistics of batch norm from these rows, none of which may be padding, and keep what `backward`
            needs. Otherwise batch norm uses its running statistics and nothing in the stack changes.
        reuse : bool, default=False
            Without effect: no memory is reused.

        Returns
        -------
        Tensor of shape (3 * member, row)
        """
        if not training:
            with torch.no_grad():
                return self._run(x, self.parameters, training=False)
        # differentiate with respect to a copy, because the step changes the running statistics in `parameters`
        weights = self.parameters.clone().requires_grad_()
        with torch.enable_grad():
            outputs = self._run(x, weights, training=True)
        self._graph = outputs, weights
        return outputs.detach()

    def _run(self, x: Tensor, weights: Tensor, *, training: bool) -> Tensor:
        layers, kept = self._layers(weights), self._layers(self.parameters)
        signal = x[:, : self.inputs].repeat_interleave(self.members // len(x), dim=0)  # (member, feature, row)
        for layer, now in zip(layers[:-3], kept, strict=False):
            signal = _hidden_layer(signal, layer, now, training=training)
        selection_signal = _hidden_layer(signal, layers[-3], kept[-3], training=training)
        # pad to whole vector registers, since a sigmoid rounds differently in an incomplete one
        rows = x.shape[2]
        signal, selection_signal = (pad(part, (0, pad_rows(rows) - rows)) for part in (signal, selection_signal))
        (selection_weight, selection_bias), (weight, bias) = layers[-2:]
        selection = torch.baddbmm(selection_bias, selection_weight, selection_signal).sigmoid()  # (member, 1, row)
        values = torch.baddbmm(bias, weight, signal)  # (member, 2, row)
        return torch.cat([values[:, 0], selection[:, 0], values[:, 1]])[:, :rows]

    def backward(self, grad: Tensor) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs of the last training step."""
        if self._graph is None:
            raise RuntimeError("backward needs a forward(x, training=True) before it")
        outputs, weights = self._graph
        self._graph = None
        (gradient,) = torch.autograd.grad(outputs, weights, grad)
        self.gradient.copy_(gradient)

    def end_training(self) -> None:
        """Free what the last training step kept for `backward`."""
        self._graph = None

    def take(self, members: Sequence[int]) -> StackedSelectiveNet:
        """Return a new stack with copies of some members, in this order. Members may repeat."""
        return self._copy(members, self.parameters.dtype, self.parameters.device)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> StackedSelectiveNet:
        """Return a copy of the stack in another precision or on another device."""
        return self._copy(range(self.members), dtype, torch.device(device))

    def _copy(self, members: Sequence[int], dtype: torch.dtype, device: torch.device) -> StackedSelectiveNet:
        out = object.__new__(type(self))
        out.inputs, out.hidden, out.selection_hidden = self.inputs, self.hidden, self.selection_hidden
        out._allocate(len(members), device, dtype)
        chosen = torch.as_tensor(list(members), device=self.parameters.device)
        for new, old in zip(out.views(out.parameters), self.views(self.parameters), strict=True):
            new.copy_(old[chosen])
        return out

    def __getstate__(self) -> dict[str, Any]:
        names = ("inputs", "hidden", "selection_hidden", "members", "_shapes")
        return {name: copy.copy(getattr(self, name)) for name in names} | {"parameters": self.parameters.clone()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.gradient = torch.zeros_like(self.parameters)
        self.end_training()


def _normalised(into: int, out: int) -> list[tuple[int, ...]]:
    return [(out, into), (out,), (out,), (out,), (out,)]


def _affine(into: int, out: int) -> list[tuple[int, ...]]:
    return [(out, into), (out, 1)]


def _hidden_layer(signal: Tensor, layer: list[Tensor], now: list[Tensor], *, training: bool) -> Tensor:
    """Apply a linear layer, batch norm and ReLU to (member, in, row); in training, update the statistics in `now`."""
    weight, scale, shift = layer[:3]
    mean, variance = now[3:]
    raw = torch.bmm(weight, signal)
    # every unit of every member is one channel
    mean, variance, scale, shift = (part.view(-1) for part in (mean, variance, scale, shift))
    normal = batch_norm(raw.view(1, -1, raw.shape[2]), mean, variance, scale, shift, training=training)
    return normal.view_as(raw).relu()
