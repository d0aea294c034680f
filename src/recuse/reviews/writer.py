"""Group commit: one thread writes the jobs of many requests in one transaction."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from recuse.reviews.database import connect, transaction
from recuse.reviews.errors import QueueUnavailable, ReviewConflict
from recuse.reviews.open_file import OpenFile

__all__ = ["Job", "Writer"]

Job = Callable[[sqlite3.Connection], Any]  # raises a ReviewConflict before it writes anything, or succeeds
_Waiting = tuple[Job, "Future[Any]"]
_MOST_JOBS = 1000  # of one transaction


class Writer:
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
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recuse-review-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> Future[Any]:
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
        while (first := self._jobs.get()) is not None:
            batch, last = self._drain(first)
            _write(self._connection, self._file, [each for each in batch if each[1].set_running_or_notify_cancel()])
            if last:
                break
        self._connection.close()

    def _drain(self, first: _Waiting) -> tuple[list[_Waiting], bool]:
        """Return all waiting jobs, and whether the writer is to stop after them."""
        batch = [first]
        while len(batch) < _MOST_JOBS:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False


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


def _result(job: Job, connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except ReviewConflict as conflict:
        return conflict
