"""The subset of ONNX operators that model files may use, with their rules for types and shapes.

The builder of graphs and the check of loaded graphs use the same rules. So a graph that was built here passes the
check, and a graph that passes the check has tensors of a known size for each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET, ML_OPSET, IR_VERSION = 21, 5, 10
ML_DOMAIN = "ai.onnx.ml"

# Stands in a shape for the number of rows, which is known only when the graph runs.
ROWS = -1
MAX_RANK = 6

DOUBLE, FLOAT, INT64, BOOL, STRING, UINT8 = "double", "float", "int64", "bool", "string", "uint8"

_NUMBERS, _REALS = (DOUBLE, FLOAT, INT64), (DOUBLE, FLOAT)
# ONNX Runtime has some operators for this type only.
_SINGLE = (FLOAT,)
# Numbers of types in TensorProto.DataType that Cast may convert to.
_CAST_TYPES = {1: FLOAT, 7: INT64, 9: BOOL, 11: DOUBLE}

_MAX_TARGETS = 1_000_000
_MAX_PAD = _MAX_STRIDE = _MAX_KERNEL = 64
# ONNX Runtime builds trees by recursion, and a chain of many nodes would crash it.
_MAX_DEPTH = 512
# ONNX Runtime takes about 0.07 ms for each tree, however small.
_MAX_TREES = 50_000
# ONNX Runtime takes about 300 bytes for each node and each leaf.
_MAX_TREE_NODES = 2_000_000

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Signature:
    """Type and shape of a tensor, and its value if it is a constant.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
        `ROWS` for the number of rows.
    value : ndarray or None
    """

    dtype: str
    shape: Shape
    value: NDArray[Any] | None = None


@dataclass(frozen=True)
class Rule:
    """What an operator accepts, and the signature of its first output.

    Attributes
    ----------
    infer : callable
        Function from the signatures of the inputs and the attributes to the signature of the output. It raises a
        ValueError for inputs that do not fit.
    inputs : int or (int, int)
        Number of inputs, or the least and the most.
    attributes : tuple of str
        Names of the attributes that it may have.
    domain : str
    outputs : int
        Number of outputs; a second one has the shape of the first and type int64.
    """

    infer: Callable[[Sequence[Signature], Attributes], Signature]
    inputs: int | tuple[int, int] = 1
    attributes: tuple[str, ...] = ()
    domain: str = ""
    outputs: int = 1


def _broadcast(*shapes: Shape) -> Shape:
    """Return the common shape of tensors, by the rules of numpy.

    Examples
    --------
    >>> _broadcast((ROWS, 1), (3,))
    (-1, 3)
    """
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not fit together")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def _same_type(inputs: Sequence[Signature], allowed: Sequence[str]) -> str:
    """Return the common type of the inputs, which must be an allowed one."""
    types = {each.dtype for each in inputs}
    if len(types) != 1 or not types <= set(allowed):
        raise ValueError(f"inputs must all be of one type among {list(allowed)}, got {[each.dtype for each in inputs]}")
    return types.pop()


def _of_type(one: Signature, allowed: Sequence[str]) -> Signature:
    """Return the signature if it has an allowed type."""
    _same_type([one], allowed)
    return one


def infer(operator: str, inputs: Sequence[Signature], attributes: Attributes) -> list[Signature]:
    """Return the signatures of the outputs of a node.

    Raises
    ------
    ValueError
        If the operator does not accept the inputs or attributes, or if an output has more than one axis of rows.

    Examples
    --------
    >>> [output] = infer("Add", [Signature(DOUBLE, (ROWS, 3)), Signature(DOUBLE, (3,))], {})
    >>> output.shape
    (-1, 3)
    """
    rule = OPERATORS[operator]
    unknown = set(attributes) - set(rule.attributes)
    if unknown:
        raise ValueError(f"{operator} must have attributes among {rule.attributes}, got {sorted(unknown)}")
    least, most = (rule.inputs, rule.inputs) if isinstance(rule.inputs, int) else rule.inputs
    if not least <= len(inputs) <= most:
        raise ValueError(f"number of inputs must be {least} to {most}, got {len(inputs)}")
    result = rule.infer(inputs, attributes)
    if len(result.shape) > MAX_RANK or result.shape.count(ROWS) > 1:
        raise ValueError(f"a result must have at most {MAX_RANK} axes and one of rows, got shape {result.shape}")
    return [result, *[Signature(INT64, result.shape)] * (rule.outputs - 1)]


def _unary(allowed: Sequence[str] = _REALS, result: str | None = None) -> Rule:
    def infer(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
        dtype = _same_type(inputs, allowed)
        return Signature(result or dtype, inputs[0].shape)

    return Rule(infer)


def _binary(allowed: Sequence[str], result: str | None = None) -> Rule:
    def infer(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
        dtype = _same_type(inputs, allowed)
        return Signature(result or dtype, _broadcast(inputs[0].shape, inputs[1].shape))

    return Rule(infer, 2)


def _divide(allowed: Sequence[str]) -> Rule:
    quotient = _binary(allowed)

    def infer(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
        result = quotient.infer(inputs, attrs)
        divisor = inputs[1].value
        if result.dtype == INT64 and (divisor is None or divisor.min() < 1):
            # Integer division by zero would end the process.
            raise ValueError("integers must be divided by a positive constant")
        return result

    return Rule(infer, 2)


def _where(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    _of_type(inputs[0], (BOOL,))
    return Signature(_same_type(inputs[1:], _NUMBERS), _broadcast(*(each.shape for each in inputs)))


def _cast(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    _of_type(inputs[0], (*_NUMBERS, BOOL, UINT8))
    if attrs.get("to") not in _CAST_TYPES:
        raise ValueError(f"attribute 'to' must be one of {list(_CAST_TYPES)}, got {attrs.get('to')}")
    return Signature(_CAST_TYPES[attrs["to"]], inputs[0].shape)


def _matmul(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    dtype, (one, other) = _same_type(inputs, _REALS), (each.shape for each in inputs)
    if len(one) < 2 or len(other) < 2 or one[-1] != other[-2] or one[-1] == ROWS:
        raise ValueError(f"matrices of shapes {one} and {other} cannot be multiplied")
    return Signature(dtype, (*_broadcast(one[:-2], other[:-2]), one[-2], other[-1]))


def _integers(inputs: Sequence[Signature], place: int) -> list[int]:
    """Return the values of an input, which must be a constant of integers with at most one axis."""
    if place >= len(inputs) or inputs[place].value is None or inputs[place].dtype != INT64:
        raise ValueError(f"input {place} must be a constant of type int64")
    value = inputs[place].value
    assert value is not None
    if value.ndim > 1 or not 1 <= value.size <= MAX_RANK:
        raise ValueError(f"input {place} must be 1 to {MAX_RANK} numbers on one axis, got shape {value.shape}")
    return [int(each) for each in value.reshape(-1)]


def _integer(inputs: Sequence[Signature], place: int) -> int:
    values = _integers(inputs, place)
    if inputs[place].shape != (1,):
        raise ValueError(f"input {place} must have shape (1,), got {inputs[place].shape}")
    return values[0]


def _axis(axis: int, rank: int) -> int:
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ValueError(f"axis must be between {-rank} and {rank - 1}, got {axis}")
    return axis % rank


def _flag(attrs: Attributes, name: str) -> bool:
    value = attrs.get(name, 1)
    if value not in (0, 1):
        raise ValueError(f"attribute {name!r} must be 0 or 1, got {value}")
    return bool(value)


def _reduce(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    _of_type(inputs[0], _REALS)
    shape = inputs[0].shape
    axes = {_axis(axis, len(shape)) for axis in _integers(inputs, 1)}
    if not axes or any(shape[axis] in (ROWS, 0) for axis in axes):
        raise ValueError(f"axes {sorted(axes)} of shape {shape} cannot be reduced")
    keep = _flag(attrs, "keepdims")
    kept = [(1 if axis in axes else size) for axis, size in enumerate(shape) if keep or axis not in axes]
    return Signature(inputs[0].dtype, tuple(kept))


def _concat(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    dtype = _same_type(inputs, (*_NUMBERS, BOOL, STRING))
    shapes = [each.shape for each in inputs]
    if "axis" not in attrs:
        raise ValueError("attribute 'axis' is missing")
    axis = _axis(attrs["axis"], len(shapes[0]))
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len({len(shape) for shape in shapes}) > 1 or len(others) > 1 or any(shape[axis] == ROWS for shape in shapes):
        raise ValueError(f"tensors of shapes {shapes[:3]} cannot be joined along axis {axis}")
    total = sum(shape[axis] for shape in shapes)
    return Signature(dtype, (*shapes[0][:axis], total, *shapes[0][axis + 1 :]))


def _gather(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    data, indices = inputs
    if indices.dtype != INT64:
        raise ValueError(f"indices must be of type int64, got {indices.dtype}")
    axis = _axis(attrs.get("axis", 0), len(data.shape))
    size = data.shape[axis]
    if size == ROWS:
        raise ValueError("rows cannot be gathered")
    if (
        indices.value is not None
        and indices.value.size
        and not (0 <= indices.value.min() <= indices.value.max() < size)
    ):
        raise ValueError(f"indices must be between 0 and {size - 1}")
    return Signature(data.dtype, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))


def _transpose(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    order = list(attrs.get("perm", range(len(inputs[0].shape))[::-1]))
    if sorted(order) != list(range(len(inputs[0].shape))):
        raise ValueError(f"perm must be an order of the axes of {inputs[0].shape}, got {order}")
    return Signature(inputs[0].dtype, tuple(inputs[0].shape[axis] for axis in order))


def _unsqueeze(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    axes, rank = _integers(inputs, 1), len(inputs[0].shape)
    places = {_axis(axis, rank + len(axes)) for axis in axes}
    if len(places) != len(axes) or rank + len(axes) > MAX_RANK:
        raise ValueError(f"axes must be different, got {axes}")
    sizes = iter(inputs[0].shape)
    return Signature(inputs[0].dtype, tuple(1 if p in places else next(sizes) for p in range(rank + len(axes))))


def _squeeze(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    shape = inputs[0].shape
    axes = {_axis(axis, len(shape)) for axis in _integers(inputs, 1)}
    if any(shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {sorted(axes)} of shape {shape} must have size 1")
    return Signature(inputs[0].dtype, tuple(size for axis, size in enumerate(shape) if axis not in axes))


def _reshape(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    shape, wanted = inputs[0].shape, tuple(_integers(inputs, 1))
    rows = shape.count(ROWS)
    fits = rows <= 1 and wanted.count(-1) == rows and all(size == -1 or size > 0 for size in wanted)
    if not fits or len(wanted) > MAX_RANK or _per_row(shape) != _per_row(wanted):
        raise ValueError(f"shape {shape} cannot become {wanted}")
    return Signature(inputs[0].dtype, wanted)


def _slice(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    start, end, axis = (_integer(inputs, place) for place in (1, 2, 3))
    shape = inputs[0].shape
    axis = _axis(axis, len(shape))
    if shape[axis] == ROWS or not 0 <= start < end <= shape[axis]:
        raise ValueError(f"slice {start}:{end} does not fit axis {axis} of shape {shape}")
    return Signature(inputs[0].dtype, (*shape[:axis], end - start, *shape[axis + 1 :]))


def _topk(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    _of_type(inputs[0], _REALS)
    count, shape = _integer(inputs, 1), inputs[0].shape
    axis = _axis(attrs.get("axis", -1), len(shape))
    _flag(attrs, "largest"), _flag(attrs, "sorted")
    if shape[axis] == ROWS or not 1 <= count <= shape[axis]:
        raise ValueError(f"{count} values cannot be chosen along axis {axis} of shape {shape}")
    return Signature(inputs[0].dtype, (*shape[:axis], count, *shape[axis + 1 :]))


def _softmax(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    shape = _of_type(inputs[0], _REALS).shape
    if shape[_axis(attrs.get("axis", -1), len(shape))] == ROWS:
        raise ValueError("softmax must not run over the rows")
    return Signature(inputs[0].dtype, shape)


def _label_encoder(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    _of_type(inputs[0], (STRING,))
    keys, values = attrs.get("keys_strings", []), attrs.get("values_int64s", [])
    if not keys or len(keys) != len(values):
        raise ValueError(f"keys and values must be as many, got {len(keys)} and {len(values)}")
    return Signature(INT64, inputs[0].shape)


def _tree_ensemble(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    dtype, shape = _of_type(inputs[0], _REALS).dtype, inputs[0].shape
    targets = attrs.get("n_targets")
    missing = set(OPERATORS["TreeEnsemble"].attributes) - set(attrs)
    if missing:
        raise ValueError(f"a tree ensemble needs the attributes {sorted(missing)}")
    if len(shape) != 2 or shape[1] == ROWS or not isinstance(targets, int) or not 1 <= targets <= _MAX_TARGETS:
        raise ValueError(f"a tree ensemble needs a table, got shape {shape} and {targets} targets")
    if attrs.get("aggregate_function") != 1 or attrs.get("post_transform") != 0:
        raise ValueError("a tree ensemble must sum its trees without a transform")
    _check_trees(attrs, width=shape[1], targets=targets, dtype=dtype)
    return Signature(dtype, (shape[0], targets))


def _conv(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    dtype = _same_type(inputs, _SINGLE)
    image, kernel = inputs[0].shape, inputs[1].shape
    group = attrs.get("group", 1)
    if len(image) != 4 or len(kernel) != 4 or inputs[1].value is None or ROWS in image[1:] or group < 1:
        raise ValueError(f"a convolution needs images and a constant kernel, got shapes {image} and {kernel}")
    if image[1] != kernel[1] * group or kernel[0] % group:
        raise ValueError(f"a kernel of shape {kernel} in {group} groups does not fit images of shape {image}")
    if len(inputs) == 3 and inputs[2].shape != (kernel[0],):
        raise ValueError(f"the bias of a convolution must have shape {(kernel[0],)}, got {inputs[2].shape}")
    if tuple(attrs.get("kernel_shape", kernel[2:])) != kernel[2:]:
        raise ValueError(f"kernel_shape must be {kernel[2:]}, got {tuple(attrs['kernel_shape'])}")
    return Signature(dtype, (image[0], kernel[0], *_window_size(image[2:], kernel[2:], attrs)))


def _max_pool(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    image = _of_type(inputs[0], _REALS).shape
    size = tuple(attrs.get("kernel_shape", ()))
    if len(image) != 4 or len(size) != 2 or ROWS in image[1:]:
        raise ValueError(f"pooling needs images and a window, got shapes {image} and {size}")
    return Signature(inputs[0].dtype, (*image[:2], *_window_size(image[2:], size, attrs)))


def _global_pool(inputs: Sequence[Signature], attrs: Attributes) -> Signature:
    shape = _of_type(inputs[0], _SINGLE).shape
    if len(shape) != 4 or ROWS in shape[1:]:
        raise ValueError(f"pooling needs images, got shape {shape}")
    return Signature(inputs[0].dtype, (*shape[:2], 1, 1))


def _per_row(shape: Shape) -> int:
    return math.prod(size for size in shape if size != ROWS)


def _window_size(size: Sequence[int], kernel: Sequence[int], attrs: Attributes) -> tuple[int, ...]:
    """Return height and width of the result of a sliding window."""
    strides, pads = attrs.get("strides", [1, 1]), attrs.get("pads", [0, 0, 0, 0])
    if len(strides) != 2 or len(pads) != 4 or not 1 <= min(strides) <= max(strides) <= _MAX_STRIDE:
        raise ValueError(f"strides {strides} and pads {pads} are not valid")
    if not 0 <= min(pads) <= max(pads) <= _MAX_PAD or max(kernel) > _MAX_KERNEL:
        raise ValueError(f"strides {strides} and pads {pads} are not valid")
    result = tuple((size[axis] + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis] + 1 for axis in range(2))
    if min(kernel) < 1 or min(result) < 1 or max(pads) >= min(kernel):
        raise ValueError(f"a window of {tuple(kernel)} does not fit images of {tuple(size)}")
    return result


def _check_trees(attrs: Attributes, *, width: int, targets: int, dtype: str) -> None:
    """Check that every branch leads to a later node or a leaf, so that every walk ends."""
    split, weight = np.asarray(attrs["nodes_splits"]), np.asarray(attrs["leaf_weights"])
    names = ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
    feature, true, false, true_leaf, false_leaf = (np.asarray(attrs[name], dtype=np.int64) for name in names)
    mode, roots = np.asarray(attrs["nodes_modes"]), np.asarray(attrs["tree_roots"], dtype=np.int64)
    target = np.asarray(attrs["leaf_targetids"], dtype=np.int64)
    nodes, leaves = len(feature), len(target)
    expected = np.float64 if dtype == DOUBLE else np.float32
    if any(each.ndim != 1 for each in (split, weight, mode)) or nodes > _MAX_TREE_NODES or leaves > _MAX_TREE_NODES:
        raise ValueError(f"a tree ensemble must have at most {_MAX_TREE_NODES} nodes and leaves on one axis")
    if len(roots) > _MAX_TREES:
        raise ValueError(f"a tree ensemble must have at most {_MAX_TREES} trees, got {len(roots)}")
    lengths = {len(each) for each in (split, true, false, true_leaf, false_leaf, mode)}
    if lengths != {nodes} or nodes == 0 or leaves == 0 or weight.shape != (leaves,) or len(roots) == 0:
        raise ValueError("the arrays of a tree ensemble must have one value for each node and each leaf")
    if split.dtype != expected or weight.dtype != expected or mode.dtype != np.uint8 or mode.any():
        raise ValueError("a tree ensemble must compare with <= in the type of its input")
    _check_between("features", feature, 0, width)
    _check_between("targets", target, 0, targets)
    _check_between("roots", roots, 0, nodes)
    for branch, leaf in ((true, true_leaf), (false, false_leaf)):
        _check_between("flags of leaves", leaf, 0, 2)
        _check_between("leaves", branch[leaf == 1], 0, leaves)
        inner = np.flatnonzero(leaf == 0)
        _check_between("nodes", branch[inner], 0, nodes)
        if np.any(branch[inner] <= inner):
            raise ValueError("the nodes of a tree must lead to later nodes")
    inner_children = np.concatenate([true[true_leaf == 0], false[false_leaf == 0], roots])
    if np.bincount(inner_children, minlength=nodes).max() > 1:
        raise ValueError("the nodes of a tree must have one parent each")
    _check_depth(roots, [(true, true_leaf == 0), (false, false_leaf == 0)])


def tree_depth(attrs: Attributes) -> int:
    """Return the number of nodes on the longest way through a tree of an ensemble that `infer` accepted."""
    sides = (("nodes_truenodeids", "nodes_trueleafs"), ("nodes_falsenodeids", "nodes_falseleafs"))
    branches = [(np.asarray(attrs[child], dtype=np.int64), np.asarray(attrs[leaf]) == 0) for child, leaf in sides]
    return _check_depth(np.asarray(attrs["tree_roots"], dtype=np.int64), branches)


def _check_depth(roots: NDArray[np.int64], branches: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> int:
    """Return the depth; raise an error if it is too large."""
    level = roots
    for depth in range(1, _MAX_DEPTH + 1):
        level = np.concatenate([child[level][inner[level]] for child, inner in branches])
        if not len(level):
            return depth
    raise ValueError(f"a tree must have a depth of at most {_MAX_DEPTH}")


def _check_between(name: str, values: NDArray[np.int64], low: int, high: int) -> None:
    if len(values) and not (low <= values.min() and values.max() < high):
        raise ValueError(f"{name} of a tree ensemble must be between {low} and {high - 1}")


OPERATORS: Mapping[str, Rule] = {
    **{name: _unary() for name in ("Exp", "Floor", "Log", "Relu", "Sigmoid", "Sin", "Sqrt", "Tanh")},
    "Abs": _unary(_NUMBERS),
    "Neg": _unary(_NUMBERS),
    "IsNaN": _unary(_REALS, BOOL),
    "IsInf": _unary(_REALS, BOOL),
    "Not": _unary((BOOL,)),
    "Identity": _unary((*_NUMBERS, BOOL, STRING)),
    **{name: _binary(_NUMBERS) for name in ("Add", "Sub", "Mul", "Max", "Min")},
    "Pow": _binary(_REALS),
    "Div": _divide(_NUMBERS),
    "Mod": _divide((INT64,)),
    "And": _binary((BOOL,)),
    "Or": _binary((BOOL,)),
    **{name: _binary(_NUMBERS, BOOL) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    "Where": Rule(_where, 3),
    "Cast": Rule(_cast, 1, ("to",)),
    "MatMul": Rule(_matmul, 2),
    **{name: Rule(_reduce, 2, ("keepdims",)) for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")},
    "Concat": Rule(_concat, (1, 100_000), ("axis",)),
    "Gather": Rule(_gather, 2, ("axis",)),
    "Transpose": Rule(_transpose, 1, ("perm",)),
    "Unsqueeze": Rule(_unsqueeze, 2),
    "Squeeze": Rule(_squeeze, 2),
    "Reshape": Rule(_reshape, 2),
    "Slice": Rule(_slice, 4),
    "TopK": Rule(_topk, 2, ("axis", "largest", "sorted"), outputs=2),
    "Softmax": Rule(_softmax, 1, ("axis",)),
    "Conv": Rule(_conv, (2, 3), ("group", "pads", "strides", "kernel_shape")),
    "MaxPool": Rule(_max_pool, 1, ("kernel_shape", "pads", "strides")),
    "GlobalAveragePool": Rule(_global_pool),
    "LabelEncoder": Rule(_label_encoder, 1, ("keys_strings", "values_int64s", "default_int64"), ML_DOMAIN),
    "TreeEnsemble": Rule(
        _tree_ensemble,
        1,
        (
            "aggregate_function",
            "leaf_targetids",
            "leaf_weights",
            "n_targets",
            "nodes_falseleafs",
            "nodes_falsenodeids",
            "nodes_featureids",
            "nodes_modes",
            "nodes_splits",
            "nodes_trueleafs",
            "nodes_truenodeids",
            "post_transform",
            "tree_roots",
        ),
        ML_DOMAIN,
    ),
}
