"""Attempts to certify with the same calibration rows, counted in a small file and corrected for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.files.atomic import check_writable, new_file

__all__ = ["FILE_NAME", "Attempt", "AttemptLog", "Question", "share_of_delta"]

Hashes = NDArray[np.uint64]

FILE_NAME = "certification-attempts.json"

_FORMAT = 1
_FIRST = 0.9  # share of delta for the first attempt
_SKETCH = 256  # Hashes kept of each calibration set: a tenth of shared rows is then some 13 shared hashes.
_HASH_BYTES = 6
_SHARED = 0.1  # Sets that share more than this part of the smaller one count as the same rows.
_DISTINCT = 0.98  # Targets identify rows if at least this share of them is distinct.
_MOST_ATTEMPTS = 1000
_MOST_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Attempt:
    """One test with some calibration rows.

    Attributes
    ----------
    number : int or None
        Counted from 1 among the attempts with these rows; None if they are not counted.
    level : float
        The probability of a wrong promise at which it is tested.
    """

    number: int | None
    level: float


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be certified, and of which rows, as hashes.

    Attributes
    ----------
    key : str
        A checksum of everything that the answer depends on: the same question has the same answer.
    model : str
        Fingerprint of the model.
    target : float
    rows : str
        Checksum of the calibration rows.
    hashes : mapping of str to ndarray of uint64 of shape (row,)
        Several hashes of each row, such as of the features that the model reads and of all cells. Two sets of rows are
        the same if they share rows by any of these.
    """

    key: str
    model: str
    target: float
    rows: str
    hashes: Mapping[str, Hashes]


def share_of_delta(number: int) -> float:
    """Return the share of delta for an attempt; those of all attempts add up to 1.

    Examples
    --------
    >>> [round(share_of_delta(k), 4) for k in (1, 2, 3)], round(sum(share_of_delta(k) for k in range(1, 10_000)), 3)
    ([0.9, 0.05, 0.0167], 1.0)
    """
    return _FIRST if number == 1 else (1 - _FIRST) / (number * (number - 1))


class AttemptLog:
    """The attempts in a file.

    The file has keyed hashes of some rows of each calibration set, no cells. Attempt k with the same rows is tested at
    level ``delta * share_of_delta(k)``, so the probability of any wrong promise among all of them is at most delta.

    Parameters
    ----------
    path : Path
    values : dict
        The content of the file.

    Notes
    -----
    `AttemptLog.opened` makes these objects.
    """

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path, self._values = path, values

    @classmethod
    @contextmanager
    def opened(cls, path: str | os.PathLike[str]) -> Iterator[AttemptLog]:
        """Lock and read the file, or start a new one; other processes wait until the block ends.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If it is not a file of attempts.
        """
        place = Path(os.path.realpath(path))
        try:
            check_writable(place)
            with _locked(place):
                yield cls(place, _read(place))
        except OSError as error:
            raise OSError(
                f"the attempts to certify are counted in {place}, which cannot be written ({error}): make the folder "
                "writable, or give attempts= the path of another file"
            ) from error

    def attempt(self, question: Question, delta: float) -> Attempt:
        """Return the number and the level of an attempt; those of the same question if it was asked before."""
        for entry in self._values["attempts"]:
            if entry["question"] == question.key:
                return Attempt(entry["number"], delta * share_of_delta(entry["number"]))
        sketch = self._sketch(question)
        same = {name for name, other in self._values["rows"].items() if _share_rows(sketch, other)}
        number = 1 + sum(entry["rows"] in same for entry in self._values["attempts"])
        if len(self._values["attempts"]) >= _MOST_ATTEMPTS:
            raise ValueError(
                f"a file of attempts must have at most {_MOST_ATTEMPTS:,} of them, and {self.path} has as many: give "
                "attempts= the path of another file, for other calibration rows"
            )
        return Attempt(number, delta * share_of_delta(number))

    def record(self, question: Question, attempt: Attempt, result: str) -> None:
        """Write an attempt and its result, unless the question was asked before."""
        if any(entry["question"] == question.key for entry in self._values["attempts"]):
            return
        rows = self._digest(question.rows.encode())
        self._values["rows"].setdefault(rows, self._sketch(question))
        self._values["attempts"].append(
            {
                "number": attempt.number,
                "question": question.key,
                "rows": rows,
                "model": question.model,
                "target": question.target,
                "level": attempt.level,
                "date": datetime.now(UTC).date().isoformat(),
                "result": result,
            }
        )
        with new_file(self.path) as file:
            file.write(json.dumps(self._values, indent=1).encode())

    def _digest(self, data: bytes) -> str:
        return hashlib.blake2b(data, key=bytes.fromhex(self._values["key"]), digest_size=16).hexdigest()

    def _sketch(self, question: Question) -> dict[str, str]:
        """Return the smallest keyed hashes of each kind: a random sample of the rows, alike in sets that share rows."""
        key, sketch = bytes.fromhex(self._values["key"]), {}
        for name, hashes in question.hashes.items():
            distinct = np.unique(hashes).astype("<u8")
            if name == "targets" and len(distinct) < _DISTINCT * len(hashes):
                continue
            data = distinct.tobytes()
            cells = (data[start : start + 8] for start in range(0, len(data), 8))
            keyed = sorted(hashlib.blake2b(cell, key=key, digest_size=_HASH_BYTES).digest() for cell in cells)
            sketch[name] = base64.b64encode(b"".join(keyed[:_SKETCH])).decode()
        return sketch


