"""The SQLite file of a review queue: schema, transactions, deletion of old rows, and whether it is still the queue."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from recuse.phrases import counted
from recuse.reviews.filesystems import check_local
from recuse.reviews.results import QueueUnavailable

SCHEMA_VERSION = 1
_APPLICATION = 0x72637573  # "rcus", in the header of the file
_BUSY_SECONDS = 30.0  # waiting for the transaction of another process
_WAIT_MILLISECONDS = 2000  # programs that use the queue while rows are deleted are waited for so long
_OWNER_ONLY = 0o600
_HEADER = 100  # bytes of the header of an SQLite file
_MAGIC = b"SQLite format 3\0"
_PLACES_OF_MARKS = ((60, SCHEMA_VERSION), (68, _APPLICATION))  # places of the user version and of the application
_SCHEMA = """
CREATE TABLE models (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    loss TEXT NOT NULL,
    target TEXT,  -- name
    UNIQUE (name, version)
);
CREATE TABLE counts (
    model INTEGER NOT NULL REFERENCES models,
    day TEXT NOT NULL,  -- UTC
    share REAL NOT NULL,  -- of accepted rows that are sent to review
    accepted INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    PRIMARY KEY (model, day, share)
) WITHOUT ROWID;
CREATE TABLE reviews (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    model INTEGER NOT NULL REFERENCES models,
    recorded REAL NOT NULL,  -- seconds since 1970
    row TEXT NOT NULL,  -- JSON
    prediction REAL NOT NULL,
    cost REAL NOT NULL,
    score REAL NOT NULL,
    expected_loss REAL,
    rejected INTEGER NOT NULL,
    probability REAL NOT NULL,  -- of being sent to review
    priority REAL NOT NULL,
    holder TEXT,  -- token of the last lease
    held_until REAL NOT NULL DEFAULT 0,
    answer REAL,
    answered REAL,
    answered_by TEXT,
    answer_token TEXT,
    loss REAL,
    saved REAL
);
CREATE INDEX waiting_by_saving ON reviews (priority DESC, number) WHERE answer IS NULL;
-- with the answer in an index, SQLite counts without reading the rows
CREATE INDEX waiting_by_age ON reviews (number, answer) WHERE answer IS NULL;
CREATE INDEX held ON reviews (held_until, answer) WHERE answer IS NULL AND held_until > 0;
CREATE INDEX answers ON reviews (answered_by, saved, answer) WHERE answer IS NOT NULL;
CREATE INDEX recent_rejections ON reviews (number) WHERE rejected;
CREATE TABLE leases (
    token TEXT PRIMARY KEY,
    review INTEGER NOT NULL REFERENCES reviews ON DELETE CASCADE,
    reviewer TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX leases_of_review ON leases (review);
CREATE TABLE skips (
    review INTEGER NOT NULL REFERENCES reviews ON DELETE CASCADE,
    reviewer TEXT NOT NULL,
    PRIMARY KEY (review, reviewer)
) WITHOUT ROWID;
CREATE TABLE callers (
    model_name TEXT NOT NULL,
    id TEXT NOT NULL,
    digest BLOB NOT NULL,  -- of the row
    review TEXT,  -- NULL for an accepted row that was not sent to review
    recorded REAL NOT NULL,
    PRIMARY KEY (model_name, id)
) WITHOUT ROWID;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection whose commits are on the disk when they return.

    Any thread may use it, one at a time.
    """
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    # updates leave no copies of cells behind that a later deletion would not find
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def prepare(path: Path, *, create: bool = True) -> None:
    """Create the file, readable by its owner only, or check that it is a queue of this version.

    Raises
    ------
    ValueError
        If the file is something else, or was written by a newer version.
    OSError
        If it cannot be created, or does not exist and `create` is false, or is on a network file system.
    """
    check_local(path)
    if not create and not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the path of the review queue")
    try:
        if create and not path.exists():  # to close a file ends the locks that this process has on it
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY))
        connection = connect(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise QueueUnavailable(f"{path} cannot be used: {error}") from error
        raise ValueError(f"{path} is not a review queue: {error}") from error
    try:
        with transaction(connection):  # two processes may create it at once
            _check(connection, path)
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,), (version,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in _MARKS)
    if application == version == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        for name, value in zip(_MARKS, (_APPLICATION, SCHEMA_VERSION), strict=True):
            connection.execute(f"PRAGMA {name} = {value}")
    elif application != _APPLICATION:
        raise ValueError(f"{path} is not a review queue: it is a database of another program")
    elif version != SCHEMA_VERSION:
        raise ValueError(f"{path} must have schema version {SCHEMA_VERSION}, got {version}: update recuse")


_MARKS = ("application_id", "user_version")


def mark(connection: sqlite3.Connection) -> None:
    """Write the schema version again, which changes nothing, to find out whether the file can be written."""
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a block as one transaction that no other process can interleave with.

    Raises
    ------
    QueueUnavailable
        If the file cannot be read or written; then nothing of the block is kept.
    """
    with clear_errors():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """Read one state of an existing queue, whatever is written meanwhile.

    Raises
    ------
    QueueUnavailable
        If the file cannot be read.
    """
    prepare(path, create=False)
    with clear_errors(), closing(connect(path)) as connection:
        connection.execute("BEGIN")
        yield connection


@contextmanager
def clear_errors() -> Iterator[None]:
    """Raise a QueueUnavailable for errors of the file."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # errors of this package, not of the file
        raise
    except sqlite3.DatabaseError as error:
        raise _unusable(str(error)) from error


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
            is_same = os.path.samestat(self._path.stat(), self._opened)
            header = os.pread(self._file.fileno(), _HEADER, 0)
        except FileNotFoundError as error:
            raise _unusable(f"its file {self._path} was deleted") from error
        except OSError as error:
            raise _unusable(str(error)) from error
        if not is_same:
            raise _unusable(f"its file {self._path} was replaced by another; restart the service")
        marks = [(place, int.from_bytes(header[place : place + 4], "big")) for place, _ in _PLACES_OF_MARKS]
        if not header.startswith(_MAGIC) or marks != list(_PLACES_OF_MARKS):
            raise _unusable(f"its file {self._path} is damaged")

    def check_log(self) -> None:
        """Raise a QueueUnavailable if the log that a transaction is written to was deleted."""
        if not self._log.exists():
            raise _unusable(f"its file {self._log} was deleted")

    def close(self) -> None:
        """Close the file; no connection to it may be open."""
        self._file.close()


def _unusable(reason: str) -> QueueUnavailable:
    return QueueUnavailable(f"the review queue cannot be used: {reason}")


@dataclass(frozen=True)
class Deleted:
    """Numbers of deleted rows, with and without an answer."""

    answered: int
    unanswered: int


def delete_before(path: Path, day: date) -> Deleted:
    """Delete all rows, answers, ids of callers and counts of the days before a day, in UTC.

    The counts are deleted with the rows, so that the estimates are those of the days that remain. The deleted content
    is overwritten with zeros in the file.

    Parameters
    ----------
    path : Path
    day : date
        The first day that is kept.

    Raises
    ------
    QueueUnavailable
        If copies of deleted rows remain, since another program uses the queue; the rows are deleted.
    """
    prepare(path, create=False)
    first = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    with closing(connect(path)) as connection:
        with transaction(connection):
            answered, unanswered = connection.execute(
                "SELECT COUNT(answer), COUNT(*) - COUNT(answer) FROM reviews WHERE recorded < ?", (first,)
            ).fetchone()
            connection.execute("DELETE FROM reviews WHERE recorded < ?", (first,))
            connection.execute("DELETE FROM callers WHERE recorded < ?", (first,))
            connection.execute("DELETE FROM counts WHERE day < ?", (day.isoformat(),))
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MILLISECONDS}")
        # the write-ahead log has copies of the rows, and the main file has the rows until the log is applied to it
        with clear_errors():
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if busy:
        raise QueueUnavailable(
            f"{counted(answered + unanswered, 'row')} of {path} deleted, but copies remain in its files, since another "
            "program uses the queue: give the same command again when that program has ended"
        )
    return Deleted(answered, unanswered)
