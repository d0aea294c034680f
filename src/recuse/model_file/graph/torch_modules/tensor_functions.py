"""Functions and methods of torch tensors, expressed by ONNX operators."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from recuse.model_file.graph.builder import Value, concat, where
from recuse.model_file.graph.operators import DOUBLE, INT64, ROWS

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "METHODS",
    "elu",
    "flatten",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "linear",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "standardised",
]

Handler = Callable[..., Any]


class _RowCount:
    """The number of rows as a size of a tensor."""

    def __repr__(self) -> str:
        return "the number of rows"


_ROW_COUNT = _RowCount()


# activations


def relu(x: Value, *, inplace: bool = False) -> Value:
    """Return the positive part."""
    return x.unary("Relu")


def sigmoid(x: Value) -> Value:
    """Return the logistic function."""
    return x.unary("Sigmoid")


def softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """Return log(1 + exp(beta x)) / beta, or x where beta x is above the threshold."""
    scaled = x * beta
    small = (-scaled.unary("Abs")).unary("Exp")
    return where(scaled > threshold, x, (scaled.maximum(0.0) + _log1p(small)) / beta)


def _log1p(x: Value) -> Value:
    """Return log(1 + x) of a value from 0 to 1, exact for tiny values too."""
    rounded = x + 1.0
    return where(rounded.equals(1.0), x, x * rounded.unary("Log") / (rounded - 1.0))


def silu(x: Value, *, inplace: bool = False) -> Value:
    """Return x sigmoid(x)."""
    # ONNX Runtime before 1.30 replaces x sigmoid(x) by an operator that it has for single precision only.
    return x / (1.0 + (-x).unary("Exp"))


def gelu(x: Value, approximate: str = "none") -> Value:
    """Return x times the normal distribution function, or its approximation by tanh."""
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (inner.unary("Tanh") + 1.0)
    return x * 0.5 * (_erf(x * math.sqrt(0.5)) + 1.0)


# Rational approximations of the error function in double precision: Cephes Math Library, ndtr.c
_NEAR = (
    (9.60497373987051639, 90.0260197203842690, 2232.00534594684319, 7003.32514112805075, 55592.3013010394963),
    (
        1.0, 33.5617141647503100, 521.357949780152680, 4594.32382970980128, 22629.0000613890934,
        49267.3942608635921,
    ),
)  # fmt: skip
_FAR = (
    (
        2.46196981473530513e-10, 0.564189564831068822, 7.46321056442269913, 48.6371970985681367, 196.520832956077098,
        526.445194995477359, 934.528527171957608, 1027.55188689515710, 557.535335369399328,
    ),
    (
        1.0, 13.2281951154744993, 86.7072140885989742, 354.937778887819891, 975.708501743205490,
        1823.90916687909736, 2246.33760818710982, 1656.66309194161350, 557.535340817727676,
    ),
)  # fmt: skip
# In double precision, the error function is 1 from here on.
_ERF_IS_ONE = 6.0


def _erf(x: Value) -> Value:
    if x.dtype != DOUBLE:
        return x.unary("Erf")
    near = x.clip(-1.0, 1.0)
    size = x.unary("Abs").minimum(_ERF_IS_ONE)
    far = 1.0 - (-(size * size)).unary("Exp") * _ratio(_FAR, size)
    return where(x.unary("Abs") <= 1.0, near * _ratio(_NEAR, near * near), where(x < 0.0, -far, far))


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
    above, below = (_polynomial(each, x) for each in coefficients)
    return above / below


def _polynomial(coefficients: Sequence[float], x: Value) -> Value:
    total = x * coefficients[0] + coefficients[1]
    for each in coefficients[2:]:
        total = total * x + each
    return total


def elu(x: Value, alpha: float = 1.0, *, inplace: bool = False) -> Value:
    """Return x where it is positive and alpha (exp(x) - 1) elsewhere."""
    return x.maximum(0.0) + (x.minimum(0.0).unary("Exp") - 1.0) * alpha


def leaky_relu(x: Value, negative_slope: float = 0.01, *, inplace: bool = False) -> Value:
    """Return x where it is positive and a multiple of x elsewhere."""
    return x.maximum(0.0) + x.minimum(0.0) * negative_slope


def softmax(x: Value, dim: int | None, dtype: Any = None, _stacklevel: int = 3) -> Value:
    """Return the exponentials along an axis, divided by their sum."""
    if dim is None or dtype is not None:
        raise ValueError(f"it needs an axis and no type, got dim={dim} and dtype={dtype}")
    return x.unary("Softmax", axis=dim)


def _dropout(x: Value, p: float = 0.5, training: bool = True, *, inplace: bool = False) -> Value:
    if training and p > 0:
        raise ValueError("dropout outside of training is random: pass training=self.training")
    return x


# arithmetic


def _arithmetic(function: Callable[[Any, Any], Any]) -> Handler:
    def apply(x: Any, other: Any) -> Any:
        first = x if isinstance(x, Value) else other.graph.constant(x, other.dtype)
        return function(first, other)

    return apply


def linear(x: Value, weight: Tensor, bias: Tensor | None = None) -> Value:
    """Return x times the transposed weight, plus the bias."""
    product = x @ weight.T
    return product if bias is None else product + bias


def layer_norm(
    x: Value, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Value:
    """Standardise over the last axes."""
    rank = len(normalized_shape)
    if x.shape[len(x.shape) - rank :] != tuple(normalized_shape):
        raise ValueError(f"it needs inputs of shape {tuple(normalized_shape)}, got {x.shape}")
    result = standardised(x, range(-rank, 0), eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def standardised(x: Value, axes: Sequence[int], eps: float) -> Value:
    """Subtract the mean along axes and divide by the standard deviation."""
    centred = x - x.mean(list(axes), keepdims=True)
    variance = (centred * centred).mean(list(axes), keepdims=True)
    return centred / (variance + eps).unary("Sqrt")


def _clamp(x: Value, min: float | None = None, max: float | None = None) -> Value:
    x = x if min is None else x.maximum(min)
    return x if max is None else x.minimum(max)


def _mean(x: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
    return x.mean(dim, keepdims=keepdim)


def _sum(x: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
    return x.sum(dim, keepdims=keepdim)


# shapes


def _cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    return concat(list(tensors), axis=dim)


def _stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    return concat([each.unsqueeze(dim) for each in tensors], axis=dim)


def flatten(x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Join neighbouring axes."""
    rank = len(x.shape)
    first, last = start_dim % rank, end_dim % rank
    joined = x.shape[first : last + 1]
    size = math.prod(each for each in joined if each != ROWS)
    if ROWS in joined and size != 1:
        raise ValueError(f"the rows of shape {x.shape} cannot be joined with other axes")
    return x.reshape(*x.shape[:first], ROWS if ROWS in joined else size, *x.shape[last + 1 :])


