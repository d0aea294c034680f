"""LoopedModules: a user's own modules behind the interface of a stack, run one after the other."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LoopedModules", "NetworkFactory"]

NetworkFactory = Callable[..., nn.Module]  # of the number of inputs and, where there are several, of outputs


class LoopedModules:
    """A user's own modules behind the same interface, run one after the other.

    Parameters
    ----------
    seeds : sequence of int
        One member each; the factory runs under its seed, so the start depends on the seed alone.
    inputs : int
        Features of a row.
    factory : callable
        Builds, from the number of inputs, a module that turns (row, feature) into (row, 1) or (row,); where there are
        several outputs, from the number of inputs and that of outputs, one that turns it into (row, output).
    outputs : int, default=1
        How many numbers a module gives for a row.
    device, dtype
        Where and how the weights are stored.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        factory: NetworkFactory,
        *,
        outputs: int = 1,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.inputs, self.outputs, self.seeds, self._steps = inputs, outputs, list(seeds), 0
        self._adopt([_build(factory, inputs, outputs, seed) for seed in seeds], torch.device(device), dtype)

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
        """Outputs (member, row), or (member, output, row) of several, for inputs (table, feature, row)."""
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
        if self.outputs == 1 and output.numel() == len(table):
            return output.reshape(-1)
        if self.outputs > 1 and output.shape == (len(table), self.outputs):
            return output.T
        count = "one output" if self.outputs == 1 else f"{self.outputs} outputs"
        raise ValueError(f"a network must give {count} per row, got shape {tuple(output.shape)} for {len(table)} rows")

    def backward(self, grad: Tensor) -> None:
        """Fill `gradient`, given the derivative of the loss by the last outputs, of their shape."""
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
        out.inputs, out.outputs, out.seeds = self.inputs, self.outputs, [self.seeds[m] for m in members]
        out._steps = 0
        out._adopt([copy.deepcopy(self.modules[m]) for m in members], device, dtype)
        return out

    def __getstate__(self) -> dict[str, Any]:
        # copies: a module of this stack would drag the whole buffer along with each of its parameters
        modules = copy.deepcopy(self.modules)
        names = ("inputs", "outputs", "seeds", "_steps")
        return {name: getattr(self, name) for name in names} | {"modules": modules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        first = next(self.modules[0].parameters())
        self._adopt(self.modules, first.device, first.dtype)


def _build(factory: NetworkFactory, inputs: int, outputs: int, seed: int) -> nn.Module:
    sizes = (inputs,) if outputs == 1 else (inputs, outputs)
    _check_takes(factory, sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = factory(*sizes)
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


def _check_takes(factory: NetworkFactory, sizes: tuple[int, ...]) -> None:
    if len(sizes) == 1:
        return
    try:
        inspect.signature(factory).bind(*sizes)
    except TypeError as error:
        raise ValueError(
            f"for {sizes[1]} targets a network factory must take the number of inputs and the number of outputs, "
            f"which is 1 for the rejector; got {factory!r}"
        ) from error
