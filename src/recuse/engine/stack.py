"""Stacks of networks with flat parameters, the layout of their inputs, and their outputs over a whole table.

Inputs are (table, feature, row), outputs (member, row). The row axis is last, so that each layer is a matrix product
over long contiguous rows. Every product has one member, so its rounding does not depend on the other members.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recuse.threads import one_blas_thread

Array: TypeAlias = NDArray[Any]  # float32 in training, float64 in decisions

# Inputs are padded to whole vector registers; see benchmarks/engine.py.
INPUT_MULTIPLE, _ROWS, _FLAT = 8, 32, 64
_BLOCK = 256  # rows evaluated at once
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
    return round_up(max(n, 1), _ROWS)


def with_bias(x: Array, rows: int) -> Array:
    """Turn a table (row, feature) into the input of a stack (feature, row).

    A feature of ones carries the bias. Zeros fill both axes up to whole vector registers.

    Examples
    --------
    >>> with_bias(np.array([[5.0, 6.0]]), rows=2)[:4]
    array([[5., 0.],
           [6., 0.],
           [1., 0.],
           [0., 0.]])
    """
    n, features = x.shape
    out = np.zeros((round_up(features + 1, INPUT_MULTIPLE), rows), x.dtype)
    out[:features, :n] = x.T
    out[features, :n] = 1
    return out


def uniform(random: np.random.RandomState, bound: float, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Draw weights within a bound, of 24 bits each: those that torch draws with the same seed."""
    draws = random.randint(2**24, size=shape, dtype=np.uint32) * 2.0**-23
    return ((draws - 1) * float(np.float32(bound))).astype(np.float32)


class Workspace(Protocol):
    """Buffers of one computation of a stack. Its results are overwritten by its next call of the same kind."""

    gradient: Array  # laid out like the parameters of the stack

    @property
    def stack(self) -> Stack:
        """The networks."""

    def forward(self, x: Array, *, training: bool = False) -> Array:
        """Compute the outputs (member, row) for inputs (table, feature, row); `training` keeps what `backward` needs.

        The members are divided evenly among the tables, in order.
        """

    def backward(self, slope: Array) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs of the last training step."""


class Stack(ABC):
    """Networks of one shape that are trained and evaluated together.

    Parameters
    ----------
    members : int
    shapes : sequence of tuple
        Shapes of the parts of a network, such as the weights of its layers.
    dtype : type

    Attributes
    ----------
    parameters : ndarray
        Flat parameters of all members.
    """

    def __init__(self, members: int, shapes: Sequence[tuple[int, ...]], dtype: type = np.float32) -> None:
        self._shapes = list(shapes)
        self._allocate(members, dtype)

    def _allocate(self, members: int, dtype: Any) -> None:
        self.members = members
        size = members * sum(math.prod(shape) for shape in self._shapes)
        self.parameters: Array = np.zeros(round_up(size, _FLAT), dtype)

    def __len__(self) -> int:
        return self.members

    def views(self, flat: Array) -> list[Array]:
        """Return one view (member, ...) per part of a buffer laid out like `parameters`."""
        shapes = [(self.members, *shape) for shape in self._shapes]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        return [flat[end - math.prod(shape) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]

    @abstractmethod
    def trainable(self) -> Array:
        """Return a flat mask: one for every parameter that training may change, zero for the others."""

    @abstractmethod
    def workspace(self) -> Workspace:
        """Return new buffers for a training or an evaluation."""

    def forward(self, x: Array) -> Array:
        """Compute the outputs for inputs (table, feature, row) in new memory; any number of threads may call this."""
        return self.workspace().forward(x)

    def take(self, members: Sequence[int]) -> Self:
        """Return a new stack with copies of some members, in this order. Members may repeat."""
        return self._copy(list(members), self.parameters.dtype)

    def to(self, dtype: type) -> Self:
        """Return a copy of the stack in another precision."""
        return self._copy(list(range(self.members)), dtype)

    def _copy(self, members: list[int], dtype: Any) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out._allocate(len(members), dtype)
        for new, old in zip(out.views(out.parameters), self.views(self.parameters), strict=True):
            new[:] = old[members]
        return out


def threads_for(stacks: Iterable[Stack], rows: int) -> AbstractContextManager[None]:
    """Limit matrix products to one thread if a forward pass of the stacks on this number of rows is small.

    A forward pass takes about one multiply-add per parameter and row. Below the threshold, waiting for another thread
    may take longer than the operation itself.
    """
    multiply_adds = rows * sum(stack.parameters.size for stack in stacks)
    return one_blas_thread() if multiply_adds < _MAX_SMALL else nullcontext()


def outputs(stack: Stack, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate a stack on a table, a block of rows at a time.

    Any number of threads may call this on one stack.

    Parameters
    ----------
    stack : Stack
    features : array of shape (row, feature)

    Returns
    -------
    array of shape (output, row)

    Examples
    --------
    >>> from recuse.engine.mlp import StackedMLP
    >>> outputs(StackedMLP(seeds=[0, 1, 2], inputs=4), np.zeros((10, 4))).shape
    (3, 10)
    """
    table, blocks = np.asarray(features, stack.parameters.dtype), []
    with threads_for([stack], min(len(table), _BLOCK)), np.errstate(all="ignore"):
        for start in range(0, max(len(table), 1), _BLOCK):
            block = table[start : start + _BLOCK]
            blocks.append(stack.forward(with_bias(block, pad_rows(len(block)))[None])[:, : len(block)])
    return np.concatenate(blocks, axis=1, dtype=np.float64)