def _reshape(x: Value, *shape: Any) -> Value:
    sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
    if _ROW_COUNT in sizes:
        per_row = math.prod(each for each in x.shape if each != ROWS)
        known = math.prod(each for each in sizes if each not in (-1, _ROW_COUNT))
        sizes = [per_row // known if each == -1 else -1 if each is _ROW_COUNT else each for each in sizes]
    return x.reshape(*sizes)


def _squeeze(x: Value, dim: int | None = None) -> Value:
    axes = [axis for axis, size in enumerate(x.shape) if size == 1] if dim is None else [dim % len(x.shape)]
    if any(x.shape[axis] == ROWS for axis in axes):
        raise ValueError("the axis of the rows cannot be removed")
    ones = [axis for axis in axes if x.shape[axis] == 1]
    return x.squeeze(*ones) if ones else x


def _unsqueeze(x: Value, dim: int) -> Value:
    return x.unsqueeze(dim)


def _permute(x: Value, *dims: Any) -> Value:
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    return x.transpose(*(axis % len(x.shape) for axis in order))


def _transpose(x: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(x.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return x.transpose(*order)


def _same(x: Value) -> Value:
    return x


def _sizes(x: Value) -> tuple[Any, ...]:
    return tuple(_ROW_COUNT if size == ROWS else size for size in x.shape)


def _size(x: Value, dim: int | None = None) -> Any:
    return _sizes(x) if dim is None else _sizes(x)[dim]


def _attribute(x: Value, name: str) -> Any:
    if name not in ("shape", "ndim"):
        raise ValueError(f"there is no conversion of the attribute {name!r}")
    return _sizes(x) if name == "shape" else len(x.shape)


def _getitem(x: Value, index: Any) -> Value:
    """Index with slices of step 1, integers, None and Ellipsis."""
    axis = 0
    for each in _without_ellipsis(index if isinstance(index, tuple) else (index,), len(x.shape)):
        if each is None:
            x = x.unsqueeze(axis)
        elif isinstance(each, slice):
            x = _sliced(x, each, axis)
        elif isinstance(each, int) and x.shape[axis] != ROWS:
            x = x.take(_place(each, x.shape[axis]), axis)
            continue
        else:
            raise ValueError(f"the index {each!r} of axis {axis} of shape {x.shape} has no conversion")
        axis += 1
    return x


def _without_ellipsis(index: tuple[Any, ...], rank: int) -> list[Any]:
    """Replace an Ellipsis by full slices."""
    place = next((place for place, each in enumerate(index) if each is Ellipsis), None)
    if place is None:
        return list(index)
    used = sum(each is not None for each in index) - 1
    return [*index[:place], *[slice(None)] * (rank - used), *index[place + 1 :]]


def _sliced(x: Value, part: slice, axis: int) -> Value:
    if part == slice(None):
        return x
    if x.shape[axis] == ROWS or part.step not in (None, 1):
        raise ValueError(f"the slice {part} of axis {axis} of shape {x.shape} has no conversion")
    start, stop, _ = part.indices(x.shape[axis])
    return x.graph.node("Slice", x, *(x.graph.constant([each], INT64) for each in (start, stop, axis)))


def _place(index: int, size: int) -> int:
    if not -size <= index < size:
        raise ValueError(f"the index {index} is not within the size {size}")
    return index % size


_BY_NAME: dict[str, Handler] = {
    **{name: _arithmetic(getattr(operator, name)) for name in ("add", "sub", "mul", "truediv", "matmul", "pow")},
    "div": _arithmetic(operator.truediv),
    "neg": operator.neg,
    "exp": lambda x: x.unary("Exp"),
    "log": lambda x: x.unary("Log"),
    "sqrt": lambda x: x.unary("Sqrt"),
    "abs": lambda x: x.unary("Abs"),
    "tanh": lambda x: x.unary("Tanh"),
    "sigmoid": sigmoid,
    "relu": relu,
    "softplus": softplus,
    "silu": silu,
    "gelu": gelu,
    "elu": elu,
    "leaky_relu": leaky_relu,
    "softmax": softmax,
    "dropout": _dropout,
    "linear": linear,
    "layer_norm": layer_norm,
    "clamp": _clamp,
    "mean": _mean,
    "sum": _sum,
    "cat": _cat,
    "stack": _stack,
    "flatten": flatten,
    "view": _reshape,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "permute": _permute,
    "transpose": _transpose,
    "contiguous": _same,
    "size": _size,
    "dim": lambda x: len(x.shape),
    "getitem": _getitem,
}

_OWNERS = (functional, torch, operator)
FUNCTIONS: dict[Any, Handler] = {
    **{getattr(owner, name): each for owner in _OWNERS for name, each in _BY_NAME.items() if hasattr(owner, name)},
    **{getattr(operator, f"i{name}"): _BY_NAME[name] for name in ("add", "sub", "mul", "truediv", "pow")},
    getattr: _attribute,
}
METHODS = _BY_NAME

# functions and methods whose result may share its memory with their first argument
ALIASES = frozenset(
    ("view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "getitem", "dropout")
)
