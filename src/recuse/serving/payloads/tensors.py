"""Tensors of the Open Inference Protocol: as JSON, and as bytes after the JSON of a body.

The protocol and its binary extension are specified at https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.serving.errors import RequestError, shown
from recuse.serving.payloads.records import finite

__all__ = ["Tensor", "json_tensor", "raw_bytes", "read_tensors"]

_NUMBERS = {
    "BOOL": "?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "<i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_CELLS: dict[str, tuple[type, ...]] = {"BOOL": (bool,), "BYTES": (str,), "FP": (int, float)}
_LENGTH = struct.Struct("<I")
_MOST_AXES = 8


@dataclass(frozen=True)
class Tensor:
    """A tensor of a request.

    Attributes
    ----------
    name : str
    shape : tuple of int
    datatype : str
    cells : list or ndarray
        All cells, row by row; None for missing ones. Numbers that were sent as bytes are an array.
    """

    name: str
    shape: tuple[int, ...]
    datatype: str
    cells: list[Any] | NDArray[Any]

    def columns(self) -> list[list[Any]]:
        """Return the cells of the columns of a tensor with two axes, as plain values."""
        if isinstance(self.cells, np.ndarray):
            plain: list[list[Any]] = self.cells.reshape(self.shape).T.tolist()
            return plain
        return [self.cells[place :: self.shape[1]] for place in range(self.shape[1])]

    def column(self) -> list[Any]:
        """Return all cells as plain values."""
        return self.cells.tolist() if isinstance(self.cells, np.ndarray) else self.cells

    def rows(self) -> NDArray[Any]:
        """Return the cells in their shape; text and missing cells as objects."""
        if isinstance(self.cells, np.ndarray):
            return self.cells.reshape(self.shape)
        dtype = _NUMBERS.get(self.datatype, object)
        kept = object if any(cell is None for cell in self.cells) else dtype
        return np.array(self.cells, dtype=kept).reshape(self.shape)


def read_tensors(inputs: Any, raw: bytes, check_shape: Callable[[tuple[int, ...]], None]) -> list[Tensor]:
    """Read the inputs of a request; `raw` are the bytes after the JSON of its body.

    `check_shape` raises a RequestError for tensors that are too large, before their cells are read.
    """
    if not isinstance(inputs, list) or not inputs:
        raise RequestError(400, "inputs must be a list of tensors, at least one")
    tensors, place = [], 0
    cells: list[Any] | NDArray[Any]
    for each in inputs:
        name, shape, datatype = _described(each)
        check_shape(shape)
        size = (each.get("parameters") or {}).get("binary_data_size")
        if size is None:
            cells = _json_cells(each.get("data"), name, datatype)
        else:
            if type(size) is not int or not 0 <= size <= len(raw) - place:
                raise RequestError(400, f"input {name!r:.80} must be within the {len(raw)} bytes after the JSON")
            cells = _raw_cells(raw[place : place + size], name, datatype, math.prod(shape))
            place += size
        if len(cells) != math.prod(shape):
            raise RequestError(400, f"input {name!r:.80} must have {math.prod(shape)} values, got {len(cells)}")
        tensors.append(Tensor(name, shape, datatype, cells))
    if place != len(raw):
        raise RequestError(400, f"the inputs declare {place} of the {len(raw)} bytes after the JSON")
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise RequestError(400, "inputs must have different names")
    return tensors


def _described(tensor: Any) -> tuple[str, tuple[int, ...], str]:
    """Return the checked name, shape and datatype of a tensor."""
    if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
        raise RequestError(400, "each input must be an object with name, shape, datatype and data")
    name, shape, datatype = tensor["name"], tensor.get("shape"), tensor.get("datatype")
    sizes = shape if isinstance(shape, list) and 1 <= len(shape) <= _MOST_AXES else [-1]
    if not all(type(size) is int and 1 <= size < 2**31 for size in sizes):
        raise RequestError(
            400, f"input {name!r:.80} must have a shape of 1 to {_MOST_AXES} sizes > 0, got {shown(shape)}"
        )
    if not isinstance(datatype, str) or (datatype != "BYTES" and datatype not in _NUMBERS):
        known = ", ".join(["BYTES", *_NUMBERS])
        raise RequestError(400, f"input {name!r:.80} must have a datatype of {known}, got {shown(datatype)}")
    if not isinstance(tensor.get("parameters") or {}, dict):
        raise RequestError(400, f"the parameters of input {name!r:.80} must be an object")
    return name, tuple(sizes), datatype


def _json_cells(data: Any, name: str, datatype: str) -> list[Any]:
    if not isinstance(data, list):
        raise RequestError(400, f"input {name!r:.80} must have its values in the list data")
    cells = list(_flat(data, _MOST_AXES))
    kinds = _CELLS.get(datatype, _CELLS["FP"] if datatype.startswith("FP") else (int,))
    wrong = [cell for cell in cells if cell is not None and type(cell) not in kinds]
    if not wrong and "INT" in datatype:
        limits = np.iinfo(_NUMBERS[datatype])
        wrong = [cell for cell in cells if cell is not None and not limits.min <= cell <= limits.max]
    if wrong:
        raise RequestError(400, f"input {name!r:.80} of type {datatype} cannot hold {shown(wrong[0])}")
    return cells


def _flat(data: list[Any], depth: int) -> Iterator[Any]:
    if depth < 0:
        raise RequestError(400, f"data may be nested {_MOST_AXES} times at most")
    for value in data:
        if isinstance(value, list):
            yield from _flat(value, depth - 1)
        else:
            yield value


def _raw_cells(raw: bytes, name: str, datatype: str, count: int) -> list[Any] | NDArray[Any]:
    if datatype == "BYTES":
        return [_text(cell, name) for cell in islice(_raw_texts(raw, name), count + 1)]
    dtype = np.dtype(_NUMBERS[datatype])
    if len(raw) % dtype.itemsize:
        raise RequestError(
            400, f"input {name!r:.80} must have whole values of {dtype.itemsize} bytes, got {len(raw)} bytes"
        )
    return np.frombuffer(raw, dtype)


def _raw_texts(raw: bytes, name: str) -> Iterator[bytes]:
    """Yield texts that are preceded by their lengths."""
    place = 0
    while place < len(raw):
        start = place + _LENGTH.size
        if start > len(raw) or (end := start + _LENGTH.unpack_from(raw, place)[0]) > len(raw):
            raise RequestError(400, f"input {name!r:.80} ends within a text")
        yield raw[start:end]
        place = end


def _text(cell: bytes, name: str) -> str:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"input {name!r:.80} must be text in UTF-8: {error!s:.80}") from error


def json_tensor(name: str, values: NDArray[Any], datatype: str) -> dict[str, Any]:
    """Return an output as JSON; numbers that JSON does not have are null.

    Examples
    --------
    >>> json_tensor("score", np.array([0.5, np.inf]), "FP64")
    {'name': 'score', 'datatype': 'FP64', 'shape': [2], 'data': [0.5, None]}
    """
    cells: Iterable[Any] = values.ravel().tolist()
    data = [finite(cell) if datatype == "FP64" else cell for cell in cells]
    return {"name": name, "datatype": datatype, "shape": list(values.shape), "data": data}


def raw_bytes(values: NDArray[Any], datatype: str) -> bytes:
    r"""Return the bytes of an output.

    Examples
    --------
    >>> raw_bytes(np.array([True, False]), "BOOL")
    b'\x01\x00'
    """
    if datatype == "BYTES":
        texts = [text.encode() for text in values.tolist()]
        return b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return values.astype(_NUMBERS[datatype]).tobytes()
