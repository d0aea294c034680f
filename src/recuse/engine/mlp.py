"""Stacks of small fully connected networks of one shape, evaluated and differentiated together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from recuse.engine.stack import INPUT_MULTIPLE, Array, Stack, round_up, uniform

# Widths and blocks of rows are padded so that every product runs on whole vector registers; see benchmarks/engine.py.
_WIDTH, _ROWS = 4, 16
# Multiply-adds of a product with a matrix and with a vector that OpenBLAS computes in the calling thread.
_MOST_OF_MATRIX, _MOST_OF_VECTOR = 262_144, 9_215


class StackedMLP(Stack):
    """Fully connected ReLU networks with one output, which are linear without hidden layers.

    Parameters
    ----------
    seeds : sequence of int
        One seed for each member. The initial weights depend on the member's seed only: uniform within
        ``1 / sqrt(fan_in)``.
    inputs : int
        Number of features, without the bias.
    hidden : tuple of int
        Widths of the hidden layers.
    dtype : type

    Notes
    -----
    A layer of width w is stored with ``w + 1`` units and padding. The output of unit w is always 1, so the bias of the
    next layer is one more weight and needs no separate operation, forward or backward.
    """

    def __init__(
        self, seeds: Sequence[int], inputs: int, hidden: Sequence[int] = (20, 30, 10), dtype: type = np.float32
    ) -> None:
        self.inputs, self.hidden = inputs, tuple(hidden)
        padded = (round_up(width + 1, _WIDTH) for width in self.hidden)
        widths = [round_up(inputs + 1, INPUT_MULTIPLE), *padded, 1]
        super().__init__(len(seeds), [(out, into) for into, out in pairwise(widths)], dtype)
        layers = self.views(self.parameters)
        for member, seed in enumerate(seeds):
            random = np.random.RandomState(seed)
            for layer, (into, out) in zip(layers, pairwise(self.widths), strict=True):
                layer[member, :out, : into + 1] = uniform(random, into**-0.5, (out, into + 1))
        for layer, width, before in zip(layers, self.hidden, self.widths, strict=False):
            layer[:, width, before] = 1  # the unit of ones, which carries the bias

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs, widths of the hidden layers and number of outputs, without padding."""
        return (self.inputs, *self.hidden, 1)

    def trainable(self) -> Array:
        """Return a flat mask: one for every weight, zero for padding and the units of ones."""
        mask = np.zeros_like(self.parameters)
        for layer, (into, out) in zip(self.views(mask), pairwise(self.widths), strict=True):
            layer[:, :out, : into + 1] = 1
        return mask

    def workspace(self) -> MLPWorkspace:
        """Return new buffers for a training or an evaluation."""
        return MLPWorkspace(self)


class _Block(NamedTuple):
    """Buffers of the members for some rows of a batch."""

    rows: slice
    outputs: list[Array]  # the outputs of every layer
    zeros: list[Array]  # as wide as each hidden layer
    slopes: list[Array]  # derivatives by the outputs of each hidden layer
    positive: list[Array]  # whether these outputs are


class MLPWorkspace:
    """Outputs, slopes and gradient of a stack of MLPs. The gradient is computed by hand, in memory that is reused.

    Rows are computed in blocks. They are so small that BLAS computes each product in the calling thread, whatever limit
    of threads is in force. With several threads its rounding would depend on their number, and waiting for another
    thread would take longer than the product.
    """

    def __init__(self, stack: StackedMLP) -> None:
        self.stack, self.gradient = stack, np.zeros_like(stack.parameters)
        self._part = np.zeros_like(self.gradient)  # the gradient of one block of rows
        self._weights = stack.views(stack.parameters)
        self._gradients, self._parts = stack.views(self.gradient), stack.views(self._part)
        self._blocks: dict[int, list[_Block]] = {}  # blocks by their number of rows
        self._scores: dict[int, Array] = {}
        self._input: Array | None = None  # the input of the last training step

    def forward(self, x: Array, *, training: bool = False) -> Array:
        """Compute the outputs (member, row) for inputs (table, feature, row)."""
        tables, _, rows = x.shape
        if rows not in self._blocks:
            self._allocate(rows)
        first, *others = self._weights
        for block in self._blocks[rows]:
            np.matmul(_by_table(first, tables), x[:, None, :, block.rows], out=_by_table(block.outputs[0], tables))
            for weight, below, above, zero in zip(others, block.outputs, block.outputs[1:], block.zeros, strict=False):
                np.maximum(below, zero, out=below)
                np.matmul(weight, below, out=above)
        self._input = x if training else None  # an evaluation overwrites what `backward` needs
        return self._scores[rows][:, 0]

    def backward(self, slope: Array) -> None:
        """Compute `gradient` from the derivative of the loss by the outputs (member, row) of the last training step."""
        if self._input is None:
            raise RuntimeError("backward needs a forward(x, training=True) before it")
        slope = np.asarray(slope, self.gradient.dtype)
        first, *others = self._blocks[self._input.shape[2]]
        self._backward_block(first, slope, self._gradients)
        for block in others:
            self._backward_block(block, slope, self._parts)
            self.gradient += self._part

    def _backward_block(self, block: _Block, slope: Array, gradients: list[Array]) -> None:
        assert self._input is not None
        tables, above = len(self._input), slope[:, None, block.rows]  # (member, width, row)
        for layer in range(len(self._weights) - 1, 0, -1):
            below, out, positive = block.outputs[layer - 1], block.slopes[layer - 1], block.positive[layer - 1]
            np.matmul(above, below.transpose(0, 2, 1), out=gradients[layer])
            # with one output the product is an outer one, for which a plain multiplication is faster
            product = np.matmul if layer < len(self._weights) - 1 else np.multiply
            product(self._weights[layer].transpose(0, 2, 1), above, out=out)
            np.greater(below, 0, out=positive)
            above = np.multiply(out, positive, out=out)
        x = self._input[:, None, :, block.rows].swapaxes(2, 3)
        np.matmul(_by_table(above, tables), x, out=_by_table(gradients[0], tables))

    def _allocate(self, rows: int) -> None:
        count = -(-rows // self._block_rows())
        size = round_up(-(-rows // count), _ROWS)
        members, kind = len(self.stack), self.gradient.dtype
        widths = [weight.shape[1] for weight in self._weights[:-1]]
        scores = self._scores[rows] = np.empty((members, 1, rows), kind)
        slopes, positive = ([np.empty((members, width, size), of) for width in widths] for of in (kind, bool))
        blocks = []
        for start in range(0, rows, size):
            part = slice(start, min(start + size, rows))
            own = part.stop - start
            hidden = [np.empty((members, width, own), kind) for width in widths]
            zeros = [np.zeros((width, own), kind) for width in widths]
            shared = ([each[..., :own] for each in kept] for kept in (slopes, positive))
            blocks.append(_Block(part, [*hidden, scores[..., part]], zeros, *shared))
        self._blocks[rows] = blocks

    def _block_rows(self) -> int:
        """Return the number of rows of a block at most."""
        most = min(
            (_MOST_OF_VECTOR if out == 1 else _MOST_OF_MATRIX) // (out * into)
            for _, out, into in (weight.shape for weight in self._weights)
        )
        return max(int(most) // _ROWS * _ROWS, _ROWS)


def _by_table(members: Array, tables: int) -> Array:
    """View (member, ...) as (table, member of the table, ...)."""
    return members.reshape(tables, len(members) // tables, *members.shape[1:])
