"""Reading and writing of the container of a model file: a checked header and checked parts.

The layout of a file, with little-endian numbers:

========  ==========================================================================
bytes     content
========  ==========================================================================
0 - 7     magic bytes, which a transfer as text would change
8 - 39    SHA-256 of everything that follows
40 - 43   version of the format
44 - 71   version of the library that wrote the file, ASCII, padded with zero bytes
72 - 79   length of the header
80 - 87   length of all parts together
88 -      header (JSON), then the parts one after the other
========  ==========================================================================

All versions of the format start with the first 72 bytes of this layout.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recuse._version import __version__
from recuse.files.atomic import new_file
from recuse.model_file.errors import ModelFileError

__all__ = [
    "FORMAT_VERSION",
    "MAX_HEADER",
    "MAX_RAW",
    "parse_container",
    "read_bytes",
    "read_container",
    "write_container",
]

FORMAT_VERSION = 1
MAX_HEADER = 2**24  # bytes; feature names and categories of wide tables stay far below
MAX_HEADER_VALUES = 1_000_000  # a value of JSON takes up to 64 bytes of memory but only 2 bytes of a file
MAX_NESTING = 32
MAX_RAW = 2**28  # bytes of all parts; file, parts and parsed graph then fit into 1 GiB together
MAX_PARTS = 64

_MAGIC = b"\x89RCU\r\n\x1a\n"
_PREAMBLE = struct.Struct("<8s32sI28sQQ")
_CHECKED_FROM = 40  # first byte that the checksum covers
_MAX_FILE = _PREAMBLE.size + MAX_HEADER + MAX_RAW
_PART_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_PART_FIELDS = {"name": str, "stored": int, "raw": int, "compression": str, "sha256": str}
_LEVEL = 3  # all levels inflate at the same speed; 6 takes two to four times as long to write for 1 to 4 % of the size
_WORTHWHILE = 0.9  # a part that shrinks by less than a tenth is stored as it is, because that loads faster
_PIECE = 2**16  # bytes inflated at once; a piece can grow by a factor of about 1,000

Parts = dict[str, bytes]


def write_container(path: str | os.PathLike[str], header: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write a header and parts to a file, as a whole or not at all.

    Equal headers and parts give equal files.

    Parameters
    ----------
    path : path-like
        An existing file is replaced.
    header : mapping
        Content that JSON can hold.
    parts : mapping of str to bytes
        Names consist of lower-case letters, digits, "_", "-" and ".".

    Raises
    ------
    ModelFileError
        If the header or a part is too large or has content that the format does not allow.
    OSError
        If the file cannot be written; the message says why.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_container(f"{folder.name}/model.recuse", {"target": "price"}, {"graph": b"..."})
    >>> read_container(f"{folder.name}/model.recuse")
    ({'target': 'price'}, {'graph': b'...'})
    >>> folder.cleanup()
    """
    pieces = _contents(Path(path).name, header, parts)
    with new_file(path) as file:
        file.writelines(pieces)


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Parts]:
    """Read the header and the parts of a file, after checking all its checksums.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    header : dict
    parts : dict of str to bytes

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, too large, or of a newer version.
    OSError
        If the file cannot be read; the message says why.
    """
    return parse_container(read_bytes(path), Path(path).name)


def parse_container(data: bytes, name: str) -> tuple[dict[str, Any], Parts]:
    """Return the header and the parts of the content of a file, after checking all its checksums.

    Parameters
    ----------
    data : bytes
    name : str
        Name of the file in errors.
    """
    _check_magic(data, name)
    if len(data) < _PREAMBLE.size:
        raise ModelFileError(f"{name} is cut off after {len(data)} bytes: copy the file again")
    _, checksum, version, library, header_length, parts_length = _PREAMBLE.unpack_from(data)
    if hashlib.sha256(memoryview(data)[_CHECKED_FROM:]).digest() != checksum:
        expected = _PREAMBLE.size + header_length + parts_length
        found = (
            f"is cut off after {len(data)} of {expected} bytes" if len(data) < expected <= _MAX_FILE else "is damaged"
        )
        raise ModelFileError(f"{name} {found} (its checksum does not fit): copy the file again")
    reader = _READERS.get(version)
    if reader is None:
        raise ModelFileError(_unknown_version(name, version, library))
    return reader(data, name)


