"""The hidden folder beside an output: what its key depends on, and the finished parts that outlive an interruption."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import stat
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from recuse._version import __version__
from recuse.files.atomic import create_file
from recuse.scoring.inputs import part_rows
from recuse.scoring.plan import ScoringPlan
from recuse.scoring.summary import ScoringSummary

_LIBRARIES = ("numpy", "onnxruntime", "onnxruntime-gpu", "pandas", "pyarrow")
# Bytes at both ends of an input that are part of its facts.
_EDGE = 2**16
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, which the operating system reports without a name
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)  # what systems report of a folder that has files
_OWNER_FOLDER, _OWNER_FILE = 0o700, 0o600
_READABLE = 0o600  # parts are read and written again, whatever the permissions of the output
_WRITABLE_BY_OTHERS = 0o022
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
_ADVICE = "remove it, or give another output"
_RUN = re.compile(r"[0-9a-f]{32}")
_FILE_OF_FOLDER = re.compile(r"lock|manifest\.json|\.manifest\.json\.[0-9a-f]{8}")
_FILE_OF_RUN = re.compile(
    r"\d{7,}\.(part|json)|\.\d{7,}\.(part|json)\.[0-9a-f]{8}|\d+\.((csv|tsv)(\.gz)?|parquet|arrow)"
)


def run_facts(
    plan: ScoringPlan, inputs: list[dict[str, Any]], columns: Sequence[int], *, folder: bool
) -> dict[str, Any]:
    """Return everything that the output depends on, as plain values.

    Parameters
    ----------
    plan : ScoringPlan
    inputs : list of dict
        The result of `input_facts`; no two runs over standard input, which has no facts, are the same.
    columns : sequence of int
        Numbers of columns that are read, which determine the sizes of parts.
    folder : bool
        Whether the output is a folder.
    """
    libraries = {name: [each.version for each in distributions(name=name)][:1] for name in _LIBRARIES}
    machine = f"{platform.system()} {platform.machine()}"
    python = {"python": platform.python_version(), "zlib": zlib.ZLIB_RUNTIME_VERSION, "machine": machine}
    planned = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return {
        "plan": {**planned, "model": plan.model.checksum},
        "inputs": inputs or secrets.token_hex(16),
        "folder": folder,
        "part_rows": [part_rows(count) for count in columns],
        "versions": {"recuse": __version__, **python, **libraries},
    }


def input_facts(paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Return what identifies the input files: path, size, times of changes, and the hash of both ends."""
    facts = []
    for path in map(Path, paths):
        status = path.stat()
        with path.open("rb") as file:
            edges = file.read(_EDGE)
            file.seek(max(0, status.st_size - _EDGE))
            checksum = hashlib.sha256(edges + file.read()).hexdigest()
        times = {"changed": status.st_mtime_ns, "status_changed": status.st_ctime_ns}
        facts.append({"path": str(path.resolve()), "bytes": status.st_size, "edges": checksum, **times})
    return facts


def check_unchanged(facts: Sequence[dict[str, Any]]) -> None:
    """Raise an error if the content of an input file is not that which `input_facts` described."""
    for old, new in zip(facts, input_facts([each["path"] for each in facts]), strict=True):
        if {**new, "status_changed": None} != {**old, "status_changed": None}:
            raise ValueError(f"{old['path']} was changed during the run: start it again")


