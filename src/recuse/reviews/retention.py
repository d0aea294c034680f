"""Deletion of old rows from a review queue."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from recuse.reviews.database import connect, prepare, transaction

__all__ = ["Deleted", "delete_before"]


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
    """
    prepare(path, create=False)
    first = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        with transaction(connection):
            answered, unanswered = connection.execute(
                "SELECT COUNT(answer), COUNT(*) - COUNT(answer) FROM reviews WHERE recorded < ?", (first,)
            ).fetchone()
            connection.execute("DELETE FROM reviews WHERE recorded < ?", (first,))
            connection.execute("DELETE FROM callers WHERE recorded < ?", (first,))
            connection.execute("DELETE FROM counts WHERE day < ?", (day.isoformat(),))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the write-ahead log has copies of the rows
    return Deleted(answered, unanswered)
