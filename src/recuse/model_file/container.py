"""Model files are ZIP archives: writing them as a whole or not at all, and reading them after all checks.

An archive has these entries in this order; the arrays may be missing:

=========================  ================================================================================
entry                      content
=========================  ================================================================================
``header.json``            what the file says about the model, and the version of the format
``graph.onnx``             the decision as an ONNX graph
``out_of_fold.npy``        out-of-fold results, double precision, (column, row)
``training_hashes.npy``    hashes of the distinct training rows, 64 bits each
``training_repeated.npy``  whether several training rows have the hash
=========================  ================================================================================

The comment of the archive is the SHA-256, as hexadecimal digits, of all bytes before it. Names, sizes and content of
the entries decide all other bytes, and a file with other bytes is refused: nothing hides between the entries, and all
programs see the same ones. `zipfile` of Python accepts such files, and takes 0.03 s to import.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse._version import __version__
from recuse.files.atomic import new_file
from recuse.model_file.errors import ModelFileError

FORMAT_VERSION = 1
HEADER, GRAPH, OUT_OF_FOLD = "header.json", "graph.onnx", "out_of_fold.npy"
TRAINING_HASHES, TRAINING_REPEATED = "training_hashes.npy", "training_repeated.npy"

# Feature names and categories of wide tables have far fewer bytes.
MAX_HEADER = 2**24
# A value of JSON takes up to 64 bytes of memory but only two bytes of a file.
MAX_HEADER_VALUES = 1_000_000
MAX_NESTING = 32
# Bytes of all entries but the header. File, entries and the parsed graph then fit into 1 GiB together.
MAX_ENTRIES = 2**28

_NAMES = (HEADER, GRAPH, OUT_OF_FOLD, TRAINING_HASHES, TRAINING_REPEATED)
_MAX_FILE = MAX_HEADER + MAX_ENTRIES + 2**12
# Level 6 inflates at the same speed, takes two to four times as long to write, and saves 1% to 4% of the bytes.
_LEVEL = 3
# An entry that shrinks by less than a tenth is stored as it is, because that loads faster.
_WORTHWHILE = 0.9

# Structures of ZIP archives (APPNOTE.TXT of PKWARE, 4.3.7, 4.3.12 and 4.3.16).
_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")
_STORED, _DEFLATED, _ZIP_VERSION = 0, 8, 20
# All entries have the date 1 January 1980, so that equal models give equal files.
_DATE = 33
# Length of the comment.
_DIGITS = 64

# Type and number of axes of each array.
_ARRAYS: Mapping[str, tuple[str, int]] = {
    OUT_OF_FOLD: ("<f8", 2),
    TRAINING_HASHES: ("<u8", 1),
    TRAINING_REPEATED: ("|b1", 1),
}
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(...)', 'fortran_order': False, 'shape': \((\d{1,10}),(?: (\d{1,10}))?\), \} *\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class ZipEntry:
    """An entry of a ZIP archive.

    Attributes
    ----------
    name : str
    method : int
        0 if the content is stored as it is, 8 if it is deflated.
    crc : int
        CRC-32 of the content.
    size : int
        Bytes of the content.
    stored : bytes or memoryview
        The content as it is in the archive.
    """

    name: str
    method: int
    crc: int
    size: int
    stored: bytes | memoryview

    @classmethod
    def of(cls, name: str, content: bytes) -> ZipEntry:
        """Return the entry of a content, deflated if that saves a tenth."""
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        smaller = deflate.compress(content) + deflate.flush()
        worthwhile = len(smaller) < _WORTHWHILE * len(content)
        method, stored = (_DEFLATED, smaller) if worthwhile else (_STORED, content)
        return cls(name, method, zlib.crc32(content), len(content), stored)

    def content(self) -> bytes:
        """Return the content if it has the size and the CRC-32 of the entry; inflate no more bytes than that."""
        data, complete = bytes(self.stored), True
        if self.method == _DEFLATED:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                data = inflater.decompress(self.stored, self.size + 1)
            except zlib.error as error:
                raise ModelFileError(f"cannot inflate {self.name} ({error}): save the model again") from error
            complete = inflater.eof and not inflater.unused_data
        if len(data) != self.size or not complete or zlib.crc32(data) != self.crc:
            raise ModelFileError(f"has another {self.name} than it declares: save the model again")
        return data


def pack_zip(entries: Sequence[ZipEntry]) -> list[bytes | memoryview]:
    """Return the pieces of a ZIP archive; only the digits of its comment are missing.

    Examples
    --------
    >>> import zipfile
    >>> pieces = pack_zip([ZipEntry.of("header.json", b"{}")])
    >>> zipfile.ZipFile(io.BytesIO(b"".join(pieces) + bytes(64))).namelist()
    ['header.json']
    """
    pieces: list[bytes | memoryview] = []
    directory, place = b"", 0
    for entry in entries:
        name = entry.name.encode()
        fields = (_ZIP_VERSION, 0, entry.method, 0, _DATE, entry.crc, len(entry.stored), entry.size, len(name), 0)
        head = _LOCAL.pack(b"PK\3\4", *fields) + name
        directory += _CENTRAL.pack(b"PK\1\2", _ZIP_VERSION, *fields, 0, 0, 0, 0, place) + name
        place += len(head) + len(entry.stored)
        pieces += [head, entry.stored]
    end = _END.pack(b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), place, _DIGITS)
    return [*pieces, directory + end]


def write_container(path: str | os.PathLike[str], header: Mapping[str, Any], entries: Mapping[str, bytes]) -> None:
    """Write a header and other entries to a model file, as a whole or not at all.

    Equal headers and entries give equal files.

    Parameters
    ----------
    path : path-like
        An existing file is replaced.
    header : mapping
        Content that JSON can hold.
    entries : mapping of str to bytes

    Raises
    ------
    ModelFileError
        If the header or the entries are too large or have content that the format does not allow.
    OSError
        If the file cannot be written; the message says why.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_container(f"{folder.name}/model.recuse", {"target": "price"}, {"graph.onnx": b"..."})
    >>> read_container(f"{folder.name}/model.recuse")[:2]
    ({'target': 'price'}, {'graph.onnx': b'...'})
    >>> folder.cleanup()
    """
    name, total = Path(path).name, sum(map(len, entries.values()))
    if total > MAX_ENTRIES:
        raise ModelFileError(f"{name} would hold {total} bytes, more than {MAX_ENTRIES}: save a smaller model")
    try:
        text = _json({"format": FORMAT_VERSION, **header})
        _parse_json(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} needs a header of strict JSON ({error})") from error
    contents = {HEADER: text, **entries}
    pieces = pack_zip([ZipEntry.of(each, contents.pop(each)) for each in _NAMES if each in contents])
    if contents:
        raise ModelFileError(f"{name} cannot have the entries {sorted(contents)}")
    checksum = hashlib.sha256()
    for piece in pieces:
        checksum.update(piece)
    with new_file(path) as file:
        file.writelines([*pieces, checksum.hexdigest().encode()])


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes], str]:
    """Read the header and the other entries of a model file, after checking its checksum and its structure.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    header : dict
    entries : dict of str to bytes
    digest : str
        SHA-256 of the whole file.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, too large, or of a newer version.
    OSError
        If the file cannot be read; the message says why.
    """
    data = read_bytes(path)
    try:
        _check_origin(data)
        entries = _entries(data)
        header = _header(entries)
        _check_structure(entries, data)
        return header, {entry.name: entry.content() for entry in entries[1:]}, hashlib.sha256(data).hexdigest()
    except ModelFileError as error:
        raise ModelFileError(f"{Path(path).name} {error}") from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a regular file of bounded size."""
    path = Path(path)
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


