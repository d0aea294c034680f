"""Deletion of old rows from a review queue."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from recuse.phrases import counted
from recuse.reviews.database import clear_errors, connect, prepare, transaction
from recuse.reviews.results import QueueUnavailable

__all__ = ["Deleted", "delete_before"]

_WAIT_MILLISECONDS = 2000  # other programs that use the queue are waited for so long


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
