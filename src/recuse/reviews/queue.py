"""The review queue of one process, with the thread that writes the rows of many requests in one transaction."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from recuse.decision import Decision
from recuse.reviews import leases
from recuse.reviews.database import OpenFile, clear_errors, connect, mark, prepare, transaction
from recuse.reviews.recording import RecordedModel, Recording
from recuse.reviews.results import Lease, Order, Progress, QueueUnavailable, ReviewConflict, ReviewOutcome

LEASE_SECONDS = 600.0
_Job = Callable[[sqlite3.Connection], Any]  # raises a ReviewConflict before it writes anything, or succeeds
_Waiting = tuple[_Job, "Future[Any]"]
_MOST_JOBS = 1000  # one transaction has at most as many


class ReviewQueue:
    """Rows that were left to people, and a random share of the accepted ones, in an SQLite file.

    Several processes may use one file at once. What a method returned is on the disk. Any thread may call the methods.
    `open` makes these objects.

    Attributes
    ----------
    path : Path
    audit_share : float
        Probability of an accepted row to be sent to review.

    Examples
    --------
    A model that rejects a row, and a reviewer who answers:

    >>> import tempfile
    >>> import recuse
    >>> from recuse.reviews import RecordedModel, ReviewQueue
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(200, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> recuse.save(recuse.RiskRejector(Ridge(), cost=0.5, random_state=0).fit(X, y), f"{folder.name}/m.recuse")
    >>> model = recuse.load(f"{folder.name}/m.recuse")
    >>> with ReviewQueue.open(f"{folder.name}/reviews.sqlite", audit_share=0.02) as queue:
    ...     ids = queue.record(RecordedModel("m", "1", model), X[:1], model.decide(X[:1])).result()
    ...     lease = queue.lease("Ada")
    ...     outcome = queue.answer(lease.id, lease.token, 1.5)
    >>> lease.id == ids[0], outcome.rejected, outcome.answer
    (True, True, 1.5)
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, audit_share: float) -> None:
        self.path, self.audit_share = path, audit_share
        self._file = OpenFile(path)
        self._writer = _Writer(path, self._file)
        self._connection = connect(path)
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, audit_share: float = 0.0) -> Self:
        """Open a queue; a file that does not exist is created, readable by its owner only.

        Parameters
        ----------
        path : path-like
        audit_share : float, default=0.0
            Probability of an accepted row to be sent to review, from 0 to 1.

        Raises
        ------
        ValueError
            If the file is not a review queue, or has another schema version.
        OSError
            If the file cannot be read or written.
        """
        if not 0 <= audit_share <= 1:
            raise ValueError(f"audit_share must be from 0 to 1, got {audit_share}")
        prepare(Path(path))
        return cls(Path(path), float(audit_share))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._writer.close()
        with self._lock:
            self._connection.close()
        self._file.close()

    def record(
        self,
        model: RecordedModel,
        table: Any,
        decision: Decision,
        expected_loss: ArrayLike | None = None,
        ids: Sequence[str | None] | None = None,
    ) -> Future[list[str | None]]:
        """Record decided rows; they are on the disk when the result is there.

        Parameters
        ----------
        model : RecordedModel
            The model that decided.
        table : DataFrame, mapping of columns, or array
            The rows as the caller gave them.
        decision : Decision
        expected_loss : array-like of shape (n_rows,), optional
        ids : sequence of str or None, optional
            Ids that the caller gave the rows of this model name. A row whose id is known is not recorded again.

        Returns
        -------
        Future of a list of str or None
            Id of the review of each row; None for accepted rows that were not drawn. Its errors are a ReviewConflict
            if an id is known with another row, and a QueueUnavailable if the file cannot be written.

        Raises
        ------
        ValueError
            If an id or a number of a row cannot be stored.
        """
        expected = None if expected_loss is None else np.asarray(expected_loss, dtype=np.float64)
        return self._writer.submit(Recording.of(model, table, decision, expected, ids, self.audit_share))

    def lease(
        self, reviewer: str, order: Order = "saving", *, seconds: float = LEASE_SECONDS, skipped: bool = False
    ) -> Lease | None:
        """Give a row to a reviewer, and to nobody else until the lease ends.

        Parameters
        ----------
        reviewer : str
        order : {"saving", "age"}
            The row with the largest expected saving first, or the oldest one.
        seconds : float, default=600
        skipped : bool, default=False
            Whether to give rows that this reviewer skipped.

        Returns
        -------
        Lease or None
            None if no row is waiting.
        """
        with self._transaction() as connection:
            return leases.give(connection, reviewer, order, seconds, skipped=skipped)

    def renew(self, review: str, token: str, *, seconds: float = LEASE_SECONDS) -> float:
        """Extend a lease; return when it ends, in seconds since 1970."""
        with self._transaction() as connection:
            return leases.renew(connection, review, token, seconds)

    def release(self, review: str, token: str, *, skip: bool = False) -> None:
        """Give a row back; with `skip`, the reviewer does not get it again unless asked for."""
        with self._transaction() as connection:
            leases.release(connection, review, token, skip=skip)

    def answer(self, review: str, token: str, value: float) -> ReviewOutcome:
        """Take the answer of a reviewer, and show how the model would have done.

        An answer after the end of the lease counts unless somebody else holds or answered the row. The same answer with
        the same lease may be sent again.

        Parameters
        ----------
        review : str
        token : str
            The token of the lease.
        value : float
        """
        with self._transaction() as connection:
            return leases.answer(connection, review, token, value)

    def progress(self, reviewer: str | None = None) -> Progress:
        """Count rows that wait, are held and are answered, and what the answers of a reviewer say."""
        with self._lock, clear_errors():  # no transaction: it must not keep the writer waiting
            return leases.progress(self._connection, reviewer)

    def summary(self) -> dict[str, Any]:
        """Return counts and estimates of the losses as plain values; see `recuse.reviews.summary`."""
        from recuse.reviews.summary import summary_of

        return summary_of(self.path)

    def check_file(self) -> None:
        """Raise a QueueUnavailable if the file was deleted, replaced or damaged; without writing to it."""
        self._file.check()

    async def check_write(self) -> None:
        """Write to the file, and raise a QueueUnavailable if that fails."""
        await asyncio.wrap_future(self._writer.submit(mark))

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._lock, transaction(self._connection) as connection:
            yield connection
            self._file.check()
            self._file.check_log()


