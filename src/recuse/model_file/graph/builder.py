"""Construction of ONNX graphs from expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from recuse.model_file.graph.operators import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT64,
    IR_VERSION,
    ML_DOMAIN,
    ML_OPSET,
    OPERATORS,
    OPSET,
    ROWS,
    STRING,
    UINT8,
    Signature,
    infer,
)

_TYPES = {
    DOUBLE: TensorProto.DOUBLE,
    FLOAT: TensorProto.FLOAT,
    INT64: TensorProto.INT64,
    BOOL: TensorProto.BOOL,
    STRING: TensorProto.STRING,
    UINT8: TensorProto.UINT8,
}
_NUMPY_TYPES: Mapping[str, Any] = {DOUBLE: np.float64, FLOAT: np.float32, INT64: np.int64, BOOL: np.bool_}


class GraphBuilder:
    """Collects the nodes and constants of a graph.

    Shapes and types are checked while the graph is built. Equal constants and equal nodes are stored once.

    Examples
    --------
    >>> graph = GraphBuilder()
    >>> x = graph.input("x", "double", (ROWS, 2))
    >>> graph.output("y", (x * 2.0 + [1.0, 0.0]).sum(axis=1))
    >>> [node.op_type for node in graph.model().graph.node]
    ['Mul', 'Add', 'ReduceSum', 'Identity']
    """

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._initializers: list[onnx.TensorProto] = []
        self._known: dict[tuple[Any, ...], tuple[Value, ...]] = {}

    @property
    def inputs(self) -> list[str]:
        """Names of the declared inputs."""
        return [each.name for each in self._inputs]

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        """Declare an input; `ROWS` in its shape is the number of rows."""
        self._inputs.append(_value_info(name, dtype, shape))
        return Value(self, name, Signature(dtype, tuple(shape)))

    def output(self, name: str, value: Value) -> None:
        """Declare an output of the graph."""
        self._nodes.append(helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(_value_info(name, value.dtype, value.shape))

    def constant(self, array: ArrayLike, dtype: str | None = None) -> Value:
        """Return a constant; numbers are stored as double unless `dtype` says otherwise.

        In single precision, which is that of networks for images, weights below the normal range become zero: products
        with them take up to 200 times as long.
        """
        dtype = DOUBLE if dtype is None else dtype
        values = np.asarray(array).astype(_NUMPY_TYPES[dtype], order="C")
        if dtype == FLOAT:
            values[np.abs(values) < np.finfo(np.float32).tiny] = 0
        key = (dtype, values.shape, values.tobytes())
        if key not in self._constants:
            name = f"/c{len(self._constants)}"
            self._initializers.append(numpy_helper.from_array(values, name))
            self._constants[key] = Value(self, name, Signature(dtype, values.shape, values))
        return self._constants[key]

    def node(self, operator: str, *inputs: Value, **attributes: Any) -> Value:
        """Append a node and return its first output."""
        return self.nodes(operator, *inputs, **attributes)[0]

    def nodes(self, operator: str, *inputs: Value, **attributes: Any) -> tuple[Value, ...]:
        """Append a node and return all its outputs."""
        rule = OPERATORS[operator]
        names = tuple(each.name for each in inputs)
        small = {key: value for key, value in attributes.items() if not isinstance(value, np.ndarray)}
        known = (operator, names, repr(sorted(small.items()))) if len(small) == len(attributes) else None
        if known is not None and known in self._known:
            return self._known[known]
        signatures = infer(operator, [each.signature for each in inputs], attributes)
        results = [
            f"/v{len(self._nodes)}" if place == 0 else f"/v{len(self._nodes)}_{place}" for place in range(rule.outputs)
        ]
        stored = {name: _attribute(name, value) for name, value in attributes.items()}
        self._nodes.append(helper.make_node(operator, list(names), results, domain=rule.domain, **stored))
        values = tuple(Value(self, name, each) for name, each in zip(results, signatures, strict=True))
        if known is not None:
            self._known[known] = values
        return values

    def model(self) -> onnx.ModelProto:
        """Return the graph as an ONNX model, without nodes and constants that no output needs."""
        nodes = _needed(self._nodes, {output.name for output in self._outputs})
        used = {name for node in nodes for name in node.input}
        constants = [each for each in self._initializers if each.name in used]
        graph = helper.make_graph(nodes, "decision", self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML_DOMAIN, ML_OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="recuse")


def _infix(operator: str, *, reverse: bool = False) -> Callable[[Value, Any], Value]:
    """Return the method of an operator of Python, which appends a node."""

    def apply(self: Value, other: Any) -> Value:
        pair = (self, self._operand(other))
        return self.graph.node(operator, *(pair[::-1] if reverse else pair))

    return apply


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph; arithmetic with numbers, arrays and other tensors appends nodes."""

    graph: GraphBuilder
    name: str
    signature: Signature

    __array_ufunc__ = None  # an array on the left of an operator leaves the operation to the tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, with `ROWS` for the number of rows."""
        return self.signature.shape

    @property
    def dtype(self) -> str:
        """The type: "double", "float", "int64", "bool" or "string"."""
        return self.signature.dtype

    def _operand(self, other: Any) -> Value:
        return other if isinstance(other, Value) else self.graph.constant(other, self.dtype)

    __add__, __radd__ = _infix("Add"), _infix("Add", reverse=True)
    __sub__, __rsub__ = _infix("Sub"), _infix("Sub", reverse=True)
    __mul__, __rmul__ = _infix("Mul"), _infix("Mul", reverse=True)
    __truediv__, __rtruediv__ = _infix("Div"), _infix("Div", reverse=True)
    __pow__, __mod__, __matmul__ = _infix("Pow"), _infix("Mod"), _infix("MatMul")
    __and__, __or__ = _infix("And"), _infix("Or")
    __lt__, __le__ = _infix("Less"), _infix("LessOrEqual")
    __gt__, __ge__ = _infix("Greater"), _infix("GreaterOrEqual")

    def __neg__(self) -> Value:
        return self.graph.node("Neg", self)

    def __invert__(self) -> Value:
        return self.graph.node("Not", self)

    def equals(self, other: Any) -> Value:
        """Compare element by element."""
        return self.graph.node("Equal", self, self._operand(other))

    def unary(self, operator: str, **attributes: Any) -> Value:
        """Apply an operator of one input, such as "Exp"."""
        return self.graph.node(operator, self, **attributes)

    def maximum(self, other: Any) -> Value:
        """Return the larger of two values, element by element."""
        return self.graph.node("Max", self, self._operand(other))

    def minimum(self, other: Any) -> Value:
        """Return the smaller of two values, element by element."""
        return self.graph.node("Min", self, self._operand(other))

    def clip(self, low: Any, high: Any) -> Value:
        """Limit the values."""
        return self.maximum(low).minimum(high)

    def cast(self, dtype: str) -> Value:
        """Convert to another type."""
        return self if dtype == self.dtype else self.graph.node("Cast", self, to=_TYPES[dtype])

    def _reduce(self, operator: str, axis: int | Sequence[int], keepdims: bool) -> Value:
        axes = self.graph.constant(np.atleast_1d(axis), INT64)
        return self.graph.node(operator, self, axes, keepdims=int(keepdims))

    def sum(self, axis: int | Sequence[int], *, keepdims: bool = False) -> Value:
        """Sum along an axis."""
        return self._reduce("ReduceSum", axis, keepdims)

    def mean(self, axis: int | Sequence[int], *, keepdims: bool = False) -> Value:
        """Average along an axis."""
        return self._reduce("ReduceMean", axis, keepdims)

    def max(self, axis: int | Sequence[int], *, keepdims: bool = False) -> Value:
        """Return the maximum along an axis."""
        return self._reduce("ReduceMax", axis, keepdims)

    def unsqueeze(self, *axes: int) -> Value:
        """Insert axes of size 1."""
        return self.graph.node("Unsqueeze", self, self.graph.constant(axes, INT64))

    def squeeze(self, *axes: int) -> Value:
        """Remove axes of size 1."""
        return self.graph.node("Squeeze", self, self.graph.constant(axes, INT64))

    def reshape(self, *shape: int) -> Value:
        """Change the shape; -1 stands for the number of rows."""
        return self.graph.node("Reshape", self, self.graph.constant(shape, INT64))

    def transpose(self, *order: int) -> Value:
        """Change the order of the axes."""
        return self.graph.node("Transpose", self, perm=list(order))

    def take(self, indices: ArrayLike | Value, axis: int) -> Value:
        """Gather positions along an axis."""
        places = indices if isinstance(indices, Value) else self.graph.constant(indices, INT64)
        return self.graph.node("Gather", self, places, axis=axis)

    def columns(self, start: int, stop: int) -> Value:
        """Return some of the columns (row, column)."""
        if (start, stop) == (0, self.shape[1]):
            return self
        bounds = [self.graph.constant([place], INT64) for place in (start, stop, 1)]
        return self.graph.node("Slice", self, *bounds)


