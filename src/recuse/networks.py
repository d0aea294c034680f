"""Stacked networks: inputs (table, feature, row) -> one output per member and row (member, row).

A stack holds many small networks of one shape and runs them together. The member axis comes first and the
row axis last, so that each layer is one batched matrix product over long contiguous rows. Gradients are
written out by hand into buffers that live as long as the stack: at these sizes, building an autograd graph
costs more than the arithmetic.

Every stack offers the same small interface to the trainer: `parameters` and `gradient` (flat),
`views` (member-first views of any such flat buffer), `forward`, `backward`, `trainable`, `take`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["LoopedModules", "NetworkFactory", "Stack", "StackedMLP", "outputs", "pad_rows", "with_bias"]

# Widths are padded so that every product runs on whole vector registers; measured in benchmarks/engine.py.
_WIDTH, _INPUT, _ROWS, _FLAT = 4, 8, 32, 64
_BLOCK = 4096  # rows predicted at once

NetworkFactory = Callable[[int], nn.Module]


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def pad_rows(n: int) -> int:
    """Rows a block takes in memory. Whole blocks make a row's result independent of where it stands.

    Examples
    --------
    >>> pad_rows(303), pad_rows(1024)
    (320, 1024)
    """
    return _round_up(n, _ROWS)


def with_bias(x: Tensor, rows: int) -> Tensor:
    """Turn a table (row, feature) into the input of a stack (feature, row).

    A feature of ones carries the bias, and zeros fill both axes up to whole registers.

    Examples
    --------
    >>> with_bias(torch.tensor([[5.0, 6.0]]), rows=2)
    tensor([[5., 0.],
            [6., 0.],
            [1., 0.],
            [0., 0.],
            [0., 0.],
            [0., 0.],
            [0., 0.],
            [0., 0.]])
    """
    n, features = x.shape
    out = x.new_zeros(_round_up(features + 1, _INPUT), rows)
    out[:features, :n] = x.T
    out[features, :n] = 1
    return out


def outputs(stack: Stack, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Run a stack over a table (row, feature), a block at a time: (member, row)."""
    table = torch.as_tensor(features).to(stack.parameters)
    blocks = []
    for block in torch.split(table, _BLOCK):
        x = with_bias(block, pad_rows(len(block)))[None]
        blocks.append(stack.forward(x)[:, : len(block)].to("cpu", torch.float64, copy=True))
    return torch.cat(blocks, dim=1).numpy()


class Stack(Protocol):
    """What the trainer needs of a stack of networks."""

    parameters: Tensor
    gradient: Tensor

    def __len__(self) -> int:
        """How many members there are."""

    def views(self, flat: Tensor) -> list[Tensor]:
        """See a buffer laid out like `parameters` as tensors (member, ...), one for each layer."""

    def forward(self, x: Tensor, *, training: bool = False) -> Tensor:
        """Outputs (member, row) for inputs (table, feature, row)."""

    def backward(self, grad: Tensor) -> None:
        """Fill `gradient`, given the derivative of the loss by the last outputs (member, row)."""

    def trainable(self) -> Tensor:
        """One for every parameter that training may change, zero for the padding; flat."""

    def take(self, members: Sequence[int]) -> Self:
        """Give a new stack of copies of some members, in this order, repeats allowed."""

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Self:
        """Give a copy of the stack in another precision or on another device."""


