"""StackedSelectiveNet: many SelectiveNets of one shape, run and differentiated together.

Inputs (table, feature, row) enter; predictions, selections and auxiliary predictions leave. Here autograd writes the
gradient: batch norm by hand would be longer than all the rest, and torch's own is one fused pass each way.
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
    """Networks of one body and three heads: prediction, selection and auxiliary (Geifman and El-Yaniv, 2019).

    The body is fully connected; prediction and auxiliary head are linear, the selection head has one hidden layer
    and ends in a sigmoid. Hidden layers are linear, then batch norm, then ReLU.

    Parameters
    ----------
    seeds : sequence of int
        One member each. The initial weights depend on the member's seed alone, and follow the usual
        ``nn.Linear`` rule: uniform within ``1 / sqrt(fan_in)``.
    inputs : int
        Features of a row, without the bias.
    hidden : tuple of int
        Widths of the layers of the body; none lets the heads see the features themselves.
    selection_hidden : int
        Width of the hidden layer of the selection head.
    device, dtype
        Where and how the weights are stored.

    Notes
    -----
    The running statistics of batch norm stand among the parameters, as ones that are not trainable, so whatever
    copies, keeps or restores a member's parameters takes them along.
    """

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

    def views(self, flat: Tensor) -> list[Tensor]:
        """See a buffer laid out like `parameters` as tensors (member, ...), one for each part of each layer."""
        parts = torch.split(flat, [shape.numel() for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _layers(self, flat: Tensor) -> list[list[Tensor]]:
        """Give the parts by layer: those of the body, hidden layer of the selection head, its output, the others'."""
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
        """One for every weight of the networks, zero for the running statistics; flat."""
        mask = torch.ones_like(self.parameters)
        for layer in self._layers(mask):
            for statistic in layer[3:]:
                statistic.zero_()
        return mask

    def forward(self, x: Tensor, *, training: bool = False) -> Tensor:
        """Outputs (3 * member, row) for inputs (table, feature, row): all predictions, selections, auxiliaries.

        The members are divided evenly among the tables, in order. In training, batch norm takes its statistics from
        these rows, so none of them may be padding; otherwise it uses the running ones.
        """
        if not training:
            with torch.no_grad():
                return self._run(x, self.parameters, training=False)
        # a copy to differentiate by: the running statistics change under way
        self._weights = self.parameters.clone().requires_grad_()
        with torch.enable_grad():
            self._outputs = self._run(x, self._weights, training=True)
        return self._outputs.detach()

    def _run(self, x: Tensor, weights: Tensor, *, training: bool) -> Tensor:
        layers, kept = self._layers(weights), self._layers(self.parameters)
        signal = x[:, : self.inputs].repeat_interleave(self.members // len(x), dim=0)  # (member, feature, row)
        for layer, now in zip(layers[:-3], kept, strict=False):
            signal = _hidden_layer(signal, layer, now, training=training)
        chooser = _hidden_layer(signal, layers[-3], kept[-3], training=training)
        # whole registers again: a sigmoid rounds otherwise in the last, incomplete one
        rows = x.shape[2]
        signal, chooser = (pad(part, (0, pad_rows(rows) - rows)) for part in (signal, chooser))
        (selection_weight, selection_bias), (weight, bias) = layers[-2:]
        selection = torch.baddbmm(selection_bias, selection_weight, chooser).sigmoid()  # (member, 1, row)
        values = torch.baddbmm(bias, weight, signal)  # (member, 2, row)
        return torch.cat([values[:, 0], selection[:, 0], values[:, 1]])[:, :rows]

    def backward(self, grad: Tensor) -> None:
        """Fill `gradient`, given the derivative of the loss by the last outputs of training (3 * member, row)."""
        (gradient,) = torch.autograd.grad(self._outputs, self._weights, grad)
        self.gradient.copy_(gradient)

    def take(self, members: Sequence[int]) -> StackedSelectiveNet:
        """Give a new stack of copies of some members, in this order, repeats allowed."""
        return self._copy(members, self.parameters.dtype, self.parameters.device)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> StackedSelectiveNet:
        """Give a copy of the stack in another precision or on another device."""
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


def _normalised(into: int, out: int) -> list[tuple[int, ...]]:
    return [(out, into), (out,), (out,), (out,), (out,)]


def _affine(into: int, out: int) -> list[tuple[int, ...]]:
    return [(out, into), (out, 1)]


def _hidden_layer(signal: Tensor, layer: list[Tensor], now: list[Tensor], *, training: bool) -> Tensor:
    """Linear, batch norm, ReLU: (member, in, row) -> (member, out, row); in training, move the statistics in `now`."""
    weight, scale, shift = layer[:3]
    mean, variance = now[3:]
    raw = torch.bmm(weight, signal)
    # every unit of every member is a channel of its own
    mean, variance, scale, shift = (part.view(-1) for part in (mean, variance, scale, shift))
    normal = batch_norm(raw.view(1, -1, raw.shape[2]), mean, variance, scale, shift, training=training)
    return normal.view_as(raw).relu()
