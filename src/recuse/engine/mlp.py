"""Stacks of small fully connected networks of one shape, evaluated and differentiated together.

The gradient is computed by hand, in buffers that all steps of a training reuse. For networks of this size, building an
autograd graph takes longer than the computation itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from recuse.engine.stack import INPUT_MULTIPLE, round_up

__all__ = ["StackedMLP"]

# Widths are padded so that every product runs on whole vector registers; see benchmarks/engine.py.
_WIDTH, _FLAT = 4, 64


class StackedMLP:
    """Fully connected ReLU networks, which are linear without hidden layers.

    Parameters
    ----------
    seeds : sequence of int
        One seed for each member. The initial weights depend on the member's seed only. They follow the rule of
        ``nn.Linear``: uniform within ``1 / sqrt(fan_in)``.
    inputs : int
        Number of features, without the bias.
    hidden : tuple of int
        Widths of the hidden layers.
    outputs : int, default=1
        Number of outputs of a network.
    device, dtype
        Device and type of the weights.

    Notes
    -----
    A layer of width w is stored with ``w + 1`` units and padding. The output of unit w is always 1, so the bias of the
    next layer is one more weight and needs no separate operation, forward or backward.
    """

    # buffers of training by number of rows, each (member, width, row)
    _outputs: dict[int, list[Tensor]]  # outputs of every layer
    _deltas: dict[int, list[Tensor]]  # derivatives by the outputs of the hidden layers
    _input: Tensor | None  # input of the last training step

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        hidden: Sequence[int] = (20, 30, 10),
        *,
        outputs: int = 1,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.inputs, self.hidden, self.outputs = inputs, tuple(hidden), outputs
        self._allocate(len(seeds), torch.device(device), dtype)
        for member, seed in enumerate(seeds):
            self._initialise(member, seed)

    def __len__(self) -> int:
        return self.members

    def _allocate(self, members: int, device: torch.device, dtype: torch.dtype) -> None:
        self.members = members
        hidden = (round_up(width + 1, _WIDTH) for width in self.hidden)
        widths = [round_up(self.inputs + 1, INPUT_MULTIPLE), *hidden, self.outputs]
        self._shapes = [(members, out, into) for into, out in pairwise(widths)]
        size = round_up(sum(m * out * into for m, out, into in self._shapes), _FLAT)
        self.parameters = torch.zeros(size, device=device, dtype=dtype)
        self.gradient = torch.zeros_like(self.parameters)
        self._used = torch.ones(members, self.inputs, dtype=torch.bool, device=device)
        self._weights, self._gradients = self.views(self.parameters), self.views(self.gradient)
        self.end_training()

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return views (member, out, in), one per layer, of a buffer laid out like `parameters`."""
        sizes = [m * out * into for m, out, into in self._shapes]
        parts = torch.split(flat[: sum(sizes)], sizes)
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _initialise(self, member: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        real = (self.inputs, *self.hidden, self.outputs)
        for layer, (into, out) in enumerate(pairwise(real)):
            bound = into**-0.5
            weight = torch.empty(out, into + 1).uniform_(-bound, bound, generator=generator)
            segment = self._weights[layer][member]
            segment[:out, : into + 1] = weight.to(segment)
            if layer < len(self.hidden):
                segment[out, into] = 1  # the unit of ones, which carries the bias

    def use_inputs(self, member: int, inputs: Sequence[int]) -> None:
        """Restrict a member to some of the inputs: the weights of the others become zero and are not trained."""
        self._used[member] = False
        self._used[member, list(inputs)] = True
        self._weights[0][member, :, : self.inputs] *= self._used[member]

    def trainable(self) -> Tensor:
        """Return a flat mask: one for every weight, zero for padding, the units of ones and inputs not in use."""
        mask = torch.zeros_like(self.parameters)
        real = (self.inputs, *self.hidden, self.outputs)
        for layer, (into, out) in zip(self.views(mask), pairwise(real), strict=True):
            layer[:, :out, : into + 1] = 1
        self.views(mask)[0][:, :, : self.inputs] *= self._used[:, None]
        return mask

    def forward(self, x: Tensor, *, training: bool = False, reuse: bool = False) -> Tensor:
        """Compute the outputs for inputs (table, feature, row).

        Parameters
        ----------
        x : Tensor of shape (table, feature, row)
            The members are divided evenly among the tables, in order.
        training : bool, default=False
            Keep what `backward` needs, and reuse the memory of the last call.
        reuse : bool, default=False
            Reuse the memory of the last call, which is faster, also outside training. The next call overwrites the
            result. Without it and outside training, the result is a new tensor and nothing in the stack changes.

        Returns
        -------
        Tensor of shape (member, row), or (member, output, row) with several outputs
        """
        tables, features, rows = x.shape
        outputs = self._reused_outputs(rows) if training or reuse else self._new_outputs(rows)
        # members that share a table share one product: (table, member * width, feature) @ (table, feature, row)
        first = self._weights[0].view(tables, -1, features)
        torch.bmm(first, x, out=outputs[0].view(tables, -1, rows))
        for layer in range(1, len(self._weights)):
            torch.relu_(outputs[layer - 1])
            torch.bmm(self._weights[layer], outputs[layer - 1], out=outputs[layer])
        if training or reuse:
            self._input = x if training else None  # evaluation overwrites what `backward` needs
        return outputs[-1][:, 0] if self.outputs == 1 else outputs[-1]

    def backward(self, grad: Tensor) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs of the last training step."""
        if self._input is None:
            raise RuntimeError("backward needs a forward(x, training=True) before it")
        x = self._input
        tables, features, rows = x.shape
        outputs = self._outputs[rows]
        if rows not in self._deltas:
            self._deltas[rows] = [torch.empty_like(output) for output in outputs[:-1]]
        deltas = self._deltas[rows]
        delta = grad.unsqueeze(1) if self.outputs == 1 else grad  # (member, output, row)
        for layer in range(len(self._weights) - 1, 0, -1):
            below = outputs[layer - 1]
            torch.bmm(delta, below.transpose(1, 2), out=self._gradients[layer])
            self._pull_back(layer, delta, deltas[layer - 1])
            delta = deltas[layer - 1]
            # derivative of relu: the gradient passes where the output was positive
            torch.ops.aten.threshold_backward.grad_input(delta, below, 0, grad_input=delta)
        delta = delta.reshape(tables, -1, rows)
        torch.bmm(delta, x.transpose(1, 2), out=self._gradients[0].view(tables, -1, features))

    def _pull_back(self, layer: int, delta: Tensor, out: Tensor) -> None:
        weight = self._weights[layer].transpose(1, 2)
        if delta.shape[1] == 1:  # an outer product: a plain multiplication is faster
            torch.mul(weight, delta, out=out)
        else:
            torch.bmm(weight, delta, out=out)

    def _reused_outputs(self, rows: int) -> list[Tensor]:
        if rows not in self._outputs:
            self._outputs[rows] = self._new_outputs(rows)
        return self._outputs[rows]

    def _new_outputs(self, rows: int) -> list[Tensor]:
        return [self.parameters.new_empty(members, out, rows) for members, out, _ in self._shapes]

    def end_training(self) -> None:
        """Free the buffers of training."""
        self._outputs, self._deltas, self._input = {}, {}, None

    def take(self, members: Sequence[int]) -> StackedMLP:
        """Return a new stack with copies of some members, in this order. Members may repeat."""
        return self._copy(members, self.parameters.dtype, self.parameters.device)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> StackedMLP:
        """Return a copy of the stack in another precision or on another device."""
        return self._copy(range(self.members), dtype, torch.device(device))

    def _copy(self, members: Sequence[int], dtype: torch.dtype, device: torch.device) -> StackedMLP:
        out = object.__new__(type(self))
        out.inputs, out.hidden, out.outputs = self.inputs, self.hidden, self.outputs
        out._allocate(len(members), device, dtype)
        chosen = torch.as_tensor(list(members), device=self.parameters.device)
        for new, old in zip(out._weights, self._weights, strict=True):
            new.copy_(old[chosen])
        out._used.copy_(self._used[chosen])
        return out

    def __getstate__(self) -> dict[str, Any]:
        weights, shape = [segment.clone() for segment in self._weights], (self.inputs, self.hidden, self.outputs)
        return {"shape": shape, "weights": weights, "used": self._used.clone()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        (self.inputs, self.hidden, self.outputs), weights = state["shape"], state["weights"]
        self._allocate(len(weights[0]), weights[0].device, weights[0].dtype)
        for segment, weight in zip(self._weights, weights, strict=True):
            segment.copy_(weight)
        self._used.copy_(state["used"])