def _contents(name: str, header: Mapping[str, Any], parts: Mapping[str, bytes]) -> list[bytes]:
    """Return the preamble, the header and the stored parts."""
    total = sum(len(raw) for raw in parts.values())
    if total > MAX_RAW or len(parts) > MAX_PARTS:
        raise ModelFileError(
            f"{name} would hold {total} bytes in {len(parts)} parts, more than {MAX_RAW} bytes in {MAX_PARTS} parts: "
            "save a smaller model"
        )
    stored, listed = [], []
    for part, raw in parts.items():
        if not _PART_NAME.fullmatch(part):
            raise ModelFileError(f"{name}: the part name {part!r} must match {_PART_NAME.pattern}")
        compression, data = _compress(bytes(raw))
        fields = (part, len(data), len(raw), compression, hashlib.sha256(data).hexdigest())
        listed.append(dict(zip(_PART_FIELDS, fields, strict=True)))
        stored.append(data)
    try:
        text = json.dumps({"header": dict(header), "parts": listed}, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{name}: the header must hold JSON values only ({error})") from error
    encoded = text.encode("ascii")
    _parse_json(encoded, name)
    preamble = _PREAMBLE.pack(
        _MAGIC, b"", FORMAT_VERSION, __version__.encode("ascii")[:28], len(encoded), sum(map(len, stored))
    )
    checksum = hashlib.sha256(preamble[_CHECKED_FROM:])
    for piece in (encoded, *stored):
        checksum.update(piece)
    return [_MAGIC + checksum.digest() + preamble[_CHECKED_FROM:], encoded, *stored]


def _compress(raw: bytes) -> tuple[str, bytes]:
    smaller = zlib.compress(raw, _LEVEL)
    return ("zlib", smaller) if len(smaller) < _WORTHWHILE * len(raw) else ("none", raw)


def read_bytes(name: str | os.PathLike[str]) -> bytes:
    """Read a regular file of bounded size."""
    path = Path(name)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path} is a folder: give the path of a model file")
        if not stat.S_ISREG(mode):
            raise ModelFileError(f"{path.name} is not a regular file: give the path of a model file")
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _MAX_FILE:
                raise ModelFileError(f"{path.name} has {size} bytes, more than the {_MAX_FILE} of any model file")
            return file.read(size)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} does not exist: check the path of the model file") from error
    except PermissionError as error:
        raise PermissionError(f"{path} cannot be read: no permission") from error


_HINTS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), hint)
    for pattern, hint in (
        (rb"(.|\xef\xbf\xbd|\xc2\x89)?RCU\r*\n?", "was changed by a transfer as text: copy it again as binary"),
        (rb"\x80[\x02-\x05]", "is a pickle, which is not loaded because it could run code: save the model again"),
        (rb"PK(\x03\x04|\x05\x06)", "is a ZIP archive (perhaps a PyTorch file): unpack it or choose another file"),
        (rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd", "is a compressed file: unpack it first"),
        (rb"\x08[\x01-\x20][\x12\x1a\x22\x2a\x32\x3a\x42]", "is a bare ONNX file: load it with onnxruntime"),
        (rb"\x89HDF|\x93NUMPY|PAR1|\x89PNG", "is a file of data: give the path of a model file"),
        (rb"\s*<(!doctype|html|\?xml|head|body)", "is a web page, perhaps of a failed download: download it again"),
        (rb"version https://git-lfs", "is a pointer of Git LFS: fetch the file with git lfs pull"),
        (rb"[\t\n\r\x20-\x7e]{1,64}", "is a text file: give the path of a model file"),
    )
)


def _check_magic(data: bytes, name: str) -> None:
    if data.startswith(_MAGIC):
        return
    if not data:
        raise ModelFileError(f"{name} is empty: copy the file again")
    start = data[:64]
    for pattern, hint in _HINTS:
        found = pattern.match(start.lower() if b"doctype" in pattern.pattern else start)
        if found and (b"\\x7e" not in pattern.pattern or found.end() == len(start)):
            raise ModelFileError(f"{name} is not a model file of recuse: it {hint}")
    raise ModelFileError(
        f"{name} is not a model file of recuse: it starts with the bytes {start[:8].hex(' ')} and must start with "
        f"{_MAGIC.hex(' ')}"
    )


def _unknown_version(name: str, version: int, library: bytes) -> str:
    text = library.rstrip(b"\0").decode("ascii", "replace")
    by = f" ({text})" if re.fullmatch(r"[0-9A-Za-z.+!-]{1,28}", text) else ""
    if version < FORMAT_VERSION:
        return f"{name} has format version {version}, which never existed: save the model again"
    return (
        f"{name} has format version {version}, written by a newer recuse{by} than the installed {__version__}, which "
        f"reads up to version {FORMAT_VERSION}: pip install --upgrade recuse"
    )


