"""Stack: what the trainer needs of many networks at once, and the layout of their inputs.

Inputs are (table, feature, row) and outputs (member, row), or (member, output, row) of networks with several. The row
axis comes last, so that each layer is one batched matrix product over long contiguous rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["INPUT_MULTIPLE", "Stack", "outputs", "pad_rows", "round_up", "with_bias"]

# Whole vector registers: see benchmarks/engine.py.
INPUT_MULTIPLE, _ROWS = 8, 32
_BLOCK = 4096  # rows predicted at once


def round_up(n: int, multiple: int) -> int:
    """The next multiple that is not below n.

    Examples
    --------
    >>> round_up(21, 4)
    24
    """
    return -(-n // multiple) * multiple


def pad_rows(n: int) -> int:
    """Rows a block takes in memory. Whole blocks make a row's result independent of where it stands.

    Examples
    --------
    >>> pad_rows(303), pad_rows(1024)
    (320, 1024)
    """
    return round_up(n, _ROWS)


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
    out = x.new_zeros(round_up(features + 1, INPUT_MULTIPLE), rows)
    out[:features, :n] = x.T
    out[features, :n] = 1
    return out


def outputs(stack: Stack, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Run a stack over a table (row, feature), a block at a time: (member, row), or (member, output, row)."""
    table = torch.as_tensor(features).to(stack.parameters)
    blocks = []
    for block in torch.split(table, _BLOCK):
        x = with_bias(block, pad_rows(len(block)))[None]
        blocks.append(stack.forward(x)[..., : len(block)].to("cpu", torch.float64, copy=True))
    return torch.cat(blocks, dim=-1).numpy()


class Stack(Protocol):
    """What the trainer needs of a stack of networks."""

    parameters: Tensor
    gradient: Tensor

    def __len__(self) -> int:
        """How many members there are."""

    def views(self, flat: Tensor) -> list[Tensor]:
        """See a buffer laid out like `parameters` as tensors (member, ...), one for each layer."""

    def forward(self, x: Tensor, *, training: bool = False) -> Tensor:
        """Outputs (member, row), or (member, output, row) of several, for inputs (table, feature, row)."""

    def backward(self, grad: Tensor) -> None:
        """Fill `gradient`, given the derivative of the loss by the last outputs, of their shape."""

    def trainable(self) -> Tensor:
        """One for every parameter that training may change, zero for the padding; flat."""

    def take(self, members: Sequence[int]) -> Self:
        """Give a new stack of copies of some members, in this order, repeats allowed."""

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Self:
        """Give a copy of the stack in another precision or on another device."""