def write_whole(path: Path, data: Any, mode: int | None = None) -> None:
    """Write a small file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with create_file(temporary, mode) as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:  # such as a full disk, on which the rest would take space
        temporary.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class PartStore:
    """Finished parts of a run: a file with the rows of each, and one with its summary and checksum.

    The checksum is the SHA-256 of the key of the run, the number, the summary and the rows of the part, so that the
    rows of another part or of another run are not used.

    Attributes
    ----------
    folder : Path
    key : str
        The key of the run.
    mode : int or None
        Permissions of the files; None for those of any new file.
    """

    folder: Path
    key: str = ""
    mode: int | None = None

    def path(self, number: int) -> Path:
        """Return the path of the rows of a part; that of its summary ends with .json."""
        return self.folder / f"{number:07d}.part"

    def save(self, number: int, data: Any, summary: ScoringSummary) -> None:
        """Store a part; its summary is written last, so a part with a summary is complete."""
        write_whole(self.path(number), data, self.mode)
        plain = asdict(summary)
        facts = {"checksum": self._checksum(number, plain, data), "summary": plain}
        write_whole(self.path(number).with_suffix(".json"), json.dumps(facts).encode(), self.mode)

    def load(self, number: int) -> ScoringSummary | None:
        """Return the summary of a part; None if the part is not there, or not as this run wrote it."""
        try:
            facts = json.loads(self.path(number).with_suffix(".json").read_bytes())
            expected = self._checksum(number, facts["summary"], self.path(number).read_bytes())
            return ScoringSummary.from_dict(facts["summary"]) if facts["checksum"] == expected else None
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def finished(self) -> dict[int, ScoringSummary]:
        """Return the summaries of the complete parts by number."""
        numbers = sorted(int(path.stem) for path in self.folder.glob("*.json"))
        loaded = {number: self.load(number) for number in numbers}
        return {number: summary for number, summary in loaded.items() if summary is not None}

    def _checksum(self, number: int, summary: Any, data: Any) -> str:
        facts = json.dumps([self.key, number, summary], sort_keys=True)
        digest = hashlib.sha256(facts.encode() + b"\n")
        digest.update(data)
        return digest.hexdigest()


@contextmanager
def working_folder(output: Path, facts: dict[str, Any], mode: int | None = None) -> Iterator[PartStore]:
    """Lock the folder for the parts of an output, and remove it when the block ends.

    It stays if the block is interrupted, or cannot write, after the first part.
    Parts of an earlier run with the same facts are used, parts of other runs are removed. Only files with names that
    runs write are removed.

    Parameters
    ----------
    output : Path
        The file or the folder that the run writes.
    facts : dict
        Everything that the output depends on, as plain values.
    mode : int, optional
        Permissions of the parts; by default those of any new file.

    Raises
    ------
    BlockingIOError
        If another run is writing the same output.
    OSError
        If something else has the name of the folder, or is in it, or if other users can write to it.
    """
    folder = output.parent / f".{output.name[:200]}.recuse"
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    with _locked(folder, output):
        for other in folder.iterdir():
            if _RUN.fullmatch(other.name) and other.name != key[:32]:
                _remove_files(other, _FILE_OF_RUN)
        store = PartStore(folder / key[:32], key, None if mode is None else mode | _READABLE)
        try:
            store.folder.mkdir(_OWNER_FOLDER, exist_ok=True)
            write_whole(folder / "manifest.json", json.dumps({"run": key, **facts}, indent=1).encode(), _OWNER_FILE)
            yield store
        except BaseException as error:
            # data that cannot be used leave nothing to continue
            if isinstance(error, ValueError) or not any(store.folder.glob("*.json")):
                _remove(folder)
            if isinstance(error, OSError) and error.errno in _FULL:
                raise OSError(error.errno, f"{output} cannot be written: {error.strerror}") from error
            raise
        _remove(folder)


def _make(folder: Path) -> None:
    """Make the working folder, or check that an existing one is a folder of this user alone.

    Raises
    ------
    OSError
        If it is a link or a file, or if it belongs to another user, or if others can write to it.
    """
    try:
        folder.mkdir(_OWNER_FOLDER)
        return
    except FileExistsError:
        status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        kind = "link" if stat.S_ISLNK(status.st_mode) else "file"
        raise NotADirectoryError(f"{folder} is a {kind}, not a folder of an earlier run: {_ADVICE}")
    if sys.platform != "win32":
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user ({status.st_uid}): {_ADVICE}")
        if status.st_mode & _WRITABLE_BY_OTHERS:
            mode = stat.S_IMODE(status.st_mode)
            raise PermissionError(f"others can write to {folder}, a folder of mode {mode:o}: {_ADVICE}")
    folder.chmod(_OWNER_FOLDER)


def _foreign(folder: Path) -> str | None:
    """Return the name of an entry of a working folder that no run wrote; None if there is none."""
    for entry in sorted(folder.iterdir()):
        names = _FILE_OF_FOLDER
        files = [entry]
        if _RUN.fullmatch(entry.name) and stat.S_ISDIR(entry.lstat().st_mode):
            files, names = sorted(entry.iterdir()), _FILE_OF_RUN
        for file in files:
            if not (names.fullmatch(file.name) and stat.S_ISREG(file.lstat().st_mode)):
                return str(file.relative_to(folder))
    return None


def _remove(folder: Path) -> None:
    """Remove the files and folders of runs; what no run wrote stays, and a warning names it."""
    for run in folder.iterdir():
        if _RUN.fullmatch(run.name) and stat.S_ISDIR(run.lstat().st_mode):
            _remove_files(run, _FILE_OF_RUN)
    foreign = _foreign(folder)
    _remove_files(folder, _FILE_OF_FOLDER)
    if foreign is not None:
        warnings.warn(f"{folder} was not removed: it has {foreign}, which no run wrote", UserWarning, stacklevel=2)


def _remove_files(folder: Path, names: re.Pattern[str]) -> None:
    """Remove the files with names of runs from a folder, and then the folder itself if it is empty."""
    while True:
        entries = list(folder.iterdir())
        own = [each for each in entries if names.fullmatch(each.name) and (each.is_symlink() or not each.is_dir())]
        for entry in own:
            entry.unlink(missing_ok=True)
        if len(own) < len(entries):
            return
        try:
            folder.rmdir()
            return
        except OSError as error:
            if error.errno not in _NOT_EMPTY:  # otherwise a worker of a cluster has just written one more part
                raise


@contextmanager
def _locked(folder: Path, output: Path) -> Iterator[None]:
    while True:
        try:
            _make(folder)
            if (foreign := _foreign(folder)) is not None:
                raise FileExistsError(
                    f"{folder} has {foreign}, which no run wrote: move it to another place, or give another output"
                )
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | _NO_LINK, _OWNER_FILE)
        except FileNotFoundError:  # the other run removed its folder just now
            continue
        try:
            if not _try_lock(lock):
                raise BlockingIOError(f"another run is writing {output}: wait for it, or give another output")
            path = folder / "lock"
            if not path.exists() or os.fstat(lock).st_ino != path.stat().st_ino:
                continue  # the other run ended while this one waited
            yield
            return
        finally:
            os.close(lock)  # this releases the lock


def _try_lock(file: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        lock, held = partial(msvcrt.locking, file, msvcrt.LK_NBLCK, 1), OSError
    else:
        import fcntl

        lock, held = partial(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB), BlockingIOError
    try:
        lock()
    except held:
        return False
    return True
