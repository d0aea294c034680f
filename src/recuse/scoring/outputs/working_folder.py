"""The hidden folder beside an output, in which the finished parts of a run outlive an interruption."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recuse.scoring.summary import PartSummary

__all__ = ["PartStore", "check_unchanged", "fingerprint", "input_facts", "working_folder"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, which the operating system reports without a name
_EDGE = 2**16  # bytes at both ends of an input that are part of its fingerprint


def input_facts(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return what identifies the input files: path, size, time of change, and the hash of both ends."""
    return [_facts(Path(path)) for path in paths]


def check_unchanged(facts: Sequence[dict[str, Any]]) -> None:
    """Raise an error if an input file is not the one that `input_facts` described."""
    for each in facts:
        if _facts(Path(each["path"])) != each:
            raise ValueError(f"{each['path']} was changed during the run: start it again")


def _facts(path: Path) -> dict[str, Any]:
    status = path.stat()
    with path.open("rb") as file:
        edges = file.read(_EDGE)
        file.seek(max(0, status.st_size - _EDGE))
        edges += file.read()
    checksum = hashlib.sha256(edges).hexdigest()
    return {"path": str(path.resolve()), "bytes": status.st_size, "changed": status.st_mtime_ns, "edges": checksum}


def fingerprint(facts: dict[str, Any]) -> str:
    """Return a checksum of everything that the output depends on.

    Examples
    --------
    >>> fingerprint({"cost": 6.0}) == fingerprint({"cost": 7.0})
    False
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@contextmanager
def working_folder(output: Path, facts: dict[str, Any]) -> Iterator[PartStore]:
    """Lock the folder for the parts of an output, and remove it when the block ends.

    It stays if the block is interrupted, or cannot write, after the first part.
    Parts of an earlier run with the same facts are used, parts of other runs are removed.

    Parameters
    ----------
    output : Path
        The file or the folder that the run writes.
    facts : dict
        Everything that the output depends on, as plain values.

    Raises
    ------
    BlockingIOError
        If another run is writing the same output.
    """
    folder = output.parent / f".{output.name[:200]}.recuse"
    key = fingerprint(facts)[:32]
    with _locked(folder, output):
        for other in folder.iterdir():
            if other.is_dir() and other.name != key:
                shutil.rmtree(other)
        store = PartStore(folder / key)
        try:
            store.folder.mkdir(exist_ok=True)
            write_whole(folder / "manifest.json", json.dumps({"run": key, **facts}, indent=1).encode())
            yield store
        except BaseException as error:
            # data that cannot be used leave nothing to continue
            if isinstance(error, ValueError) or not store.has_parts:
                shutil.rmtree(folder)
            if isinstance(error, OSError) and error.errno in _FULL:
                raise OSError(error.errno, f"{output} cannot be written: {error.strerror}") from error
            raise
        shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path, output: Path) -> Iterator[None]:
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the other run removed its folder just now
            continue
        try:
            if not _try_lock(lock):
                raise BlockingIOError(f"another run is writing {output}: wait for it, or give another output")
            if not _is_same(lock, folder / "lock"):  # the other run ended while this one waited
                continue
            yield
            return
        finally:
            os.close(lock)  # this releases the lock


def _is_same(file: int, path: Path) -> bool:
    return path.exists() and os.stat(file).st_ino == path.stat().st_ino


if sys.platform == "win32":

    def _try_lock(file: int) -> bool:
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _try_lock(file: int) -> bool:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:  # such as a full disk, on which the rest would take space
        temporary.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class PartStore:
    """Finished parts of a run: a file with the rows of each, and one with its summary and checksum.

    Attributes
    ----------
    folder : Path
    """

    folder: Path

    @property
    def has_parts(self) -> bool:
        """Whether there is a finished part."""
        return any(self.folder.glob("*.json"))

    def path(self, number: int) -> Path:
        """Return the path of the rows of a part."""
        return self.folder / f"{number:07d}.part"

    def save(self, number: int, data: Any, summary: PartSummary) -> None:
        """Store a part; its summary is written last, so a part with a summary is complete."""
        write_whole(self.path(number), data)
        facts = {"checksum": zlib.crc32(data), "bytes": len(data), "summary": summary.to_dict()}
        write_whole(self._summary_path(number), json.dumps(facts).encode())

    def load(self, number: int) -> PartSummary | None:
        """Return the summary of a part; None if the part is not there or not complete."""
        try:
            facts = json.loads(self._summary_path(number).read_bytes())
            data = self.path(number).read_bytes()
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        if len(data) != facts["bytes"] or zlib.crc32(data) != facts["checksum"]:
            return None
        return PartSummary.from_dict(facts["summary"])

    def finished(self) -> dict[int, PartSummary]:
        """Return the summaries of the complete parts by number."""
        numbers = sorted(int(path.stem) for path in self.folder.glob("*.json"))
        loaded = {number: self.load(number) for number in numbers}
        return {number: summary for number, summary in loaded.items() if summary is not None}

    def _summary_path(self, number: int) -> Path:
        return self.folder / f"{number:07d}.json"
