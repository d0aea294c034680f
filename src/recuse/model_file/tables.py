"""Plain tables as bytes: a description in JSON, then the columns as little-endian arrays."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.model_file.errors import ModelFileError

__all__ = ["MAX_COLUMNS", "MAX_TEXT", "MAX_TEXTS", "Column", "pack_table", "unpack_table"]

MAX_COLUMNS = 10_000
MAX_TEXTS = 1_000_000  # values of text in a table; each takes at least 50 bytes of memory
MAX_TEXT = 2**24  # bytes of text in a table; a byte can take 4 bytes of memory

_LENGTH = struct.Struct("<I")
_MAX_DESCRIPTION = 2**22
_NUMBERS: Mapping[str, np.dtype[Any]] = {"float64": np.dtype("<f8"), "int64": np.dtype("<i8"), "bool": np.dtype("u1")}
_LENGTHS = np.dtype("<i4")  # length of each text in bytes; -1 for a missing text

Column: TypeAlias = NDArray[Any] | list[str | None]


def pack_table(columns: Mapping[str, ArrayLike]) -> bytes:
    """Return a table as bytes.

    Parameters
    ----------
    columns : mapping of str to array-like
        Columns of numbers, of truth values, or of text, all of the same length. None and NaN stand for missing text.

    Examples
    --------
    >>> data = pack_table({"cost": [0.5, 1.0], "name": ["a", None]})
    >>> unpack_table(data)
    {'cost': array([0.5, 1. ]), 'name': ['a', None]}
    """
    described, pieces = [], []
    for name, values in columns.items():
        array = np.asarray(values)
        if array.ndim != 1:
            raise ValueError(f"column {name!r} must have one axis, got shape {array.shape}")
        kind, data = _pack_column(name, array)
        described.append({"name": name, "type": kind, "rows": len(array), "bytes": len(data)})
        pieces.append(data)
    if len({each["rows"] for each in described}) > 1:
        raise ValueError(f"columns must have the same length, got {[each['rows'] for each in described][:10]}")
    description = json.dumps(described, separators=(",", ":")).encode("ascii")
    packed = b"".join([_LENGTH.pack(len(description)), description, *pieces])
    _description(packed)
    return packed


def unpack_table(data: bytes) -> dict[str, Column]:
    """Return the columns of a table: arrays of numbers and truth values, lists of text.

    Parameters
    ----------
    data : bytes
        Result of `pack_table`.

    Raises
    ------
    ModelFileError
        If the bytes are not a valid table.

    Examples
    --------
    >>> unpack_table(pack_table({"kept": [True, False]}))
    {'kept': array([ True, False])}
    """
    described, place = _description(data)
    table: dict[str, Column] = {}
    for each in described:
        piece = memoryview(data)[place : place + each["bytes"]]
        place += each["bytes"]
        table[each["name"]] = _unpack_column(piece, each)
    return table


def _pack_column(name: str, array: NDArray[Any]) -> tuple[str, bytes]:
    if array.dtype.kind == "b":
        return "bool", array.astype(_NUMBERS["bool"]).tobytes()
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"column {name!r} has integers that do not fit into 64 bits with a sign")
        return "int64", array.astype(_NUMBERS["int64"]).tobytes()
    if array.dtype.kind == "f":
        return "float64", array.astype(_NUMBERS["float64"]).tobytes()
    if array.dtype.kind not in "OUT":
        raise TypeError(f"column {name!r} must hold numbers, truth values or text, got type {array.dtype}")
    texts = [_encoded(name, value) for value in array.tolist()]
    lengths = np.array([-1 if text is None else len(text) for text in texts], dtype=_LENGTHS)
    return "text", lengths.tobytes() + b"".join(text for text in texts if text is not None)


def _encoded(name: str, value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8")
    if value is None or (isinstance(value, float) and np.isnan(value)) or type(value).__name__ == "NAType":
        return None
    raise TypeError(f"column {name!r} must hold text, got {value!r}")


def _description(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the description of the columns and the place where they start, after checking all sizes."""
    length = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else _MAX_DESCRIPTION + 1
    start = _LENGTH.size + length
    if length > _MAX_DESCRIPTION or start > len(data):
        raise ModelFileError(f"a table of {len(data)} bytes is cut off or its description is too long")
    try:
        described = json.loads(data[_LENGTH.size : start].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError("the description of a table is not valid JSON") from error
    fields = {"name": str, "type": str, "rows": int, "bytes": int}
    if not isinstance(described, list) or len(described) > MAX_COLUMNS:
        raise ModelFileError(f"a table must have a list of at most {MAX_COLUMNS} columns")
    for each in described:
        if not isinstance(each, dict) or {key: type(value) for key, value in each.items()} != fields:
            raise ModelFileError(f"each column of a table must have the fields {', '.join(fields)}")
        _check_size(each)
    if len({each["name"] for each in described}) != len(described):
        raise ModelFileError("the names of the columns of a table must be different")
    if len({each["rows"] for each in described}) > 1:
        raise ModelFileError("the columns of a table must have the same length")
    total = sum(each["bytes"] for each in described)
    if start + total != len(data):
        raise ModelFileError(f"the columns of a table have {len(data) - start} bytes and declare {total}")
    texts = [each for each in described if each["type"] == "text"]
    values, size = (sum(each[field] for each in texts) for field in ("rows", "bytes"))
    if values > MAX_TEXTS or size > MAX_TEXT + values * _LENGTHS.itemsize:
        raise ModelFileError(f"a table has {values} texts of {size} bytes, at most {MAX_TEXTS} of {MAX_TEXT} fit")
    return described, start


def _check_size(each: Mapping[str, Any]) -> None:
    name, kind, rows, size = (each[field] for field in ("name", "type", "rows", "bytes"))
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ModelFileError("a column of a table has a name that is not valid text") from error
    if kind != "text" and kind not in _NUMBERS:
        raise ModelFileError(f"column {name[:64]!r} of a table has the unknown type {kind[:64]!r}")
    least = rows * (_LENGTHS if kind == "text" else _NUMBERS[kind]).itemsize
    if rows < 0 or size < least or (kind != "text" and size != least):
        raise ModelFileError(f"column {name[:64]!r} of a table has {rows} rows in {size} bytes, which do not fit")


def _unpack_column(piece: memoryview, each: Mapping[str, Any]) -> Column:
    if each["type"] == "text":
        return _unpack_text(piece, each)
    array = np.frombuffer(piece, dtype=_NUMBERS[each["type"]])
    if each["type"] == "bool":
        if np.any(array > 1):
            raise ModelFileError(f"column {each['name'][:64]!r} of a table must hold truth values")
        return array.astype(np.bool_)
    return array.astype(array.dtype.newbyteorder("="))


def _unpack_text(piece: memoryview, each: Mapping[str, Any]) -> list[str | None]:
    heads = each["rows"] * _LENGTHS.itemsize
    lengths = np.frombuffer(piece[:heads], dtype=_LENGTHS).astype(np.int64)
    if np.any(lengths < -1) or int(np.maximum(lengths, 0).sum()) != len(piece) - heads:
        raise ModelFileError(f"column {each['name'][:64]!r} of a table has texts of wrong length")
    texts: list[str | None] = []
    place = heads
    try:
        for length in lengths.tolist():
            texts.append(None if length < 0 else str(piece[place : place + length], "utf-8"))
            place += max(length, 0)
    except UnicodeDecodeError as error:
        raise ModelFileError(f"column {each['name'][:64]!r} of a table has text that is not UTF-8") from error
    return texts
