"""Time of fits and decisions on an idle machine and beside two busy processes.

python benchmarks/contention.py              all estimators, decisions about 100 rows; a fit of auto-mpg
python benchmarks/contention.py --no-fit     decisions only
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pandas as pd

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor, datasets

ROWS = 100


@contextmanager
def busy_neighbours(count: int) -> Iterator[None]:
    """Keep this many processes busy while the block runs."""
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    time.sleep(1.0)  # until the processes run
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _spin() -> None:
    while True:
        pass


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Give the median time of a call, after one call that is not timed."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def decisions(models: dict[str, object], X: pd.DataFrame, neighbours: int) -> None:
    """Print the time of a decision about 100 rows, alone and beside busy processes."""
    rows = pd.concat([X] * (ROWS // len(X) + 1)).iloc[:ROWS]
    calls = {name: (lambda model=model: model.decide(rows)) for name, model in models.items()}
    alone = {name: median_seconds(call, 20) for name, call in calls.items()}
    with busy_neighbours(neighbours):
        beside = {name: median_seconds(call, 20) for name, call in calls.items()}
    print(f"\ndecision about {ROWS} rows of auto-mpg, ms: alone, beside {neighbours} busy processes, ratio")
    for name in models:
        print(f"  {name:22} {1e3 * alone[name]:8.1f} {1e3 * beside[name]:8.1f} {beside[name] / alone[name]:6.1f} x")


def fits(estimators: dict[str, object], X: pd.DataFrame, y: pd.Series[float], neighbours: int) -> None:
    """Print the time of a fit, alone and beside busy processes."""

    def seconds(estimator: object) -> float:
        start = time.perf_counter()
        estimator.fit(X, y)
        return time.perf_counter() - start

    alone = {name: seconds(estimator) for name, estimator in estimators.items()}
    with busy_neighbours(neighbours):
        beside = {name: seconds(estimator) for name, estimator in estimators.items()}
    print(f"\nfit of auto-mpg, {len(y)} rows, s: alone, beside {neighbours} busy processes, ratio")
    for name in estimators:
        print(f"  {name:22} {alone[name]:8.1f} {beside[name]:8.1f} {beside[name] / alone[name]:6.1f} x")


def main() -> None:
    """Run the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes of AutoRejector")
    parser.add_argument("--neighbours", type=int, default=2, help="busy processes")
    parser.add_argument("--fit", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    (X, y), _, (X_test, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    estimators = {
        "AutoRejector": AutoRejector(6.0, random_state=0, n_jobs=options.jobs),
        "RiskRejector": RiskRejector(cost=6.0, random_state=0),
        "RcRRegressor": RcRRegressor(6.0, random_state=0),
        "RcRRegressorCV": RcRRegressorCV(6.0, random_state=0),
        "SelectiveNetRegressor": SelectiveNetRegressor(cost=6.0, random_state=0),
    }
    if options.fit:
        fits(estimators, X, y, options.neighbours)
    else:
        for estimator in estimators.values():
            estimator.fit(X, y)
    decisions(estimators, X_test, options.neighbours)


if __name__ == "__main__":
    main()
