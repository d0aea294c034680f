"""Stacks of user-defined PyTorch modules, evaluated one after the other."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LoopedModules", "NetworkFactory"]

_RANDOM_STREAM = threading.RLock()  # all threads share torch's global random number generator

NetworkFactory = Callable[..., nn.Module]  # takes the number of inputs and, with several outputs, their number


class LoopedModules:
    """User-defined modules with the interface of a stack.

    Parameters
    ----------
    seeds : sequence of int
        One seed for each member. The factory runs with the member's seed, so the initial weights depend only on it.
    inputs : int
        Number of features.
    factory : callable
        With one output, it takes the number of inputs and returns a module from (row, feature) to (row, 1) or (row,).
        With several, it takes the number of inputs and of outputs and returns a module from (row, feature) to
        (row, output).
    outputs : int, default=1
        Number of outputs of a module.
    device, dtype
        Device and type of the weights.

    Notes
    -----
    Modules are in evaluation mode except during ``forward(x, training=True)``. So evaluation changes nothing, and any
    number of threads may run it. Random numbers that a module draws in evaluation mode are not seeded.
    """

    _outputs: list[Tensor]  # outputs of the last training step, with their autograd graphs

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
        """Move the parameters of all modules into one buffer, and make those of each module views of its row."""
        self.modules = [module.to(device=device, dtype=dtype).eval() for module in modules]
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
        self.end_training()

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return one view (member, parameter) of a buffer laid out like `parameters`."""
        return [flat.view(len(self), -1)]

    def trainable(self) -> Tensor:
        """Return a flat mask: one for every parameter that requires a gradient, zero for the others."""
        flags = [torch.full((p.numel(),), float(p.requires_grad)) for p in self.modules[0].parameters()]
        return torch.cat(flags).repeat(len(self)).to(self.parameters)

    def forward(self, x: Tensor, *, training: bool = False, reuse: bool = False) -> Tensor:
        """Compute the outputs for inputs (table, feature, row).

        Parameters
        ----------
        x : Tensor of shape (table, feature, row)
            The members are divided evenly among the tables, in order.
        training : bool, default=False
            Run the modules in training mode and keep what `backward` needs. Otherwise nothing in the stack changes.
        reuse : bool, default=False
            Without effect: no memory is reused.

        Returns
        -------
        Tensor of shape (member, row), or (member, output, row) with several outputs
        """
        per_table = len(self) // len(x)
        tables = [x[member // per_table, : self.inputs].T for member in range(len(self))]  # each (row, feature)
        if not training:
            with torch.no_grad():
                return torch.stack([self._run(*each) for each in zip(self.modules, tables, strict=True)])
        self._steps += 1
        with torch.enable_grad():
            runs = zip(self.modules, tables, self.seeds, strict=True)
            self._outputs = [self._run_in_training(module, table, seed) for module, table, seed in runs]
        return torch.stack([output.detach() for output in self._outputs])

    def _run_in_training(self, module: nn.Module, table: Tensor, seed: int) -> Tensor:
        module.train()
        try:
            # a random stream for each member: dropout must not depend on the other members of the stack
            with _seeded(seed + 1_000_003 * self._steps):
                return self._run(module, table)
        finally:
            module.eval()

    def _run(self, module: nn.Module, table: Tensor) -> Tensor:
        output: Tensor = module(table)
        if self.outputs == 1 and output.numel() == len(table):
            return output.reshape(-1)
        if self.outputs > 1 and output.shape == (len(table), self.outputs):
            return output.T
        count = "one output" if self.outputs == 1 else f"{self.outputs} outputs"
        raise ValueError(f"a network must give {count} per row, got shape {tuple(output.shape)} for {len(table)} rows")

    def backward(self, grad: Tensor) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs of the last training step."""
        if not self._outputs:
            raise RuntimeError("backward needs a forward(x, training=True) before it")
        outputs, self._outputs = self._outputs, []
        self.gradient.zero_()
        torch.autograd.backward(outputs, list(grad))

    def end_training(self) -> None:
        """Free what the last training step kept for `backward`."""
        self._outputs = []

    def take(self, members: Sequence[int]) -> LoopedModules:
        """Return a new stack with copies of some members, in this order. Members may repeat."""
        return self._copy(members, self.parameters.dtype, self.parameters.device)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> LoopedModules:
        """Return a copy of the stack in another precision or on another device."""
        return self._copy(range(len(self)), dtype, torch.device(device))

    def _copy(self, members: Sequence[int], dtype: torch.dtype, device: torch.device) -> LoopedModules:
        out = object.__new__(type(self))
        # the random stream of dropout restarts: the number of steps so far depends on the other members
        out.inputs, out.outputs, out.seeds = self.inputs, self.outputs, [self.seeds[m] for m in members]
        out._steps = 0
        out._adopt([copy.deepcopy(self.modules[m]) for m in members], device, dtype)
        return out

    def __getstate__(self) -> dict[str, Any]:
        # copies: pickling a parameter of this stack itself would include the buffer of all members
        modules = copy.deepcopy(self.modules)
        names = ("inputs", "outputs", "seeds", "_steps")
        return {name: getattr(self, name) for name in names} | {"modules": modules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        first = next(self.modules[0].parameters())
        self._adopt(self.modules, first.device, first.dtype)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global random stream of torch, which user modules draw from, and restore it at the end."""
    with _RANDOM_STREAM, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _build(factory: NetworkFactory, inputs: int, outputs: int, seed: int) -> nn.Module:
    sizes = (inputs,) if outputs == 1 and _takes(factory, inputs) else (inputs, outputs)
    _check_takes(factory, sizes)
    with _seeded(seed):
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


def _takes(factory: NetworkFactory, *sizes: int) -> bool:
    """Whether the factory can be called with these arguments."""
    try:
        inspect.signature(factory).bind(*sizes)
    except TypeError:
        return False
    return True


def _check_takes(factory: NetworkFactory, sizes: tuple[int, ...]) -> None:
    if not _takes(factory, *sizes):
        raise ValueError(
            f"for {sizes[-1]} targets a network factory must take the number of inputs and the number of outputs, "
            f"which is 1 for the rejector; got {factory!r}"
        )
