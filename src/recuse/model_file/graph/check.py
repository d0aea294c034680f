"""Check of a graph from a file, before ONNX Runtime sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.errors import ModelFileError
from recuse.model_file.graph.operators import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT64,
    IR_VERSION,
    MAX_RANK,
    ML_DOMAIN,
    ML_OPSET,
    OPERATORS,
    OPSET,
    ROWS,
    STRING,
    UINT8,
    Attributes,
    Shape,
    Signature,
    infer,
    tree_depth,
)
from recuse.model_file.graph.wire import MODEL, NODE, read_message

# Bytes of a session and its tensors. The library itself takes 400 MiB, so both fit into 1 GiB.
MAX_MEMORY = 600 * 2**20
# Bytes of all tensors of a block of rows. A ResNet-50 with images of 224 x 224 has 0.2 GB for one row.
MAX_BLOCK_BYTES = 2**28
# Bytes of all tensors that are computed without the rows; a session keeps them.
MAX_FIXED_BYTES = 2**26
# Most rows that are decided at once.
MAX_BLOCK = 1024
# Operations for one row; the slowest graphs within the limit take 0.7 s on one core. A ResNet-50 needs 320 million for
# an image of 224 x 224, and two of them do not fit into the memory; AutoRejector needs about a million for a table.
MAX_OPERATIONS = 1_000_000_000

# Processors of the x86 family take this many times as long for numbers below the normal range (2.2e-308 in double
# precision). Results are none where that matters (`needs_flush`), but constants may be; these operators pass them on.
_DENORMAL_FACTOR = 200
_PASS_ON = (
    *("Abs", "Cast", "Concat", "Gather", "Identity", "Max", "MaxPool", "Min", "Neg", "ReduceMax", "ReduceMin", "Relu"),
    *("Reshape", "Slice", "Squeeze", "TopK", "Transpose", "TreeEnsemble", "Unsqueeze", "Where"),
)

# Memory that ONNX Runtime 1.31 took at most to open a session: copies of the graph with the one of the caller, bytes
# for each node and each leaf of a tree, and bytes for each node of a graph.
_COPIES, _TREE_BYTES, _NODE_BYTES = 3.1, {"nodes_featureids": 640, "leaf_targetids": 32}, 6_000
_MAX_NAME = 256

# Types by their numbers in TensorProto.DataType.
_TYPES = {1: FLOAT, 2: UINT8, 7: INT64, 8: STRING, 9: BOOL, 11: DOUBLE}
_ARRAYS: Mapping[str, np.dtype[Any]] = {
    FLOAT: np.dtype("<f4"),
    UINT8: np.dtype("u1"),
    INT64: np.dtype("<i8"),
    BOOL: np.dtype("?"),
    DOUBLE: np.dtype("<f8"),
}
_SIZES = {**{name: dtype.itemsize for name, dtype in _ARRAYS.items()}, STRING: 64}

# Number of each kind of attribute in AttributeProto.AttributeType, and the only field that has its value.
_KINDS = {"int": (2, "i"), "tensor": (4, "t"), "ints": (7, "ints"), "strings": (8, "strings")}
ATTRIBUTE_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("aggregate_function", "axis", "default_int64", "group", "keepdims", "largest"), "int"),
    **dict.fromkeys(("n_targets", "post_transform", "sorted", "to"), "int"),
    **dict.fromkeys(("kernel_shape", "leaf_targetids", "nodes_falseleafs", "nodes_falsenodeids"), "ints"),
    **dict.fromkeys(("nodes_featureids", "nodes_trueleafs", "nodes_truenodeids", "pads", "perm"), "ints"),
    **dict.fromkeys(("strides", "tree_roots", "values_int64s"), "ints"),
    **dict.fromkeys(("leaf_weights", "nodes_modes", "nodes_splits"), "tensor"),
    "keys_strings": "strings",
}
# Attributes of few integers, which the rules of operators take as lists.
_LISTS = ("kernel_shape", "pads", "perm", "strides")

Declared = Mapping[str, tuple[str, Sequence[int]]]

# Upper bounds of the work of a node for one row. The unit is a simple operation of the processor, of which one core
# does about one in a nanosecond. The factors below were measured with ONNX Runtime 1.31 on one core with AVX-512, for
# the slowest inputs, and rounded up. So a bound is a multiple of the usual time, and nearly the time of graphs that
# are made to be slow.

# ONNX Runtime pads the channels of images to a multiple of this number.
_CHANNELS = 16

# Operations to start a node, and for each tensor that it reads.
_NODE, _INPUT = 500, 20

# Operations for each element of the result. Operators that are not here take the last one.
_RESULT: Mapping[str, int] = {
    **dict.fromkeys(("Cast", "Identity", "Relu", "Reshape", "Squeeze", "Unsqueeze"), 1),
    **{"Tanh": 5, "Floor": 5, "Gather": 6, "Log": 6, "Mod": 8, "Transpose": 10, "Exp": 25, "Where": 25},
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


@dataclass(frozen=True)
class GraphSize:
    """What a graph that passed the check needs at most.

    Attributes
    ----------
    block : int
        Number of rows, 1 to 1,024, that may be decided at once: their tensors then take at most 256 MiB.
    operations : int
        Upper bound of the operations for one row; one core does about one in a nanosecond.
    nodes : int
    """

    block: int
    operations: int
    nodes: int

    @property
    def needs_flush(self) -> bool:
        """Whether the work for a row could exceed the limit if all results were denormal numbers."""
        return self.operations * _DENORMAL_FACTOR > MAX_OPERATIONS


def measure_graph(data: bytes, inputs: Declared, outputs: Declared) -> GraphSize:
    """Check that a graph is one that the builder of graphs could have built, and return what it needs.

    The graph must consist of known operators, whose types and shapes fit and whose tensors and work are bounded.

    Parameters
    ----------
    data : bytes
    inputs, outputs : mapping of str to (type, shape)
        What the graph must declare; `ROWS` in a shape is the number of rows.

    Returns
    -------
    GraphSize

    Raises
    ------
    ModelFileError
        If the graph is not valid; the message names the node and the reason.

    Examples
    --------
    >>> from recuse.model_file.graph.builder import GraphBuilder
    >>> graph = GraphBuilder()
    >>> graph.output("y", graph.input("x", "double", (ROWS, 3)).sum(axis=1))
    >>> data = graph.model().SerializeToString()
    >>> measure_graph(data, {"x": ("double", (ROWS, 3))}, {"y": ("double", (ROWS,))})
    GraphSize(block=1024, operations=1073, nodes=2)
    >>> measure_graph(data, {"x": ("double", (ROWS, 2))}, {"y": ("double", (ROWS,))})
    Traceback (most recent call last):
    recuse.model_file.errors.ModelFileError: the graph is not valid: its inputs are {'x': ('double', (-1, 3))}, ...
    """
    model = read_message(memoryview(data), MODEL)
    _check_versions(model)
    graph = model.get("graph")
    if graph is None:
        raise _invalid("it has no nodes")
    known = _declared("inputs", graph["input"], inputs)
    for name, (_, shape) in known.items():
        _check_name(name, {})
        _check_shape(f"input {name!r}", shape)
    signatures = {name: Signature(dtype, shape) for name, (dtype, shape) in known.items()}
    for tensor in graph["initializer"]:
        _check_name(tensor.get("name", ""), signatures)
        signatures[tensor["name"]] = _constant(tensor, f"constant {tensor['name']!r}")
    needs = _Needs()
    needs.add_tensors([signatures[name] for name in known])
    computed = _check_nodes(graph["node"], signatures, needs)
    ends = _declared("outputs", graph["output"], outputs)
    for name, (dtype, shape) in ends.items():
        if name not in computed or (signatures[name].dtype, signatures[name].shape) != (dtype, shape):
            raise _invalid(f"its output {name!r} of type {dtype} and shape {shape} is not what its nodes compute")
    return GraphSize(_rows_at_once(len(data), needs), _total_work(needs.work), len(needs.work))


@dataclass
class _Needs:
    """What the tensors and nodes of a graph need that were checked so far.

    Attributes
    ----------
    of_rows, fixed, trees : int
        Bytes of tensors for each row, of tensors without rows, and of trees.
    work : list of tuple
        Operations for each row and name of each node.
    """

    of_rows: int = 0
    fixed: int = 0
    trees: int = 0
    work: list[tuple[int, str]] = field(default_factory=list)

    def add_tensors(self, tensors: Sequence[Signature]) -> None:
        """Add the bytes of tensors."""
        sizes = [(_elements(each.shape) * _SIZES[each.dtype], ROWS in each.shape) for each in tensors]
        self.of_rows += sum(size for size, of_rows in sizes if of_rows)
        self.fixed += sum(size for size, of_rows in sizes if not of_rows)


def _total_work(work: Sequence[tuple[int, str]]) -> int:
    total = sum(count for count, _ in work)
    if total > MAX_OPERATIONS:
        most, name = max(work)
        raise ModelFileError(
            f"the graph is not valid: it needs up to {total:,} operations for each row, "
            f"{100 * most / total:.3g}% of them in {name}, more than the limit of {MAX_OPERATIONS:,}; "
            "save a smaller model, or one of smaller images"
        )
    return total


def _rows_at_once(graph_bytes: int, needs: _Needs) -> int:
    """Return how many rows fit into the memory that a session leaves."""
    session = int(_COPIES * graph_bytes) + needs.trees + _NODE_BYTES * len(needs.work) + needs.fixed
    left = min(MAX_MEMORY - session, MAX_BLOCK_BYTES)
    if needs.fixed > MAX_FIXED_BYTES or needs.of_rows > left:
        raise _invalid(
            f"it needs {session} bytes of memory and {needs.of_rows} for each row, more than {MAX_MEMORY} and "
            f"{MAX_BLOCK_BYTES}"
        )
    return min(MAX_BLOCK, left // max(1, needs.of_rows))


def _invalid(reason: str) -> ModelFileError:
    return ModelFileError(f"the graph is not valid: {reason}; save the model again")


def _check_versions(model: Mapping[str, Any]) -> None:
    opsets = [(each.get("domain", ""), each.get("version")) for each in model["opset_import"]]
    expected = [("", OPSET), (ML_DOMAIN, ML_OPSET)]
    if opsets != expected or model.get("ir_version") != IR_VERSION:
        raise _invalid(
            f"it has the operator sets {opsets[:4]} and format {model.get('ir_version')}, not {expected} and "
            f"{IR_VERSION}"
        )


def _declared(kind: str, values: Sequence[Mapping[str, Any]], expected: Declared) -> dict[str, tuple[str, Any]]:
    """Return name, type and shape of the declared inputs or outputs if they are the expected ones."""
    found = {}
    for value in values:
        tensor = value.get("type", {}).get("tensor", {})
        shape = tuple(_dimension(each) for each in tensor.get("shape", {"dim": [{}]})["dim"])
        found[value.get("name", "")] = (_TYPES.get(tensor.get("elem_type"), "unknown"), shape)
    wanted = {name: (dtype, tuple(shape)) for name, (dtype, shape) in expected.items()}
    if found != wanted or len(found) != len(values):
        raise _invalid(f"its {kind} are {_short(found)}, the header of the file declares {_short(wanted)}")
    return found


def _dimension(each: Mapping[str, Any]) -> int | None:
    if each == {"param": "rows"}:
        return ROWS
    return each["value"] if each.keys() == {"value"} and each["value"] != ROWS else None


def _short(values: Mapping[str, Any]) -> str:
    text = repr(dict(values))
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _check_name(name: str, known: Mapping[str, Any]) -> None:
    if not 0 < len(name) <= _MAX_NAME:
        raise _invalid(f"a tensor has a name of {len(name)} characters, which must be 1 to {_MAX_NAME}")
    if name in known:
        raise _invalid(f"the tensor {name!r} is defined twice")


def _check_shape(name: str, shape: Sequence[int | None]) -> None:
    if len(shape) > MAX_RANK or list(shape).count(ROWS) > 1:
        raise _invalid(f"{name} has the shape {tuple(shape)} with too many axes")
    if any(size is None or (size < 1 and size != ROWS) for size in shape):
        raise _invalid(f"{name} has the shape {tuple(shape)}, whose sizes must be positive")


def _constant(tensor: Mapping[str, Any], name: str) -> Signature:
    """Return the signature of a tensor with its value."""
    dtype, shape = _TYPES.get(tensor.get("data_type", 0), "unknown"), tuple(tensor["dims"].tolist())
    if dtype not in _ARRAYS:
        raise _invalid(f"{name} has the type {tensor.get('data_type', 0)}, which is not allowed")
    if ROWS in shape:
        raise _invalid(f"{name} has the shape {shape}, whose sizes must be positive")
    _check_shape(name, shape)
    raw = tensor.get("raw_data", b"")
    if len(raw) != math.prod(shape) * _ARRAYS[dtype].itemsize:
        raise _invalid(f"{name} of type {dtype} and shape {shape} has {len(raw)} bytes")
    value: NDArray[Any] = np.frombuffer(raw, dtype=_ARRAYS[dtype])
    if dtype == BOOL and np.any(value.view(np.uint8) > 1):
        raise _invalid(f"{name} has truth values other than 0 and 1")
    return Signature(dtype, shape, value.reshape(shape))


def _check_nodes(nodes: Sequence[memoryview], signatures: dict[str, Signature], needs: _Needs) -> set[str]:
    """Infer the signatures of all results in the order of the nodes; add what each node needs."""
    computed: set[str] = set()
    denormal = {name for name, each in signatures.items() if _has_denormals(each)}
    for place, content in enumerate(nodes):
        node = read_message(content, NODE)
        operator = node.get("op_type", "")
        name = f"node {place} ({operator[:64]})"
        rule = OPERATORS.get(operator)
        if rule is None or rule.domain != node.get("domain", ""):
            raise _invalid(f"{name} is not an operator that model files may have")
        missing = [each for each in node["input"] if each not in signatures]
        if missing:
            raise _invalid(f"{name} uses {missing[0][:64]!r}, which no earlier node computes")
        attributes, given = _attributes(node["attribute"], name), [signatures[each] for each in node["input"]]
        try:
            results = infer(operator, given, attributes)
        except ValueError as error:
            raise _invalid(f"{name}: {error}") from error
        count = _operations(operator, given, results[0], attributes)
        if not denormal.isdisjoint(node["input"]):
            count *= _DENORMAL_FACTOR
            denormal.update(node["output"] if operator in _PASS_ON else ())
        needs.work.append((count, name))
        needs.trees += sum(size * len(attributes.get(each, ())) for each, size in _TREE_BYTES.items())
        needs.add_tensors(results)
        if len(node["output"]) != len(results):
            raise _invalid(f"{name} has {len(node['output'])} outputs instead of {len(results)}")
        for output, signature in zip(node["output"], results, strict=True):
            _check_name(output, signatures)
            signatures[output] = signature
            computed.add(output)
    return computed


def _has_denormals(signature: Signature) -> bool:
    value = signature.value
    if value is None or signature.dtype not in (DOUBLE, FLOAT):
        return False
    return bool(np.any((value != 0) & (np.abs(value) < np.finfo(value.dtype).tiny)))


def _attributes(stored: Sequence[Mapping[str, Any]], node: str) -> dict[str, Any]:
    """Return the attributes of a node as Python values and arrays, as the builder of graphs has them."""
    attributes: dict[str, Any] = {}
    for each in stored:
        name = each.get("name", "")
        kind = ATTRIBUTE_KINDS.get(name)
        if kind is None or name in attributes:
            raise _invalid(f"{node} has the attribute {name[:64]!r}, which is unknown or there twice")
        number, wanted = _KINDS[kind]
        present = {key for key, value in each.items() if key not in ("name", "type") and not _is_empty(value)}
        if each.get("type") != number or not present <= {wanted} or (kind in ("int", "tensor") and not present):
            raise _invalid(f"{node} has the attribute {name!r} of another kind than {kind}")
        value = each[wanted]
        if kind == "tensor":
            value = _constant(value, f"{node}, attribute {name!r}").value
        attributes[name] = value.tolist() if name in _LISTS else value
    return attributes


def _is_empty(value: Any) -> bool:
    return isinstance(value, (list, np.ndarray)) and len(value) == 0


def _elements(shape: Shape) -> int:
    """Return the number of elements of a tensor for one row, with the channels that ONNX Runtime adds.

    Examples
    --------
    >>> _elements((ROWS, 3, 8, 8)), _elements((ROWS, 3))
    (1024, 3)
    """
    sizes = _one_row(shape)
    if len(sizes) == 4:
        sizes[1] = -(-sizes[1] // _CHANNELS) * _CHANNELS
    return math.prod(sizes)


def _operations(operator: str, inputs: Sequence[Signature], result: Signature, attrs: Attributes) -> int:
    """Return an upper bound of the operations of a node, which the rules of operators have accepted, for one row.

    Examples
    --------
    >>> table, weights = Signature(DOUBLE, (ROWS, 300)), Signature(DOUBLE, (300, 100))
    >>> _operations("MatMul", [table, weights], Signature(DOUBLE, (ROWS, 100)), {})
    93965
    """
    count = _elements(result.shape)
    total = _NODE + _INPUT * len(inputs) + _RESULT.get(operator, _RESULT[""]) * count
    total += _READ.get(operator, 0) * sum(_elements(each.shape) for each in inputs)
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
        total += _COMPARISON * _elements(inputs[0].shape) * (1 + count.bit_length())
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
