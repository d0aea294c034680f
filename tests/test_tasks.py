"""Tasks run in this process, in others or on a cluster, and their errors are those that one process would raise."""

import os
import signal
import subprocess
import sys
import time

import pytest

from recuse.tasks import run_tasks
from scoring_runs import start_dask, wait_for

# Functions of tasks are nested, since the processes that run them cannot import this file.


def test_a_single_task_and_one_job_need_no_other_process():
    def place(task):
        return task, os.getpid()

    assert list(run_tasks(place, [1], jobs=4)) == [(1, os.getpid())]
    assert list(run_tasks(place, range(3))) == [(task, os.getpid()) for task in range(3)]
    assert list(run_tasks(place, [], jobs=2)) == []


def test_processes_have_one_thread_and_no_other_tasks_than_theirs():
    def threads(task):
        import numpy as np
        from threadpoolctl import threadpool_info

        assert np.eye(3).sum() == 3
        time.sleep(0.5)  # so that each process gets a task
        return os.getpid(), {pool["num_threads"] for pool in threadpool_info()}

    found = list(run_tasks(threads, range(4), jobs=2))
    assert {count for _, counts in found for count in counts} == {1}
    assert os.getpid() not in {place for place, _ in found}
    assert len({place for place, _ in found}) == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_error_is_that_of_the_first_task(jobs):
    def wrong_from_the_second(task):
        time.sleep(1.0 if task == 1 else 0.0)  # the later errors are found before it
        if task >= 1:
            raise ValueError(f"task {task}")
        return task

    with pytest.raises(ValueError, match=r"^task 1$"):
        list(run_tasks(wrong_from_the_second, range(9), jobs=jobs))


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_of_the_iterable_comes_after_those_of_the_tasks_before_it(jobs):
    def tasks():
        yield from (0, 1)
        raise ValueError("no more tasks")

    def wrong(task):
        raise KeyError(task)

    with pytest.raises(ValueError, match="no more tasks"):
        list(run_tasks(abs, tasks(), jobs=jobs))
    with pytest.raises(KeyError, match="0"):
        list(run_tasks(wrong, tasks(), jobs=jobs))


def test_tasks_are_taken_as_they_are_needed():
    taken = []

    def tasks():
        for task in range(1000):
            taken.append(task)
            yield task

    results = run_tasks(abs, tasks(), jobs=2)
    assert next(results) in range(4)
    assert len(taken) <= 6
    results.close()
    assert len(taken) <= 6


def test_an_error_that_cannot_be_pickled_keeps_its_message():
    def wrong(task):
        class OwnError(Exception):
            def __init__(self, first, second):
                super().__init__(f"{first} and {second}")

        raise OwnError(task, "more")

    with pytest.raises(RuntimeError, match="OwnError: 0 and more"):
        list(run_tasks(wrong, range(2), jobs=2))


def test_a_killed_process_is_an_error():
    def end(task):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(OSError, match="a worker process was killed, perhaps for lack of memory"):
        list(run_tasks(end, range(4), jobs=2))


def test_the_main_module_is_not_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from recuse.tasks import run_tasks; print(sorted(run_tasks(abs, [-2, -1], jobs=2)))")
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("[1, 2]\n", "")


def test_a_task_that_ends_its_workers_is_an_error_on_a_cluster(tmp_path, monkeypatch):
    def end(task):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    file = tmp_path / "scheduler.json"
    common = ("--scheduler-file", file, "--no-dashboard")
    processes = [start_dask("scheduler", "--host", "127.0.0.1", "--port", "0", *common)]
    wait_for(file.exists)
    processes.append(start_dask("worker", *common, "--nthreads", "1", "--no-nanny"))
    from distributed import Client

    with Client(scheduler_file=str(file), set_as_default=False) as client:
        client.wait_for_workers(1, timeout=120)
        address = client.scheduler.address
    with pytest.raises(OSError, match="a task was lost with several workers of the Dask cluster: the same command"):
        list(run_tasks(end, range(2), scheduler=address))
    for process in processes:
        process.kill()
        process.wait()
