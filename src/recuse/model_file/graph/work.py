"""Upper bounds of the work of a node for one row.

The unit is a simple operation of the processor, of which one core does about one in a nanosecond. The factors below
were measured with ONNX Runtime 1.31 on one core with AVX-512, for the slowest inputs, and rounded up. So a bound is a
multiple of the usual time, and nearly the time of graphs that are made to be slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recuse.model_file.graph.operators import DOUBLE, ROWS, STRING, Attributes, Shape, Signature, tree_depth

__all__ = ["elements", "operations"]

# ONNX Runtime pads the channels of images to a multiple of this number.
_CHANNELS = 16

# Operations to start a node, and for each tensor that it reads.
_NODE, _INPUT = 500, 20

# Operations for each element of the result. Operators that are not here take the last one.
_RESULT: Mapping[str, int] = {
    **dict.fromkeys(("Cast", "Identity", "Relu", "Reshape", "Squeeze", "Unsqueeze"), 1),
    **{"Tanh": 5, "Floor": 5, "Gather": 6, "Log": 6, "Mod": 8, "Transpose": 10, "Elu": 15, "Exp": 25, "Where": 25},
    **{"Pow": 30, "Sigmoid": 45, "Sin": 60, "LabelEncoder": 100},
    "": 4,
}

# Operations for each element that is read. Sin, Where and so on read each element once for each result.
_READ: Mapping[str, int] = {
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "GlobalAveragePool"), 2),
    **{"MatMul": 3, "Conv": 3, "Softmax": 10},
}

# Operations for each text that is copied, and for each run of results that a broadcast computes at once.
_TEXT, _RUN = 80, 16

# Multiply-adds that count as one operation, for matrices in blocks that stay in the cache.
_PRODUCTS: Mapping[str, int] = {"float": 32, DOUBLE: 16}

# Operations for each pair of matrices of a stack, for each place of a window, and for each comparison of a sort.
_PAIR, _WINDOW, _COMPARISON = 250, 5, 25

# Operations for each node of a tree that a row visits, for each tree, and for each target.
_VISIT, _TREE, _TARGET = 20, 10, 10

_BROADCASTS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "And", "Or", "Where")
_COMPARES = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def elements(shape: Shape) -> int:
    """Return the number of elements of a tensor for one row, with the channels that ONNX Runtime adds.

    Examples
    --------
    >>> elements((ROWS, 3, 8, 8)), elements((ROWS, 3))
    (1024, 3)
    """
    sizes = _one_row(shape)
    if len(sizes) == 4:
        sizes[1] = -(-sizes[1] // _CHANNELS) * _CHANNELS
    return math.prod(sizes)


def operations(operator: str, inputs: Sequence[Signature], result: Signature, attrs: Attributes) -> int:
    """Return an upper bound of the operations of a node, which the rules of operators have accepted, for one row.

    Examples
    --------
    >>> table, weights = Signature(DOUBLE, (ROWS, 300)), Signature(DOUBLE, (300, 100))
    >>> operations("MatMul", [table, weights], Signature(DOUBLE, (ROWS, 100)), {})
    93965
    """
    count = elements(result.shape)
    total = _NODE + _INPUT * len(inputs) + _RESULT.get(operator, _RESULT[""]) * count
    total += _READ.get(operator, 0) * sum(elements(each.shape) for each in inputs)
    if result.dtype == STRING:
        total += _TEXT * count
    if operator in _BROADCASTS or operator in _COMPARES:
        total += _RUN * _runs([each.shape for each in inputs], result.shape)
    elif operator == "MatMul":
        total += count * inputs[0].shape[-1] // _PRODUCTS[result.dtype] + _PAIR * _pairs(inputs, result)
    elif operator == "Conv":
        total += _convolution(inputs, result)
    elif operator == "MaxPool":
        total += _WINDOW * count * math.prod(attrs["kernel_shape"])
    elif operator == "TopK":
        total += _COMPARISON * elements(inputs[0].shape) * (1 + count.bit_length())
    elif operator == "TreeEnsemble":
        total += _trees(attrs)
    return total


def _one_row(shape: Shape) -> list[int]:
    return [1 if size == ROWS else size for size in shape]


def _runs(shapes: Sequence[Shape], result: Shape) -> int:
    """Return how many stretches of a result have inputs that are stretches, too, or one value each."""
    sizes = _one_row(result)
    padded = [[1] * (len(sizes) - len(shape)) + _one_row(shape) for shape in shapes]
    pattern: list[bool] | None = None
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            continue
        here = [shape[axis] == 1 for shape in padded]
        if pattern is not None and here != pattern:
            return math.prod(sizes[: axis + 1])
        pattern = here
    return 1


def _pairs(inputs: Sequence[Signature], result: Signature) -> int:
    """Return how many pairs of matrices are multiplied; one matrix for all is multiplied at once."""
    alone = math.prod(_one_row(inputs[1].shape[:-2])) == 1
    return 1 if alone else math.prod(_one_row(result.shape[:-2]))


def _convolution(inputs: Sequence[Signature], result: Signature) -> int:
    """Return the operations of products, and those of copies of the windows."""
    out_channels, channels, *kernel = inputs[1].shape
    places = math.prod(_one_row(result.shape[2:]))
    products = out_channels * channels * math.prod(kernel) * places
    copies = inputs[0].shape[1] * math.prod(kernel) * places if min(channels, out_channels) < _CHANNELS else 0
    return products // _PRODUCTS[result.dtype] + copies


def _trees(attrs: Attributes) -> int:
    trees = len(attrs["tree_roots"])
    visits = min(trees * tree_depth(attrs), len(attrs["nodes_featureids"]))
    return _VISIT * visits + _TREE * trees + _TARGET * int(attrs["n_targets"])
