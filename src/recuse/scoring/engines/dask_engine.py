"""Tasks on the workers of a Dask cluster, which must have the same files under the same paths."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from recuse.extras import import_extra
from recuse.scoring.engines.dask_clusters import connect
from recuse.scoring.engines.tasks import Job, PartError, Task, TaskRunner
from recuse.scoring.summary import PartSummary

__all__ = ["run_on_dask"]

_RETRIES = 5  # of a task whose worker failed
_AHEAD = 4  # tasks for each thread of the workers that are submitted at once
_of_thread = threading.local()

Result = tuple[int, PartSummary]


def run_on_dask(job: Job, tasks: Iterable[Task], scheduler: str | None) -> Generator[Result]:
    """Run tasks on a cluster, and yield the number and the summary of each part as its task is finished.

    The scheduler runs a task again if its worker is lost. Parts are stored as a whole, so a part may be written twice.

    Parameters
    ----------
    job : Job
    tasks : iterable of Task
    scheduler : str or None
        Address such as "tcp://127.0.0.1:8786"; None is an error.

    Raises
    ------
    ValueError
        If the address is none.
    OSError
        If the scheduler cannot be reached, or the connection is lost.
    """
    if scheduler is None:
        raise ValueError("the engine dask needs the address of its scheduler, such as tcp://127.0.0.1:8786")
    distributed = import_extra("distributed", "dask")
    with _without_messages(), connect(scheduler) as client:
        yield from _results(distributed, client, job, iter(tasks))


def _results(distributed: Any, client: Any, job: Job, tasks: Iterator[Task]) -> Iterator[Result]:
    threads = sum(client.nthreads().values()) or 1
    errors: list[PartError] = []

    def submit(count: int) -> list[Any]:
        chosen = [] if errors else list(islice(tasks, count))
        return [client.submit(_run_task, job, task, retries=_RETRIES, pure=False) for task in chosen]

    running = distributed.as_completed(submit(_AHEAD * threads), loop=client.loop)
    for future in running:
        results, error = _outcome(distributed, future)
        yield from results
        if error is not None:
            errors.append(error)
        running.update(submit(1))
    if errors:
        raise min(errors, key=lambda each: each.number).cause


def _outcome(distributed: Any, future: Any) -> tuple[list[Result], PartError | None]:
    try:
        return future.result()  # type: ignore[no-any-return]
    except distributed.KilledWorker as error:
        raise OSError("a part was lost with several workers of the Dask cluster: the same command continues") from error
    except PartError as error:  # a file that cannot be read or written, also by other workers
        return [], error
    except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
        raise OSError("the connection to the Dask scheduler was lost: the same command continues") from error


@contextmanager
def _without_messages() -> Iterator[None]:
    """Let no traceback of a lost connection reach standard error, since an error says it."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "batched")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _run_task(job: Job, task: Task) -> tuple[list[Result], PartError | None]:
    """Run a task on a worker; an error of the data is a result, since running the task again would not help."""
    results: list[Result] = []
    try:
        results.extend(_runner(job).run(task))
    except PartError as error:
        if isinstance(error.cause, OSError):
            raise  # the scheduler tries again
        return results, error
    return results, None


def _runner(job: Job) -> TaskRunner:
    """Return the runner of this thread; the model is loaded once in each process."""
    runner: TaskRunner | None = getattr(_of_thread, "runner", None)
    if runner is None or runner.job != job:
        runner = _of_thread.runner = TaskRunner(job)
    return runner
