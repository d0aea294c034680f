"""Processes on this machine that run tasks, and end when the process that started them ends."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from typing import IO, Any

from recuse.scoring.engines.tasks import Job, PartError, Task, TaskRunner
from recuse.scoring.engines.worker import FINISHED, send
from recuse.scoring.summary import PartSummary

__all__ = ["run_here", "run_in_processes"]

# an interruption is for the process that starts this one, also while this one imports its libraries
_START = """\
import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)
import sys; sys.path[:] = {path!r}
from recuse.scoring.engines.worker import worker; worker()
"""

Result = tuple[int, PartSummary]


def run_here(job: Job, tasks: Iterable[Task]) -> Generator[Result]:
    """Run tasks in this process, and yield the number and the summary of each part."""
    runner = TaskRunner(job)
    for task in tasks:
        try:
            yield from runner.run(task)
        except PartError as error:
            raise error.cause from None


def run_in_processes(job: Job, tasks: Iterable[Task], jobs: int) -> Generator[Result]:
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
        if result is FINISHED:
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
            except Exception as error:  # of a file that is read in this process
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
        results.put(FINISHED)


class _Process:
    """Another Python process, with pickled tasks on its standard input and pickled results on its standard output.

    It is started by its first task, so that a small file does not start processes without work.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._lock = job, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    def run(self, task: Task) -> Iterator[Result]:
        number = task.parts[0].number
        process = self._started()
        if process is None:
            return
        stdin, stdout = _pipes(process)
        try:
            send(stdin, task)
            while (result := pickle.load(stdout)) is not FINISHED:
                if isinstance(result, PartError):
                    raise result
                number = result[0] + 1
                yield result
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = process.wait()
            reason = OSError(f"a scoring process ended with exit code {code}: the same command continues the run")
            raise PartError(number, reason) from error

    def _started(self) -> subprocess.Popen[bytes] | None:
        """Return the process, which has the job; None if it was killed before its start."""
        with self._lock:
            if self._process is None and not self._killed:
                command = [sys.executable, "-c", _START.format(path=[path for path in sys.path if path])]
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                with suppress(BrokenPipeError):  # then the first task finds the process ended
                    send(_pipes(self._process)[0], self._job)
            return self._process

    def kill(self) -> None:
        with self._lock:
            self._killed = True
        if self._process is not None:
            self._process.kill()  # parts are written as a whole, so nothing is lost
            self._process.wait()

    def close(self) -> None:
        if self._process is not None:
            stdin, stdout = _pipes(self._process)
            with suppress(OSError):  # of a task that was not read
                stdin.close()
            stdout.close()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