def concat(values: Sequence[Value], axis: int) -> Value:
    """Join tensors along an axis."""
    return values[0] if len(values) == 1 else values[0].graph.node("Concat", *values, axis=axis)


def where(condition: Value, yes: Any, no: Any) -> Value:
    """Return `yes` where the condition is true and `no` elsewhere."""
    template = next(each for each in (yes, no) if isinstance(each, Value))
    pair = [each if isinstance(each, Value) else condition.graph.constant(each, template.dtype) for each in (yes, no)]
    return condition.graph.node("Where", condition, *pair)


def _needed(nodes: Sequence[onnx.NodeProto], wanted: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes that lead to one of the wanted values, in order."""
    kept = []
    for node in reversed(nodes):
        if wanted & set(node.output):
            kept.append(node)
            wanted = wanted | set(node.input)
    return kept[::-1]


def _value_info(name: str, dtype: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    sizes = ["rows" if size == ROWS else size for size in shape]
    return helper.make_tensor_value_info(name, _TYPES[dtype], sizes)


def _attribute(name: str, value: Any) -> Any:
    """Return tensors for the attributes that ONNX wants as tensors, and plain lists for others."""
    if name in ("nodes_splits", "leaf_weights", "nodes_modes"):
        return numpy_helper.from_array(np.asarray(value), name)
    return value.tolist() if isinstance(value, np.ndarray) else value
