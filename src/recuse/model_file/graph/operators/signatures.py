"""Types and shapes of tensors, and the rule of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = [
    "BOOL",
    "DOUBLE",
    "FLOAT",
    "INT64",
    "IR_VERSION",
    "MAX_RANK",
    "ML_DOMAIN",
    "ML_OPSET",
    "OPSET",
    "ROWS",
    "STRING",
    "UINT8",
    "Attributes",
    "Rule",
    "Shape",
    "Signature",
    "broadcast",
    "check_count",
    "of_type",
    "same_type",
]

OPSET, ML_OPSET, IR_VERSION = 21, 5, 10
ROWS = -1  # the number of rows, which is known only when the graph runs
ML_DOMAIN = "ai.onnx.ml"

MAX_RANK = 6

DOUBLE, FLOAT, INT64, BOOL, STRING, UINT8 = "double", "float", "int64", "bool", "string", "uint8"

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
    attributes : tuple of str
        Names of the attributes that it may have.
    domain : str
    outputs : int
        Number of outputs; a second one has the shape of the first and type int64.
    """

    infer: Callable[[Sequence[Signature], Attributes], Signature]
    attributes: tuple[str, ...] = ()
    domain: str = ""
    outputs: int = 1


def broadcast(*shapes: Shape) -> Shape:
    """Return the common shape of tensors, by the rules of numpy.

    Examples
    --------
    >>> broadcast((ROWS, 1), (3,))
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


def same_type(inputs: Sequence[Signature], allowed: Sequence[str]) -> str:
    """Return the common type of the inputs, which must be an allowed one."""
    types = {each.dtype for each in inputs}
    if len(types) != 1 or not types <= set(allowed):
        raise ValueError(f"inputs must all be of one type among {list(allowed)}, got {[each.dtype for each in inputs]}")
    return types.pop()


def check_count(inputs: Sequence[Signature], least: int, most: int | None = None) -> None:
    """Check the number of inputs: `least` or, with `most`, between the two."""
    most = least if most is None else most
    if not least <= len(inputs) <= most:
        raise ValueError(f"number of inputs must be {least} to {most}, got {len(inputs)}")


def of_type(one: Signature, allowed: Sequence[str]) -> Signature:
    """Return the signature if it has an allowed type."""
    same_type([one], allowed)
    return one