_FOREIGN = (
    ((b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5"), "a pickle, which could run code: save the model again"),
    ((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"), "a compressed file: unpack it first"),
    ((b"\x08",), "a bare ONNX file: load it with onnxruntime"),
    ((b"<",), "a web page, perhaps of a failed download: download the file again"),
    ((b"version https://git-lfs",), "a pointer of Git LFS: fetch the file with git lfs pull"),
)


def _check_origin(data: bytes) -> None:
    """Check that the bytes are a ZIP archive with the checksum of a model file."""
    if not data:
        raise ModelFileError("is empty: copy the file again")
    if not data.startswith(b"PK"):
        hints = [hint for starts, hint in _FOREIGN if data.startswith(starts)]
        raise ModelFileError(
            f"is not a model file of recuse but {hints[0] if hints else f'a file that starts with {data[:12]!r}'}"
        )
    end = data[-_DIGITS - _END.size : -_DIGITS]
    if not end.startswith(b"PK\5\6") or not end.endswith(_DIGITS.to_bytes(2, "little")):
        raise ModelFileError(
            f"ends after {len(data)} bytes without the checksum of a model file: it was cut off or changed, or it is "
            "another ZIP archive; copy the file again"
        )
    if hashlib.sha256(memoryview(data)[:-_DIGITS]).hexdigest().encode() != data[-_DIGITS:]:
        raise ModelFileError("is damaged (its checksum does not fit): copy the file again")


def _entries(data: bytes) -> list[ZipEntry]:
    """Return the entries as their own heads describe them, not yet checked."""
    entries: list[ZipEntry] = []
    place, view = 0, memoryview(data)
    while data.startswith(b"PK\3\4", place) and place + _LOCAL.size <= len(data) and len(entries) <= len(_NAMES):
        _, _, _, method, _, _, crc, length, size, name_length, _ = _LOCAL.unpack_from(data, place)
        start = place + _LOCAL.size + name_length
        name = data[place + _LOCAL.size : start].decode("ascii", "replace")
        entries.append(ZipEntry(name, method, crc, size, view[start : start + length]))
        place = start + length
    return entries


def _header(entries: Sequence[ZipEntry]) -> dict[str, Any]:
    """Return the header, if the file is of a version of the format that can be read."""
    if not entries or entries[0].name != HEADER or entries[0].size > MAX_HEADER:
        raise ModelFileError(f"does not start with {HEADER} of at most {MAX_HEADER} bytes: save the model again")
    text = entries[0].content()
    try:
        header = _parse_json(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise ModelFileError(f"has a header that is not strict JSON ({reason}): save the model again") from error
    version = header.pop("format", None) if isinstance(header, dict) else None
    if type(version) is not int or version < 1:
        raise ModelFileError("has a header without the version of the format: save the model again")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"has format version {version}, written by a newer recuse ({header.get('recuse')!s:.28}) than the "
            f"installed {__version__}, which reads up to version {FORMAT_VERSION}: pip install --upgrade recuse"
        )
    return dict(header)


def _check_structure(entries: Sequence[ZipEntry], data: bytes) -> None:
    """Check that the file has exactly the bytes that are written for its entries."""
    names = [entry.name for entry in entries]
    if names != [name for name in _NAMES if name in names]:
        short = [name[:32] for name in names]
        raise ModelFileError(f"has the entries {short}, not some of {list(_NAMES)} in this order")
    total = sum(entry.size for entry in entries[1:])
    if total > MAX_ENTRIES:
        raise ModelFileError(f"declares entries of {total} bytes, more than {MAX_ENTRIES}")
    place = 0
    for piece in pack_zip(entries):
        if not data.startswith(piece, place):
            raise ModelFileError(f"is not laid out as model files are, at byte {place}: save the model again")
        place += len(piece)
    if place != len(data) - _DIGITS or any(entry.method not in (_STORED, _DEFLATED) for entry in entries):
        raise ModelFileError("is not laid out as model files are: save the model again")


def _json(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _parse_json(data: bytes) -> Any:
    """Parse JSON as it is written here: finite numbers, no key twice, valid text, bounded size and nesting."""
    if len(data) > MAX_HEADER or sum(map(data.count, (b",", b"[", b"{"))) > MAX_HEADER_VALUES:
        raise ValueError(f"more than {MAX_HEADER} bytes or {MAX_HEADER_VALUES} values")
    content = json.loads(data)
    _check_nesting(content, MAX_NESTING)
    if _json(content) != data:
        raise ValueError("a key twice, or values that are written in another way")
    return content


def _check_nesting(content: Any, left: int) -> None:
    if left == 0:
        raise ValueError(f"nested more than {MAX_NESTING} times")
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    for each in inner:
        _check_nesting(each, left - 1)


def pack_array(name: str, values: ArrayLike) -> bytes:
    """Return an array as the content of an entry with the ending ".npy".

    Examples
    --------
    >>> data = pack_array("training_hashes.npy", [3, 5])
    >>> unpack_array("training_hashes.npy", data)
    array([3, 5], dtype=uint64)
    """
    file = io.BytesIO()
    array = np.ascontiguousarray(values, dtype=_ARRAYS[name][0])
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def unpack_array(name: str, data: bytes) -> NDArray[Any]:
    """Return the array of an entry, of the type and the number of axes that the entry must have.

    The description of the array is compared with its expected text, not evaluated.

    Raises
    ------
    ModelFileError
        If the bytes are not such an array.
    """
    dtype, axes = np.dtype(_ARRAYS[name][0]), _ARRAYS[name][1]
    found = _NPY.match(data[:256])
    shape = tuple(int(size) for size in found.groups()[1:] if size is not None) if found else ()
    rest = data[found.end() :] if found else b""
    if found is None or found[1].decode() != dtype.str or len(shape) != axes:
        raise ModelFileError(f"{name} must be an array of type {dtype.str} with {axes} axes: save the model again")
    too_large = dtype.kind == "b" and np.frombuffer(rest, np.uint8).max(initial=0) > 1
    if len(rest) != math.prod(shape) * dtype.itemsize or too_large:
        raise ModelFileError(f"{name} of shape {shape} has {len(rest)} bytes or values that do not fit")
    return np.frombuffer(rest, dtype).reshape(shape).astype(dtype.newbyteorder("="))
