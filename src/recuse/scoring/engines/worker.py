"""A process that runs tasks: pickled tasks on its standard input, pickled results on its standard output."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from typing import IO, Any

from recuse.scoring.engines.tasks import Job, PartError, Task, TaskRunner

__all__ = ["FINISHED", "send", "worker"]

FINISHED = None  # after the results of a task


def worker() -> None:
    """Run tasks from standard input until it is closed."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with results
    source = sys.stdin.buffer
    _limit_threads()
    try:
        answer = _Answers(pickle.load(source))
        while True:
            for result in answer.to(pickle.load(source)):
                send(results, result)
    except (EOFError, BrokenPipeError):  # the process that started this one has ended
        os._exit(0)


class _Answers:
    """Results of tasks, of which the last one is an error or says that the task is finished."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._runner: TaskRunner | None = None

    def to(self, task: Task) -> Iterator[Any]:
        try:
            self._runner = self._runner or TaskRunner(self._job)
            yield from self._runner.run(task)
            yield FINISHED
        except PartError as error:
            yield _portable(error)
        except Exception as error:  # of the model file
            yield _portable(PartError(task.parts[0].number, error))


def _portable(error: PartError) -> PartError:
    """Return an error that another process can read."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return PartError(error.number, RuntimeError(f"{type(error.cause).__name__}: {error.cause}"))
    return error


def _limit_threads() -> None:
    """Let pyarrow use one thread, since there is a process for each core."""
    try:
        import pyarrow
    except ImportError:  # CSV files need none
        return
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)


def send(file: IO[bytes], value: Any) -> None:
    """Write a value to a pipe."""
    pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
    file.flush()
