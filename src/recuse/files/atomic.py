"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

__all__ = ["check_writable", "new_file"]

_PERMISSIONS = 0o777


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside the path, and put it in the place of the path when the block ends without an error.

    Parameters
    ----------
    path : path-like
        An existing file is replaced and keeps its mode; a link is followed.

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
            with temporary.open("xb") as file:
                if target.exists():
                    temporary.chmod(target.stat().st_mode & _PERMISSIONS)
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


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