def _read_version_1(data: bytes, name: str) -> tuple[dict[str, Any], Parts]:
    *_, header_length, parts_length = _PREAMBLE.unpack_from(data)
    if header_length > MAX_HEADER:
        raise ModelFileError(f"{name}: the header has {header_length} bytes, more than {MAX_HEADER}")
    start = _PREAMBLE.size + header_length
    if start + parts_length != len(data):
        raise ModelFileError(f"{name} has {len(data)} bytes, but its header and parts have {start + parts_length}")
    content = _parse_json(data[_PREAMBLE.size : start], name)
    if not isinstance(content, dict) or set(content) != {"header", "parts"} or not isinstance(content["header"], dict):
        raise ModelFileError(f"{name}: the header must have the objects 'header' and 'parts'")
    listed = _listed_parts(content["parts"], parts_length, name)
    parts = {}
    view = memoryview(data)
    for part in listed:
        stored = view[start : start + part["stored"]]
        start += part["stored"]
        if hashlib.sha256(stored).hexdigest() != part["sha256"]:
            raise ModelFileError(f"{name}: the checksum of part {part['name']!r} does not fit: copy the file again")
        parts[part["name"]] = _inflate(stored, part, name)
    return content["header"], parts


def _listed_parts(listed: Any, parts_length: int, name: str) -> list[dict[str, Any]]:
    """Return the description of the parts if it is complete, bounded and without gaps."""
    if not isinstance(listed, list) or len(listed) > MAX_PARTS:
        raise ModelFileError(f"{name}: the parts must be a list of at most {MAX_PARTS}")
    for part in listed:
        if not isinstance(part, dict) or {key: type(value) for key, value in part.items()} != _PART_FIELDS:
            raise ModelFileError(f"{name}: each part must have the fields {', '.join(_PART_FIELDS)}")
        if not _PART_NAME.fullmatch(part["name"]):
            raise ModelFileError(f"{name}: the part name {part['name'][:64]!r} must match {_PART_NAME.pattern}")
        if part["stored"] < 0 or not 0 <= part["raw"] <= MAX_RAW:
            sizes = f"{part['stored']} stored and {part['raw']} raw bytes"
            raise ModelFileError(f"{name}: part {part['name']!r} declares {sizes}, not 0 to {MAX_RAW}")
        if part["compression"] not in ("none", "zlib"):
            raise ModelFileError(
                f"{name}: part {part['name']!r} has the unknown compression {part['compression'][:64]!r}"
            )
    if len({part["name"] for part in listed}) != len(listed):
        raise ModelFileError(f"{name}: the names of the parts must be different")
    stored, raw = (sum(part[field] for part in listed) for field in ("stored", "raw"))
    if stored != parts_length or raw > MAX_RAW:
        raise ModelFileError(
            f"{name}: the parts have {parts_length} bytes and declare {stored}, and {raw} after inflation "
            f"(at most {MAX_RAW})"
        )
    return listed


def _inflate(stored: memoryview, part: Mapping[str, Any], name: str) -> bytes:
    """Return the raw bytes of a part; stop as soon as there are more than declared."""
    size = part["raw"]
    if part["compression"] == "none":
        if len(stored) != size:
            raise ModelFileError(f"{name}: part {part['name']!r} has {len(stored)} bytes and declares {size}")
        return bytes(stored)
    inflater, result = zlib.decompressobj(), io.BytesIO()
    try:
        for place in range(0, len(stored), _PIECE):
            result.write(inflater.decompress(stored[place : place + _PIECE], size - result.tell() + 1))
            if result.tell() > size or inflater.unused_data or inflater.unconsumed_tail:
                raise ModelFileError(f"{name}: part {part['name']!r} has more than the {size} bytes that it declares")
    except zlib.error as error:
        raise ModelFileError(
            f"{name}: part {part['name']!r} cannot be inflated ({error}): save the model again"
        ) from error
    if not inflater.eof or result.tell() != size:
        raise ModelFileError(f"{name}: part {part['name']!r} has {result.tell()} bytes and declares {size}")
    return result.getvalue()


def _parse_json(data: bytes, name: str) -> Any:
    """Parse strict JSON: finite numbers, no key twice, valid text, bounded size and nesting."""
    if len(data) > MAX_HEADER or sum(map(data.count, (b",", b"[", b"{"))) > MAX_HEADER_VALUES:
        raise ModelFileError(f"{name}: the header has more than {MAX_HEADER} bytes or {MAX_HEADER_VALUES} values")
    try:
        content = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite
        )
        _check_values(content)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise ModelFileError(f"{name}: the header is not strict JSON ({reason}): save the model again") from error
    return content


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:32]} is too large")
    return number


def _check_values(content: Any) -> None:
    """Check that nesting is bounded and that all text has a valid encoding."""
    level, depth = [content], 0
    while level:
        depth += 1
        if depth > MAX_NESTING:
            raise ValueError(f"nested more than {MAX_NESTING} times")
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                value.encode("utf-8")
            elif isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        level = below


_READERS: Mapping[int, Callable[[bytes, str], tuple[dict[str, Any], Parts]]] = {1: _read_version_1}
