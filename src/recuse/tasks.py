"""Tasks on processes of this machine or on a Dask cluster, with results as they are finished."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from recuse.extras import import_extra

T = TypeVar("T")
R = TypeVar("R")
Outcome = tuple[Any, Exception | None]  # a task or what it returned, or the error instead of it
Submit = Callable[[Any], Future[Outcome]]

_AHEAD = 2  # Tasks for each process or thread that are submitted at once.
_RETRIES = 5  # Dask runs a task that cannot read or write as often again.
_IDLE_SECONDS = 60  # Processes end after this time without a task; a later task starts new ones.
_HANDING_SECONDS = 5  # Longest time that a submitted task waits for the queue of the processes.
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR")
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in _LIBRARIES} | {"ARROW_IO_THREADS": "1"}


def run_tasks(
    function: Callable[[T], R], tasks: Iterable[T], *, jobs: int = 1, scheduler: str | None = None
) -> Generator[R]:
    """Call a function with each task, and yield the results in the order in which they are finished.

    Tasks are taken from the iterable when processes become free, so that memory does not grow with their number. The
    processes use one thread each and do not import the main module. They end when the generator is closed, or when
    this process ends, even if it is killed.

    Parameters
    ----------
    function : callable
        If Dask loses a worker, it calls the function again with the same task.
    tasks : iterable
    jobs : int, default=1
        Number of processes. A single task, and all tasks if this is 1, run in this process.
    scheduler : str, optional
        Address of a Dask scheduler, such as "tcp://127.0.0.1:8786", whose workers run the tasks instead.

    Raises
    ------
    Exception
        The error of a task or of the iterable. Of several errors it is that of the first task, whatever the order in
        which they are found.
    OSError
        If a process is killed, or if the cluster cannot be reached or is lost.

    Examples
    --------
    >>> sorted(run_tasks(abs, [-3, 2, -1], jobs=2))
    [1, 2, 3]
    """
    if jobs == 1 and scheduler is None:
        yield from map(function, tasks)
        return
    attempts = _with_error(tasks)
    if scheduler is not None:
        with _cluster(function, scheduler) as (submit, threads):
            yield from _finished(submit, attempts, _AHEAD * threads)
        return
    first = list(islice(attempts, jobs))
    if len(first) > 1:
        with _processes(function, len(first)) as submit:
            yield from _finished(submit, chain(first, attempts), _AHEAD * len(first))
        return
    for task, error in chain(first, attempts):
        if error is not None:
            raise error
        yield function(task)


def _with_error(tasks: Iterable[Any]) -> Iterator[Outcome]:
    """Yield the tasks, and an error of the iterable as the last of them, since errors of tasks come before it."""
    try:
        for task in tasks:
            yield task, None
    except Exception as error:
        yield None, error


def _finished(submit: Submit, attempts: Iterator[Outcome], most: int) -> Iterator[Any]:
    """Keep `most` tasks submitted and yield results, until all tasks, or all before the first error, are finished."""
    running: dict[Future[Outcome], int] = {}
    errors: dict[int, Exception] = {}
    numbered = enumerate(attempts)
    while True:
        for number, (task, error) in islice(numbered, 0 if errors else most - len(running)):
            if error is None:
                running[submit(task)] = number
            else:
                errors[number] = error
        if not running or (errors and min(errors) < min(running.values())):
            break
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            number, (result, error) = running.pop(future), _outcome(future)
            if error is None:
                yield result
            else:
                errors[number] = error
    if errors:
        raise errors[min(errors)]


def _outcome(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except OSError as error:
        return None, error


def _attempt(function: Callable[[Any], Any], task: Any) -> Outcome:
    """Return the result or the error of a task; raise errors of reading and writing, so that Dask tries again."""
    try:
        return function(task), None
    except Exception as error:
        portable = _portable(error)
        if isinstance(portable, OSError):
            raise portable from None
        return None, portable


def _portable(error: Exception) -> Exception:
    """Return an error that another process can read."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def _processes(function: Callable[[Any], Any], jobs: int) -> Iterator[Submit]:
    """Give a function that submits tasks to processes, which are killed when the block ends."""
    # joblib.Parallel would end all tasks at the first error that is found, which need not be that of the first task
    from joblib.externals.loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

    first_call = {"initializer": _begin, "initargs": (os.getpid(), function)}
    pool = ProcessPoolExecutor(jobs, timeout=_IDLE_SECONDS, env=_ONE_THREAD, **first_call)

    last: Future[Outcome] | None = None

    def submit(task: Any) -> Future[Outcome]:
        nonlocal last
        with _interrupts_held():
            last = pool.submit(_attempt_here, task)
        return last

    try:
        yield submit
    except TerminatedWorkerError as error:
        reason = "a worker process was killed, perhaps for lack of memory: the same command continues the run"
        raise OSError(reason) from error
    finally:
        end = time.monotonic() + _HANDING_SECONDS
        while last is not None and not (last.running() or last.done()) and time.monotonic() < end:
            time.sleep(0.001)  # loky's thread would fail if it had not yet handed the last task to a process
        pool.shutdown(kill_workers=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold back Ctrl-C until the block ends; processes that start in the block never get it."""
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # the first process would start it, and that would let interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_of_process: dict[str, Callable[[Any], Any]] = {}  # the function of a worker process


def _begin(parent: int, function: Callable[[Any], Any]) -> None:
    """Prepare a worker process; it ends soon after the process that started it, also if that was killed."""
    _of_process["function"] = function
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _attempt_here(task: Any) -> Outcome:
    return _attempt(_of_process["function"], task)


@contextmanager
def _cluster(function: Callable[[Any], Any], scheduler: str) -> Iterator[tuple[Submit, int]]:
    """Give a function that submits tasks to a cluster, and the number of threads of its workers."""
    distributed = import_extra("distributed", "dask")
    lost = (distributed.CancelledError, distributed.comm.CommClosedError)
    with _without_messages(), _connected(distributed, scheduler) as client:
        # joblib's own backend for Dask waits forever for a task whose workers are killed again and again
        def submit(task: Any) -> Future[Outcome]:
            future: Future[Outcome] = Future()
            remote = client.submit(_attempt, function, task, retries=_RETRIES, pure=False)
            remote.add_done_callback(partial(_pass_on, future))
            return future

        try:
            yield submit, sum(client.nthreads().values()) or 1
        except distributed.KilledWorker as error:
            reason = "a task was lost with several workers of the Dask cluster: the same command continues the run"
            raise OSError(reason) from error
        except lost as error:
            raise OSError("the connection to the Dask scheduler was lost: the same command continues") from error


def _pass_on(future: Future[Outcome], remote: Any) -> None:
    """Give the result or the error of a future of Dask to one of Python."""
    try:
        future.set_result(remote.result())
    except BaseException as error:
        future.set_exception(error)


def _connected(distributed: Any, scheduler: str) -> Any:
    """Return a client of a Dask scheduler.

    Raises
    ------
    ValueError
        If the address has no port or an unknown protocol.
    OSError
        If the scheduler cannot be reached.
    """
    try:  # a client with a wrong address would wait for its timeout when it is deleted
        import_extra("distributed.comm", "dask").get_address_host_port(scheduler)
    except ValueError as error:
        raise ValueError(
            f"the address of a Dask scheduler must be like tcp://127.0.0.1:8786, got {scheduler!r}"
        ) from error
    try:
        return distributed.Client(scheduler, set_as_default=False, name="recuse")
    except OSError as error:
        raise OSError(f"the Dask scheduler at {scheduler} cannot be reached: {error!s:.200}") from error


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
