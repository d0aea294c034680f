"""Files that are written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

_PERMISSIONS = 0o777


@contextmanager
def new_file(path: str | os.PathLike[str], *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file beside the path, and put it in the place of the path when the block ends without an error.

    Parameters
    ----------
    path : path-like
        An existing file is replaced; a link is followed.
    mode : int, optional
        Permissions of the file; by default those of the existing file, or else those of any new file.

    Raises
    ------
    OSError
        If the file cannot be written, or if the path is a device or a pipe; the message says why.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(Path(folder) / "notes.txt") as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "notes.txt").read_text()
    'whole'
    """
    target = Path(os.path.realpath(path))
    _check_place(target)
    temporary = target.parent / f".{target.name[:200]}.{secrets.token_hex(4)}.tmp"
    with _named_errors(target):
        try:
            with draft_file(temporary, mode_of(target) if mode is None else mode) as file:
                yield file
            publish(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def create_file(path: Path, mode: int | None = None) -> BinaryIO:
    """Open a file that does not exist yet for writing; nobody can open it before it has its mode.

    Parameters
    ----------
    path : Path
    mode : int, optional
        Permissions; by default those of any new file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags, 0o666 if mode is None else mode), "wb")
    if mode is not None:  # the umask may have taken some permissions
        path.chmod(mode)
    return file


@contextmanager
def draft_file(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """Create a file as `create_file` does, and write it to the disk when the block ends; `publish` renames it."""
    with create_file(path, mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def mode_of(path: Path) -> int | None:
    """Return the permissions of a file; None if it does not exist.

    Examples
    --------
    >>> mode_of(Path("no/such/file")) is None
    True
    """
    try:
        return path.stat().st_mode & _PERMISSIONS
    except FileNotFoundError:
        return None


def publish(draft: Path, target: Path) -> None:
    """Rename the file of `draft_file` to its final name; the name survives a loss of power when this returns."""
    draft.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Write the names of new files of a folder to the disk, as far as the operating system can."""
    if sys.platform == "win32":  # folders cannot be opened there
        return
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may be written but not listed
        return
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot do this
            raise
    finally:
        os.close(file)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error if a file cannot be written at this path; nothing is changed there.

    Examples
    --------
    >>> check_writable("no/such/folder/model.recuse")
    Traceback (most recent call last):
    FileNotFoundError: model.recuse cannot be written: the folder ...no/such/folder does not exist
    """
    target = Path(os.path.realpath(path))
    _check_place(target)
    with _named_errors(target), TemporaryFile(dir=target.parent):
        pass


def _check_place(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the path of a file in it")
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is a device or a pipe, which cannot be replaced: give the path of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.name} cannot be written: the folder {target.parent} does not exist")


@contextmanager
def _named_errors(target: Path) -> Iterator[None]:
    """Name the file in errors of the operating system."""
    try:
        yield
    except PermissionError as error:
        raise PermissionError(f"{target} cannot be written: no permission to write to {target.parent}") from error
    except OSError as error:
        if error.errno is None:  # raised by the block with its own message
            raise
        raise OSError(error.errno, f"{target} cannot be written: {error.strerror}") from error
