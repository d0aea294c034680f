"""Processes on this machine that run tasks, and end when the process that started them ends."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any

from recuse.scoring.summary import PartSummary
from recuse.scoring.tasks import Job, PartError, Task, TaskRunner

__all__ = ["run_here", "run_in_processes", "worker"]

_START = "import sys; sys.path[:] = {path!r}; from recuse.scoring.processes import worker; worker()"
_FINISHED = None

Result = tuple[int, PartSummary]


def run_here(job: Job, tasks: Iterable[Task]) -> Iterator[Result]:
    """Run tasks in this process, and yield the number and the summary of each part."""
    runner = TaskRunner(job)
    for task in tasks:
        try:
            yield from runner.run(task)
        except PartError as error:
            raise error.cause from None


def run_in_processes(job: Job, tasks: Iterable[Task], jobs: int) -> Iterator[Result]:
    """Run tasks in several processes, and yield the number and the summary of each part as it is finished.

    If parts have errors, that of the first of them is raised, whatever the order in which they are found.

    Parameters
    ----------
    job : Job
    tasks : iterable of Task
    jobs : int
        Number of processes.
    """
    processes = [_Process(job) for _ in range(jobs)]
    supply, results = _Supply(tasks), queue.Queue[Any]()
    threads = [threading.Thread(target=_feed, args=(each, supply, results), daemon=True) for each in processes]
    try:
        for thread in threads:
            thread.start()
        yield from _collected(results, supply, len(threads))
    finally:
        supply.stop()
        for process in processes:
            process.kill()
        for thread in threads:
            thread.join()
        for process in processes:
            process.close()


def _collected(results: queue.Queue[Any], supply: _Supply, running: int) -> Iterator[Result]:
    errors: list[PartError] = []
    while running:
        result = results.get()
        if result is _FINISHED:
            running -= 1
        elif isinstance(result, PartError):
            supply.stop()
            errors.append(result)
        else:
            yield result
    if errors:
        raise min(errors, key=lambda error: error.number).cause


class _Supply:
    """Tasks for several threads."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks, self._lock, self._stopped = iter(tasks), threading.Lock(), False
        self._next = 0

    def take(self) -> Task | None:
        with self._lock:
            if self._stopped:
                return None
            try:
                task = next(self._tasks, None)
            except (ValueError, OSError, ImportError) as error:  # of a file that is read in this process
                self._stopped = True
                raise PartError(self._next, error) from error
            self._next = self._next if task is None else task.parts[-1].number + 1
            return task

    def stop(self) -> None:
        self._stopped = True


def _feed(process: _Process, supply: _Supply, results: queue.Queue[Any]) -> None:
    """Give tasks to a process, and pass on its results, until there are no more."""
    try:
        while (task := supply.take()) is not None:
            for result in process.run(task):
                results.put(result)
    except PartError as error:
        results.put(error)
    finally:
        results.put(_FINISHED)


class _Process:
    """Another Python process, with pickled tasks on its standard input and pickled results on its standard output."""

    def __init__(self, job: Job) -> None:
        command = [sys.executable, "-c", _START.format(path=[path for path in sys.path if path])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._job: Job | None = job

    def run(self, task: Task) -> Iterator[Result]:
        number = task.parts[0].number
        try:
            if self._job is not None:
                _send(self._stdin, self._job)
                self._job = None
            _send(self._stdin, task)
            while (result := pickle.load(self._stdout)) is not _FINISHED:
                if isinstance(result, PartError):
                    raise result
                number = result[0] + 1
                yield result
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            reason = OSError(f"a scoring process ended with exit code {code}: the same command continues the run")
            raise PartError(number, reason) from error

    def kill(self) -> None:
        self._process.kill()  # parts are written as a whole, so nothing is lost
        self._process.wait()

    def close(self) -> None:
        with suppress(OSError):  # of a task that was not read
            self._stdin.close()
        self._stdout.close()


def worker() -> None:
    """Run tasks from standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is for the process that started this one
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with results
    source = sys.stdin.buffer
    _limit_threads()
    try:
        runner = TaskRunner(pickle.load(source))
        while True:
            task = pickle.load(source)
            try:
                for result in runner.run(task):
                    _send(results, result)
                _send(results, _FINISHED)
            except PartError as error:
                _send(results, error)
    except (EOFError, BrokenPipeError):  # the process that started this one has ended
        os._exit(0)


def _limit_threads() -> None:
    """Let pyarrow use one thread, since there is a process for each core."""
    try:
        import pyarrow
    except ImportError:  # CSV files need none
        return
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)


def _send(file: IO[bytes], value: Any) -> None:
    pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
    file.flush()