class StackedMLP:
    """Fully connected ReLU networks with one output; no hidden layer makes them linear.

    Parameters
    ----------
    seeds : sequence of int
        One member each. The initial weights depend on the member's seed alone, and follow the usual
        ``nn.Linear`` rule: uniform within ``1 / sqrt(fan_in)``.
    inputs : int
        Features of a row, without the bias.
    hidden : tuple of int
        Widths of the hidden layers.
    device, dtype
        Where and how the weights are stored.

    Notes
    -----
    A layer of width w is stored with ``w + 1`` units and padding. Unit w always outputs 1, so the bias
    of the next layer is one more weight and needs no pass of its own, forward or backward.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        hidden: Sequence[int] = (20, 30, 10),
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.inputs, self.hidden = inputs, tuple(hidden)
        self._allocate(len(seeds), torch.device(device), dtype)
        for member, seed in enumerate(seeds):
            self._initialise(member, seed)

    def __len__(self) -> int:
        return self.members

    def _allocate(self, members: int, device: torch.device, dtype: torch.dtype) -> None:
        self.members = members
        widths = [_round_up(self.inputs + 1, _INPUT), *(_round_up(w + 1, _WIDTH) for w in self.hidden), 1]
        self._shapes = [(members, out, into) for into, out in pairwise(widths)]
        size = _round_up(sum(m * out * into for m, out, into in self._shapes), _FLAT)
        self.parameters = torch.zeros(size, device=device, dtype=dtype)
        self.gradient = torch.zeros_like(self.parameters)
        self._weights, self._gradients = self.views(self.parameters), self.views(self.gradient)
        self._outputs: dict[int, list[Tensor]] = {}  # by number of rows; made once, then used again
        self._deltas: dict[int, list[Tensor]] = {}

    def views(self, flat: Tensor) -> list[Tensor]:
        """See a buffer laid out like `parameters` as tensors (member, out, in), one for each layer."""
        sizes = [m * out * into for m, out, into in self._shapes]
        parts = torch.split(flat[: sum(sizes)], sizes)
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _initialise(self, member: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        real = (self.inputs, *self.hidden, 1)
        for layer, (into, out) in enumerate(pairwise(real)):
            bound = into**-0.5
            weight = torch.empty(out, into + 1).uniform_(-bound, bound, generator=generator)
            segment = self._weights[layer][member]
            segment[:out, : into + 1] = weight.to(segment)
            if layer < len(self.hidden):
                segment[out, into] = 1  # the unit of ones

    def trainable(self) -> Tensor:
        """One for every weight of the network, zero for padding and the unit of ones; flat."""
        mask = torch.zeros_like(self.parameters)
        real = (self.inputs, *self.hidden, 1)
        for layer, (into, out) in zip(self.views(mask), pairwise(real), strict=True):
            layer[:, :out, : into + 1] = 1
        return mask

    def forward(self, x: Tensor, *, training: bool = False) -> Tensor:
        """Outputs (member, row) for inputs (table, feature, row).

        The members are divided evenly among the tables, in order. The result is a buffer that the next
        call with as many rows overwrites.
        """
        tables, features, rows = x.shape
        outputs = self._outputs_for(rows)
        # members that share a table share one product: (table, member * width, feature) @ (table, feature, row)
        first = self._weights[0].view(tables, -1, features)
        torch.bmm(first, x, out=outputs[0].view(tables, -1, rows))
        for layer in range(1, len(self._weights)):
            torch.relu_(outputs[layer - 1])
            torch.bmm(self._weights[layer], outputs[layer - 1], out=outputs[layer])
        self._input = x
        return outputs[-1][:, 0]  # (member, row)

    def backward(self, grad: Tensor) -> None:
        """Fill `gradient`, given the derivative of the loss by the last outputs (member, row)."""
        x = self._input
        tables, features, rows = x.shape
        outputs = self._outputs_for(rows)
        if rows not in self._deltas:
            self._deltas[rows] = [torch.empty_like(o) for o in outputs[:-1]]
        deltas = self._deltas[rows]
        delta = grad.unsqueeze(1)  # (member, 1, row)
        for layer in range(len(self._weights) - 1, 0, -1):
            below = outputs[layer - 1]
            torch.bmm(delta, below.transpose(1, 2), out=self._gradients[layer])
            self._pull_back(layer, delta, deltas[layer - 1])
            delta = deltas[layer - 1]
            # relu': the gradient passes where the output was positive
            torch.ops.aten.threshold_backward.grad_input(delta, below, 0, grad_input=delta)
        delta = delta.reshape(tables, -1, rows)
        torch.bmm(delta, x.transpose(1, 2), out=self._gradients[0].view(tables, -1, features))

    def _pull_back(self, layer: int, delta: Tensor, out: Tensor) -> None:
        weight = self._weights[layer].transpose(1, 2)
        if delta.shape[1] == 1:  # an outer product: a plain multiplication is faster
            torch.mul(weight, delta, out=out)
        else:
            torch.bmm(weight, delta, out=out)

    def _outputs_for(self, rows: int) -> list[Tensor]:
        if rows not in self._outputs:
            shapes = [(members, out, rows) for members, out, _ in self._shapes]
            self._outputs[rows] = [self.parameters.new_empty(shape) for shape in shapes]
        return self._outputs[rows]

    def take(self, members: Sequence[int]) -> StackedMLP:
        """Give a new stack of copies of some members, in this order, repeats allowed."""
        return self._copy(members, self.parameters.dtype, self.parameters.device)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> StackedMLP:
        """Give a copy of the stack in another precision or on another device."""
        return self._copy(range(self.members), dtype, torch.device(device))

    def _copy(self, members: Sequence[int], dtype: torch.dtype, device: torch.device) -> StackedMLP:
        out = copy.copy(self)
        out._allocate(len(members), device, dtype)
        chosen = torch.as_tensor(list(members), device=self.parameters.device)
        for new, old in zip(out._weights, self._weights, strict=True):
            new.copy_(old[chosen])
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "hidden": self.hidden, "weights": [s.clone() for s in self._weights]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.inputs, self.hidden = state["inputs"], state["hidden"]
        weights = state["weights"]
        self._allocate(len(weights[0]), weights[0].device, weights[0].dtype)
        for segment, weight in zip(self._weights, weights, strict=True):
            segment.copy_(weight)


class LoopedModules:
    """A user's own modules behind the same interface, run one after the other.

    Parameters
    ----------
    seeds : sequence of int
        One member each; the factory runs under its seed, so the start depends on the seed alone.
    inputs : int
        Features of a row.
    factory : callable of int to nn.Module
        Builds a module that turns (row, feature) into (row, 1) or (row,).
    device, dtype
        Where and how the weights are stored.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        factory: NetworkFactory,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.inputs, self.seeds, self._steps = inputs, list(seeds), 0
        self._adopt([_build(factory, inputs, seed) for seed in seeds], torch.device(device), dtype)

    def __len__(self) -> int:
        return len(self.modules)

    def _adopt(self, modules: list[nn.Module], device: torch.device, dtype: torch.dtype) -> None:
        """Lay the parameters of all modules into one buffer; each module then sees views of its row."""
        self.modules = [module.to(device=device, dtype=dtype) for module in modules]
        sizes = [p.numel() for p in modules[0].parameters()]
        table = torch.zeros(len(modules), sum(sizes), device=device, dtype=dtype)
        gradient = torch.zeros_like(table)
        for module, row, grad_row in zip(self.modules, table, gradient, strict=True):
            parts = zip(module.parameters(), torch.split(row, sizes), torch.split(grad_row, sizes), strict=True)
            for parameter, part, grad_part in parts:
                part.copy_(parameter.detach().flatten())
                parameter.data = part.view_as(parameter)
                parameter.grad = grad_part.view_as(parameter)
        self.parameters, self.gradient = table.view(-1), gradient.view(-1)

    def views(self, flat: Tensor) -> list[Tensor]:
        """See a buffer laid out like `parameters` as one tensor (member, parameter)."""
        return [flat.view(len(self), -1)]

    def trainable(self) -> Tensor:
        """One for every parameter the module wants trained; flat."""
        wanted = [torch.full((p.numel(),), float(p.requires_grad)) for p in self.modules[0].parameters()]
        return torch.cat(wanted).repeat(len(self)).to(self.parameters)

    def forward(self, x: Tensor, *, training: bool = False) -> Tensor:
        """Outputs (member, row) for inputs (table, feature, row)."""
        per_table = len(self) // len(x)
        self._steps += training
        outputs = []
        with torch.set_grad_enabled(training):
            for member, module in enumerate(self.modules):
                table = x[member // per_table, : self.inputs].T  # (row, feature)
                outputs.append(self._run(module.train(training), table, self.seeds[member]))
        self._outputs = outputs
        return torch.stack([output.detach() for output in outputs])

    def _run(self, module: nn.Module, table: Tensor, seed: int) -> Tensor:
        # dropout and the like draw from a stream of the member's own, whoever else is in the stack
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 1_000_003 * self._steps)
            output: Tensor = module(table)
        if output.numel() != len(table):
            raise ValueError(
                f"a network must give one output per row, got shape {tuple(output.shape)} for {len(table)} rows"
            )
        return output.reshape(-1)

    def backward(self, grad: Tensor) -> None:
        """Fill `gradient`, given the derivative of the loss by the last outputs (member, row)."""
        self.gradient.zero_()
        torch.autograd.backward(self._outputs, list(grad))

    def take(self, members: Sequence[int]) -> LoopedModules:
        """Give a new stack of copies of some members, in this order, repeats allowed."""
        return self._copy(members, self.parameters.dtype, self.parameters.device)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> LoopedModules:
        """Give a copy of the stack in another precision or on another device."""
        return self._copy(range(len(self)), dtype, torch.device(device))

    def _copy(self, members: Sequence[int], dtype: torch.dtype, device: torch.device) -> LoopedModules:
        out = object.__new__(type(self))
        # the stream of dropout starts again: how far this one has run depends on the other members
        out.inputs, out.seeds, out._steps = self.inputs, [self.seeds[m] for m in members], 0
        out._adopt([copy.deepcopy(self.modules[m]) for m in members], device, dtype)
        return out

    def __getstate__(self) -> dict[str, Any]:
        # copies: a module of this stack would drag the whole buffer along with each of its parameters
        modules = copy.deepcopy(self.modules)
        return {"inputs": self.inputs, "seeds": self.seeds, "_steps": self._steps, "modules": modules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        first = next(self.modules[0].parameters())
        self._adopt(self.modules, first.device, first.dtype)


def _build(factory: NetworkFactory, inputs: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = factory(inputs)
    if not isinstance(module, nn.Module):
        raise TypeError(f"a network factory must return a torch.nn.Module, got {type(module).__name__}")
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("a network factory must return a module with trainable parameters, got none")
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                "a network must not keep running statistics, since the best epoch is restored from its "
                f"parameters alone; got {type(part).__name__}, use LayerNorm instead"
            )
    return module