class _Writer:
    """Runs jobs in a thread of its own; jobs that arrive during a commit share the next one.

    Parameters
    ----------
    path : Path
        A file that `prepare` checked.
    file : OpenFile
        The same file, which is checked before each commit.
    """

    def __init__(self, path: Path, file: OpenFile) -> None:
        self._connection, self._file = connect(path), file
        self._jobs: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recuse-review-writer", daemon=True)
        self._thread.start()

    def submit(self, job: _Job) -> Future[Any]:
        """Return the future result of a job; it is set when the result is on the disk."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise QueueUnavailable("the review queue is closed")
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Write what is waiting, then stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        batch: list[_Waiting | None] = []
        while not batch or batch[-1] is not None:  # None comes last
            batch = [self._jobs.get()]
            while len(batch) < _MOST_JOBS and not self._jobs.empty():
                batch.append(self._jobs.get())
            waiting = [each for each in batch if each is not None and each[1].set_running_or_notify_cancel()]
            _write(self._connection, self._file, waiting)
        self._connection.close()


def _write(connection: sqlite3.Connection, file: OpenFile, batch: list[_Waiting]) -> None:
    """Run jobs in one transaction; an error of the database fails all of them, another error only its own."""
    if not batch:
        return
    try:
        with transaction(connection):
            results = [_result(job, connection) for job, _ in batch]
            file.check()
            file.check_log()
    except QueueUnavailable as error:
        results = [error] * len(batch)
    except Exception as error:
        if len(batch) > 1:  # the transaction of all jobs was rolled back
            for each in batch:
                _write(connection, file, [each])
            return
        results = [error]
    for (_, future), result in zip(batch, results, strict=True):
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _result(job: _Job, connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except ReviewConflict as conflict:
        return conflict