def _share_rows(one: Mapping[str, str], two: Mapping[str, str]) -> bool:
    """Whether two sets of rows have more in common than `_SHARED` of the smaller one, by any kind of hash."""
    return any(_shared_part(_hashes_of(one[name]), _hashes_of(two[name])) > _SHARED for name in one.keys() & two.keys())


def _shared_part(one: list[bytes], two: list[bytes]) -> float:
    """Estimate which part of the smaller set is in the other: up to the smaller end, both samples are complete."""
    ends = [each[-1] for each in (one, two) if len(each) == _SKETCH]
    some = [{each for each in sample if not ends or each <= min(ends)} for sample in (one, two)]
    return len(some[0] & some[1]) / max(min(map(len, some)), 1)


def _hashes_of(sketch: str) -> list[bytes]:
    data = base64.b64decode(sketch)
    return [data[start : start + _HASH_BYTES] for start in range(0, len(data), _HASH_BYTES)]


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a file of attempts, or that of a new one."""
    if not path.exists():
        return {"format": _FORMAT, "key": secrets.token_hex(16), "rows": {}, "attempts": []}
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        values = json.loads(path.read_bytes())
        _check(values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise ValueError(
            f"{path} must be a file of attempts to certify, and cannot be read as one: restore it, since without it "
            "earlier attempts are not counted"
        ) from error
    return dict(values)


def _check(values: Any) -> None:
    """Raise an error unless all values have the right types."""
    bytes.fromhex(values["key"])
    sound = values["format"] == _FORMAT and len(values["key"]) == 32
    for sketch in values["rows"].values():
        sound = sound and all(len(base64.b64decode(each, validate=True)) % _HASH_BYTES == 0 for each in sketch.values())
    for entry in values["attempts"]:
        sound = sound and type(entry["number"]) is int and entry["number"] >= 1 and entry["rows"] in values["rows"]
        sound = sound and isinstance(entry["question"], str)
    if not sound:
        raise ValueError("it has a wrong value")


if sys.platform == "win32":

    @contextmanager
    def _locked(path: Path) -> Iterator[None]:
        """Lock a file beside the path, since a folder cannot be locked."""
        import msvcrt

        with path.with_name(f".{path.name}.lock").open("ab") as file:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            yield

else:

    @contextmanager
    def _locked(path: Path) -> Iterator[None]:
        """Lock the folder of the path; closing it releases the lock."""
        import fcntl

        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
