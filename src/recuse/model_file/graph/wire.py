"""Strict reading of the few protobuf messages that graphs of model files consist of.

The parser of `onnx` takes up to 100 times the memory of the bytes it reads, and it accepts fields that nobody looks at.
This reader accepts only known fields in their shortest encoding, and it bounds how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.errors import ModelFileError

# The time to open a session grows faster than the nodes: 3 s for so many.
MAX_NODES = 10_000
# Most inputs and attributes of a node, and most texts and integers of an attribute. Trees have the most of them.
_MAX_INPUTS, _MAX_ATTRIBUTES, _MAX_TEXTS, _MAX_INTEGERS = 100_000, 13, 500_000, 2_000_000
# So many integers are read one by one, and further ones with numpy, from so many bytes at once.
_FEW, _PIECE = 32, 2**20
_VARINT, _BYTES = 0, 2


@dataclass(frozen=True)
class Message:
    """A message with the fields that it may have, by number."""

    name: str
    fields: Mapping[int, Field]


@dataclass(frozen=True)
class Field:
    """A field: its name, its type ("int", "text", "bytes" or a message) and how often it may occur."""

    name: str
    kind: str | Message
    most: int = 1


_TENSOR = Message(
    "tensor",
    {
        1: Field("dims", "int", 16),
        2: Field("data_type", "int"),
        8: Field("name", "text"),
        9: Field("raw_data", "bytes"),
    },
)
_ATTRIBUTE = Message(
    "attribute",
    {
        1: Field("name", "text"),
        3: Field("i", "int"),
        5: Field("t", _TENSOR),
        8: Field("ints", "int", _MAX_INTEGERS),
        9: Field("strings", "text", _MAX_TEXTS),
        20: Field("type", "int"),
    },
)
NODE = Message(
    "node",
    {
        1: Field("input", "text", _MAX_INPUTS),
        2: Field("output", "text", 2),
        3: Field("name", "text"),
        4: Field("op_type", "text"),
        5: Field("attribute", _ATTRIBUTE, _MAX_ATTRIBUTES),
        7: Field("domain", "text"),
    },
)
_DIMENSION = Message("dimension", {1: Field("value", "int"), 2: Field("param", "text")})
_SHAPE = Message("shape", {1: Field("dim", _DIMENSION, 16)})
_TENSOR_TYPE = Message("type of a tensor", {1: Field("elem_type", "int"), 2: Field("shape", _SHAPE)})
_TYPE = Message("type", {1: Field("tensor", _TENSOR_TYPE)})
_VALUE = Message("input or output", {1: Field("name", "text"), 2: Field("type", _TYPE)})
_GRAPH = Message(
    "graph",
    {
        # Each node is read when it is checked, so that the values of one node are in memory at a time.
        1: Field("node", "bytes", MAX_NODES),
        2: Field("name", "text"),
        5: Field("initializer", _TENSOR, 2 * MAX_NODES),
        11: Field("input", _VALUE, MAX_NODES),
        12: Field("output", _VALUE, MAX_NODES),
    },
)
_OPSET = Message("opset", {1: Field("domain", "text"), 2: Field("version", "int")})
MODEL = Message(
    "model",
    {
        1: Field("ir_version", "int"),
        2: Field("producer_name", "text"),
        7: Field("graph", _GRAPH),
        8: Field("opset_import", _OPSET, 8),
    },
)


def read_message(data: memoryview, message: Message) -> dict[str, Any]:
    """Return the fields of a message by name.

    Fields that may occur once are missing if they do not occur. Other fields are lists; integers are arrays.

    Raises
    ------
    ModelFileError
        If the bytes are not a message of known fields.
    """
    result: dict[str, Any] = {
        field.name: np.zeros(0, dtype=np.int64) if field.kind == "int" else []
        for field in message.fields.values()
        if field.most > 1
    }
    place = 0
    while place < len(data):
        tag, after = _varint(data, place, message)
        field = _field(message, tag)
        if field.most == 1 and field.name in result:
            raise _invalid(message, f"has the field {field.name} twice")
        if field.kind == "int" and field.most > 1:
            if len(result[field.name]):
                raise _invalid(message, f"has values of the field {field.name} in two places")
            result[field.name], place = _integers(data, place, field, message)
            continue
        value, place = _value(data, after, field, message)
        if field.most == 1:
            result[field.name] = value
        else:
            result[field.name].append(value)
            if len(result[field.name]) > field.most:
                raise _invalid(message, f"has more than {field.most} of the field {field.name}")
    return result


def _invalid(message: Message, reason: str) -> ModelFileError:
    return ModelFileError(f"the graph is not valid: its {message.name} {reason}; save the model again")


def _field(message: Message, tag: int) -> Field:
    number, wire = tag >> 3, tag & 7
    field = message.fields.get(number)
    if field is None:
        raise _invalid(message, f"has the field {number}, which is not allowed")
    if wire != (_VARINT if field.kind == "int" else _BYTES):
        raise _invalid(message, f"has the field {field.name} of the wrong type")
    return field


def _varint(data: memoryview, place: int, message: Message) -> tuple[int, int]:
    """Return the unsigned number at a place, and the place after it."""
    if place < len(data) and data[place] < 128:
        return data[place], place + 1
    value = 0
    for count in range(min(10, len(data) - place)):
        byte = data[place + count]
        value |= (byte & 127) << (7 * count)
        if byte < 128:
            if byte == 0 or value >= 2**64:
                break
            return value, place + count + 1
    raise _invalid(message, "has a number that is cut off, too long or too large")


def _value(data: memoryview, place: int, field: Field, message: Message) -> tuple[Any, int]:
    number, place = _varint(data, place, message)
    if field.kind == "int":
        return _signed(number), place
    if number > len(data) - place:
        raise _invalid(message, f"is cut off in the field {field.name}")
    content, place = data[place : place + number], place + number
    if isinstance(field.kind, Message):
        return read_message(content, field.kind), place
    if field.kind == "bytes":
        return content, place
    try:
        return str(content, "utf-8"), place
    except UnicodeDecodeError as error:
        raise _invalid(message, f"has the field {field.name} with text that is not UTF-8") from error


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _integers(data: memoryview, place: int, field: Field, message: Message) -> tuple[NDArray[np.int64], int]:
    """Return the integers of all fields with the tag at a place that follow one another, and the place after them."""
    tag, first = data[place], list[int]()
    while place < len(data) and data[place] == tag and len(first) < _FEW:
        number, place = _varint(data, place + 1, message)
        first.append(_signed(number))
    pieces, count = [np.array(first, dtype=np.int64)], len(first)
    while place < len(data) and data[place] == tag and count <= field.most:
        values, length = _many_integers(data[place : place + _PIECE], tag, message)
        if length == 0:
            raise _invalid(message, "has a number that is cut off")
        pieces.append(values)
        place, count = place + length, count + len(values)
    if count > field.most:
        raise _invalid(message, f"has more than {field.most} values of the field {field.name}")
    return np.concatenate(pieces), place


def _many_integers(data: memoryview, tag: int, message: Message) -> tuple[NDArray[np.int64], int]:
    """Read the integers that are complete, and the length of their bytes.

    Numbers end at bytes below 128, and every second number is the tag.
    """
    taken = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(taken < 128)
    ends = ends[: len(ends) // 2 * 2]
    starts = np.concatenate([np.array([0], dtype=ends.dtype), ends[:-1] + 1])
    tags = (starts[::2] == ends[::2]) & (taken[ends[::2]] == tag)
    count = len(tags) if tags.all() else int(np.argmin(tags))
    start, end = starts[1 : 2 * count : 2], ends[1 : 2 * count : 2]
    length = end - start + 1
    last = taken[end]
    if np.any(length > 10) or np.any((length > 1) & (last == 0)) or np.any((length == 10) & (last > 1)):
        raise _invalid(message, "has a number that is too long or too large")
    values = np.zeros(count, dtype=np.uint64)
    for byte in range(int(length.max(initial=0))):
        longer = length > byte
        part = taken[start[longer] + byte].astype(np.uint64) & np.uint64(127)
        values[longer] |= part << np.uint64(7 * byte)
    return values.view(np.int64), int(end[-1]) + 1 if count else 0
