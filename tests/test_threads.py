"""A limit of one OpenMP thread, in the calling thread only."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from threadpoolctl import threadpool_info, threadpool_limits

from recuse import threads
from recuse.threads import one_blas_thread, one_thread


def openmp_limits():
    """The OpenMP limit of the calling thread in every runtime of the process."""
    torch.get_num_threads()
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "openmp"]


@pytest.fixture(autouse=True)
def several_threads():
    """Let the calling thread start from three threads, whatever the environment."""
    torch.get_num_threads()
    with threadpool_limits(limits=3, user_api="openmp"):
        yield


def test_inside_every_openmp_runtime_has_one_thread():
    with one_thread():
        assert set(openmp_limits()) == {1}
        assert torch.get_num_threads() == 1
        assert _openmp_effective_n_threads() == 1


def test_the_previous_limit_returns_after_nested_use_and_after_an_error():
    with one_thread():
        with pytest.raises(ZeroDivisionError), one_thread():
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 1
    assert set(openmp_limits()) == {3}


def test_another_thread_keeps_its_limit():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.get_num_threads).result()
        pool.submit(threadpool_limits, limits=2, user_api="openmp").result()
        with one_thread():
            assert set(pool.submit(openmp_limits).result()) == {2}
        assert set(pool.submit(openmp_limits).result()) == {2}


def test_a_new_thread_obeys_before_its_first_operation():
    def first_use():
        with one_thread():
            return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(first_use).result() == 1


def test_threads_that_enter_and_leave_at_once_all_get_their_own_limit_back():
    together = threading.Barrier(8)

    def many(number):
        limit = 2 + number % 3
        torch.get_num_threads()
        seen = set()
        with threadpool_limits(limits=limit, user_api="openmp"):
            together.wait()
            for _ in range(200):
                with one_thread():
                    seen.add(torch.get_num_threads())
                seen.add(-torch.get_num_threads())
            return seen == {1, -limit} and set(openmp_limits()) == {limit}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(many, range(8)))
    assert set(openmp_limits()) == {3}


def run_python(script):
    """The numbers that a fresh interpreter with four threads prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(number) for number in out.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
@pytest.mark.parametrize(
    "work",
    [
        "torch.bmm(torch.ones(16, 128, 128), torch.ones(16, 128, 512))",
        "torch.ones(2000, 2000).exp()",
        "ensemble.HistGradientBoostingRegressor(max_iter=3).fit(numpy.ones((2000, 8)), numpy.arange(2000))",
    ],
    ids=["bmm", "elementwise", "boosting"],
)
def test_the_work_starts_no_threads_under_the_limit(work):
    limited, unlimited = run_python(
        f"""
        import os
        import numpy
        {"import torch" if work.startswith("torch") else "from sklearn import ensemble"}
        from recuse.threads import one_blas_thread, one_thread
        def count(): return len(os.listdir("/proc/self/task"))
        before = count()
        with one_thread():
            {work}
        middle = count()
        {work}
        print(middle - before, count() - middle)
        """
    )
    assert limited == 0
    assert unlimited > 0


def test_a_runtime_that_is_loaded_after_the_first_use_obeys_too():
    # the file alone: importing the package would load scikit-learn before the first use
    script = f"""
        import runpy, sys
        one_thread = runpy.run_path({threads.__file__!r})["one_thread"]
        with one_thread():
            assert "sklearn" not in sys.modules
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
        with one_thread():
            print(_openmp_effective_n_threads())
        print(_openmp_effective_n_threads())
        """
    assert run_python(script) == [1, 4]


def blas_limits():
    """The limits of the BLAS libraries of the process."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_the_limit_of_blas_is_restored_when_several_threads_overlap():
    before, barrier = blas_limits(), threading.Barrier(2)

    def enter(seconds):
        barrier.wait(30)
        with one_blas_thread():
            time.sleep(seconds)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(enter, [0.02, 0.1]))
    assert blas_limits() == before


def test_blas_has_one_thread_inside():
    with one_blas_thread():
        assert set(blas_limits()) == {1}


def test_an_error_restores_the_limit_of_blas():
    before = blas_limits()
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert blas_limits() == before
