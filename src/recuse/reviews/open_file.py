"""The file of an open queue: whether its path still leads to it, and whether it is a queue."""

from __future__ import annotations

import os
from pathlib import Path

from recuse.reviews.database import APPLICATION, SCHEMA_VERSION
from recuse.reviews.errors import QueueUnavailable

__all__ = ["OpenFile"]

_HEADER = 100  # bytes of the header of an SQLite file
_MAGIC = b"SQLite format 3\0"
_MARKS = ((60, SCHEMA_VERSION), (68, APPLICATION))  # places of the user version and of the application


class OpenFile:
    """A queue that is open, as a file.

    SQLite goes on writing to a file that was deleted or replaced, and to a damaged one as long as it needs nothing of
    the damaged part. What it writes is lost.

    Parameters
    ----------
    path : Path
        A file that `prepare` checked.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, path.with_name(path.name + "-wal")
        # open until `close`: to close any descriptor of a file ends the locks that SQLite has on it in this process
        self._file = path.open("rb", buffering=0)
        self._opened = os.fstat(self._file.fileno())

    def check(self) -> None:
        """Raise a QueueUnavailable if what is written to the queue would be lost."""
        if self._file.closed:
            raise QueueUnavailable("the review queue is closed")
        try:
            found = self._path.stat()
        except FileNotFoundError as error:
            raise QueueUnavailable(f"the review queue cannot be used: its file {self._path} was deleted") from error
        except OSError as error:
            raise QueueUnavailable(f"the review queue cannot be used: {error}") from error
        if not os.path.samestat(found, self._opened):
            raise QueueUnavailable(
                f"the review queue cannot be used: its file {self._path} was replaced by another; restart the service"
            )
        self._check_header()

    def check_log(self) -> None:
        """Raise a QueueUnavailable if the log that a transaction is written to was deleted."""
        if not self._log.exists():
            raise QueueUnavailable(f"the review queue cannot be used: its file {self._log} was deleted")

    def close(self) -> None:
        """Close the file; no connection to it may be open."""
        self._file.close()

    def _check_header(self) -> None:
        try:
            header = os.pread(self._file.fileno(), _HEADER, 0)
        except OSError as error:
            raise QueueUnavailable(f"the review queue cannot be used: {error}") from error
        marks = [(place, int.from_bytes(header[place : place + 4], "big")) for place, _ in _MARKS]
        if not header.startswith(_MAGIC) or marks != list(_MARKS):
            raise QueueUnavailable(f"the review queue cannot be used: its file {self._path} is damaged")
