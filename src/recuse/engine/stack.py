"""The interface of a stack of networks, the layout of its inputs, and its outputs over a whole table.

Inputs are (table, feature, row). Outputs are (member, row), or (member, output, row) with several outputs. The row
axis is last, so that each layer is one batched matrix product over long contiguous rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recuse.threads import one_thread

__all__ = ["INPUT_MULTIPLE", "Stack", "outputs", "pad_rows", "round_up", "threads_for", "with_bias"]

# Inputs are padded to whole vector registers; see benchmarks/engine.py.
INPUT_MULTIPLE, _ROWS = 8, 32
_BLOCK = 4096  # rows evaluated at once
_MAX_SMALL = 300_000_000  # multiply-adds: at most about 2 ms per layer on one processor core


def round_up(n: int, multiple: int) -> int:
    """Return the smallest multiple that is not below n.

    Examples
    --------
    >>> round_up(21, 4)
    24
    """
    return -(-n // multiple) * multiple


def pad_rows(n: int) -> int:
    """Return the number of rows of a padded block. With whole blocks, a row's result does not depend on its position.

    Examples
    --------
    >>> pad_rows(303), pad_rows(1024)
    (320, 1024)
    """
    return round_up(n, _ROWS)


def with_bias(x: Tensor, rows: int) -> Tensor:
    """Turn a table (row, feature) into the input of a stack (feature, row).

    A feature of ones carries the bias. Zeros fill both axes up to whole vector registers.

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
    out = x.new_zeros(round_up(features + 1, INPUT_MULTIPLE), rows)
    out[:features, :n] = x.T
    out[features, :n] = 1
    return out


class Stack(Protocol):
    """Networks of one shape that are trained and evaluated together."""

    parameters: Tensor  # flat parameters of all members
    gradient: Tensor  # laid out like `parameters`

    def __len__(self) -> int:
        """Return the number of members."""

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return views (member, ...), one per layer, of a buffer laid out like `parameters`."""

    def forward(self, x: Tensor, *, training: bool = False, reuse: bool = False) -> Tensor:
        """Compute the outputs (member, row) or (member, output, row) for inputs (table, feature, row).

        With `training`, keep what `backward` needs. With `reuse`, the result may be overwritten by the next call.
        Without both, nothing in the stack changes, so any number of threads may call this.
        """

    def backward(self, grad: Tensor) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs of the last training step."""

    def end_training(self) -> None:
        """Free the memory that only training needs."""

    def trainable(self) -> Tensor:
        """Return a flat mask: one for every parameter that training may change, zero for the others."""

    def take(self, members: Sequence[int]) -> Self:
        """Return a new stack with copies of some members, in this order. Members may repeat."""

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Self:
        """Return a copy of the stack in another precision or on another device."""


def threads_for(stacks: Iterable[Stack], rows: int) -> AbstractContextManager[None]:
    """Limit OpenMP to one thread if a forward pass of the stacks on this number of rows is small.

    A forward pass takes about one multiply-add per parameter and row. Below the threshold, waiting for another thread
    may take longer than the operation itself.

    Examples
    --------
    >>> from recuse.engine.mlp import StackedMLP
    >>> with threads_for([StackedMLP(seeds=[0], inputs=4)], rows=1024):
    ...     torch.get_num_threads()
    1
    """
    multiply_adds = rows * sum(stack.parameters.numel() for stack in stacks)
    return one_thread() if multiply_adds < _MAX_SMALL else nullcontext()


def outputs(stack: Stack, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate a stack on a table, a block of rows at a time.

    Any number of threads may call this on one stack.

    Parameters
    ----------
    stack : Stack
    features : array of shape (row, feature)

    Returns
    -------
    array of shape (member, row), or (member, output, row) with several outputs

    Examples
    --------
    >>> from recuse.engine.mlp import StackedMLP
    >>> outputs(StackedMLP(seeds=[0, 1, 2], inputs=4), np.zeros((10, 4))).shape
    (3, 10)
    """
    blocks = []
    with threads_for([stack], min(len(features), _BLOCK)):
        table = torch.as_tensor(features).to(stack.parameters)
        for block in torch.split(table, _BLOCK):
            x = with_bias(block, pad_rows(len(block)))[None]
            blocks.append(stack.forward(x)[..., : len(block)].to("cpu", torch.float64))
        return torch.cat(blocks, dim=-1).numpy()
