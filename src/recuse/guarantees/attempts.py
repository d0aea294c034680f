"""Attempts to certify with the same calibration rows, counted and corrected for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.files.atomic import check_writable, new_file
from recuse.row_hashes import hashes_in_any_order

Hashes = NDArray[np.uint64]

FILE_NAME = "certification-attempts.json"

_FORMAT = 1
_FIRST = 0.9  # Share of delta for the first attempt.
_SKETCH = 256  # Hashes kept of each calibration set: a tenth of shared rows is then some 13 shared hashes.
_HASH_BYTES = 6
_SHARED = 0.1  # Sets that share more than this part of the smaller one count as the same rows.
_DISTINCT = 0.98  # Targets identify rows if at least this share of them is distinct.
_MOST_ATTEMPTS = 1000
_MOST_OF_PROCESS = 100
_MOST_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Attempt:
    """One test with some calibration rows.

    Attributes
    ----------
    number : int
        Counted from 1 among the attempts with these rows.
    level : float
        The probability of a wrong promise at which it is tested.
    joint_level : float
        The sum of the levels of all attempts with these rows so far.
    """

    number: int
    level: float
    joint_level: float


@dataclass(frozen=True, eq=False)
class HashedQuestion:
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
    """The attempts in a file, or those of this process.

    The log has keyed hashes of some rows of each calibration set, no cells. In a file, attempt k with the same rows is
    tested at level ``delta * share_of_delta(k)``, so the probability of any wrong promise among all of them is at most
    delta. A process forgets its attempts, so they are tested at level delta each, and certificates say how many there
    were.

    Parameters
    ----------
    path : Path or None
        None for the log of this process, which forgets its oldest attempts when it is full.
    values : dict
        The attempts so far.

    Notes
    -----
    `AttemptLog.opened` and `AttemptLog.of_process` make these objects.
    """

    def __init__(self, path: Path | None, values: dict[str, Any]) -> None:
        self.path, self._values = path, values

    @classmethod
    @contextmanager
    def of_process(cls) -> Iterator[AttemptLog]:
        """Return the log of models that were not loaded from a file; other threads wait until the block ends."""
        with _PROCESS_LOCK:
            yield _PROCESS

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

    def attempt(self, question: HashedQuestion, delta: float) -> Attempt:
        """Return the number and the level of an attempt; those of the same question if it was asked before."""
        for entry in self._values["attempts"]:
            if entry["question"] == question.key:
                return self._numbered(entry["number"], delta)
        sketch = self._sketch(question)
        same = {name for name, other in self._values["rows"].items() if _share_rows(sketch, other)}
        number = 1 + sum(entry["rows"] in same for entry in self._values["attempts"])
        if self.path is not None and len(self._values["attempts"]) >= _MOST_ATTEMPTS:
            raise ValueError(
                f"a file of attempts must have at most {_MOST_ATTEMPTS:,} of them, and {self.path} has as many: give "
                "attempts= the path of another file, for other calibration rows"
            )
        return self._numbered(number, delta)

    def _numbered(self, number: int, delta: float) -> Attempt:
        if self.path is None:
            return Attempt(number, delta, min(number * delta, 1.0))
        return Attempt(number, delta * share_of_delta(number), delta)

    def record(self, question: HashedQuestion, attempt: Attempt, result: str) -> None:
        """Note an attempt and its result, unless the question was asked before."""
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
        if self.path is None:
            self._forget_oldest()
            return
        with new_file(self.path) as file:
            file.write(json.dumps(self._values, indent=1).encode())

    def _forget_oldest(self) -> None:
        attempts = self._values["attempts"] = self._values["attempts"][-_MOST_OF_PROCESS:]
        known = {entry["rows"] for entry in attempts}
        self._values["rows"] = {name: sketch for name, sketch in self._values["rows"].items() if name in known}

    def _digest(self, data: bytes) -> str:
        return hashlib.blake2b(data, key=bytes.fromhex(self._values["key"]), digest_size=16).hexdigest()

    def _sketch(self, question: HashedQuestion) -> dict[str, str]:
        """Return the smallest keyed hashes of each kind: a random sample of the rows, alike in sets that share rows."""
        key, sketch = bytes.fromhex(self._values["key"]), {}
        for name, hashes in question.hashes.items():
            distinct = np.unique(hashes).astype("<u8")
            if name == "targets" and len(distinct) < _DISTINCT * len(hashes):
                # targets of which many are equal tell sets of rows apart together only: one hash of all, in any order
                distinct = hashes_in_any_order(hashes, np.zeros(len(hashes), np.intp)).astype("<u8")
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


def _no_attempts() -> dict[str, Any]:
    return {"format": _FORMAT, "key": secrets.token_hex(16), "rows": {}, "attempts": []}


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a file of attempts, or that of a new one."""
    if not path.exists():
        return _no_attempts()
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


_PROCESS = AttemptLog(None, _no_attempts())
_PROCESS_LOCK = threading.Lock()

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
