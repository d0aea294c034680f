"""Models and tables to score, and a Dask cluster of processes."""

from types import SimpleNamespace

import pytest

import recuse
from recuse.scoring import inputs
from scoring_runs import numbers, start_dask, wait_for


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A small network, saved."""
    rows = numbers(400, seed=1)
    fitted = recuse.RcRRegressor(1.0, n_members=1, epochs=5, slow_start=1, random_state=0).fit(rows, rows["x0"] ** 2)
    path = tmp_path_factory.mktemp("model") / "m.recuse"
    recuse.save(fitted, path)
    return path


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a thousand rows, in this process only; they do not change the decisions."""
    monkeypatch.setattr(inputs, "_FEWEST_ROWS", 1000)
    monkeypatch.setattr(inputs, "_MOST_ROWS", 1000)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Dask scheduler and two workers, as processes on loopback."""
    folder = tmp_path_factory.mktemp("dask")
    address = folder / "scheduler.json"
    processes = [
        start_dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", address)
    ]
    wait_for(address.exists)
    worker = (
        "worker",
        "--scheduler-file",
        address,
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--death-timeout",
        60,
    )
    workers = [start_dask(*worker, "--local-directory", folder) for _ in range(2)]
    from distributed import Client

    with Client(scheduler_file=str(address), set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        yield SimpleNamespace(
            address=client.scheduler.address,
            client=client,
            workers=workers,
            add=lambda: workers.append(start_dask(*worker, "--local-directory", folder)),
        )
    for process in processes + workers:
        process.kill()
        process.wait()
