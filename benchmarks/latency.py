"""Time of decisions by a model file, alone and beside two busy processes, and by rivals in the same run.

python benchmarks/latency.py                               AutoRejector and RcRRegressor on concrete
python benchmarks/latency.py --autogluon PYTHON            also AutoGluon, with this interpreter of its own environment

Set OMP_NUM_THREADS=1, so that the rivals use one core too.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPRegressor

import recuse
from contention import busy_neighbours
from recuse import AutoRejector, RcRRegressor, datasets

MANY = 100_000
COST = 20.0


def tables() -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame]:
    """Return training rows, their targets, and 100,000 new rows: test rows with each number changed by up to 3%."""
    (X, y), (more, more_y), (test, _) = datasets.split(datasets.load("concrete"), repeat=0)
    random = np.random.RandomState(0)
    rows = test.to_numpy(float)[random.randint(len(test), size=MANY)]
    new = pd.DataFrame(rows * random.uniform(0.97, 1.03, size=rows.shape), columns=test.columns)
    return pd.concat([X, more]), np.concatenate([y, more_y]), new


def quantiles(call: Callable[[Any], object], rows: Sequence[Any], repeats: int) -> tuple[float, float]:
    """Return the median and the 99% quantile of the milliseconds of a call, after some calls that are not timed."""
    for row in rows[:20]:
        call(row)
    times = []
    for number in range(repeats):
        row = rows[number % len(rows)]
        start = time.perf_counter()
        call(row)
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times)), 1e3 * float(np.quantile(times, 0.99))


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def line(name: str, one: tuple[float, float], per_second: float, busy: float | None = None) -> None:
    """Print one line of the table."""
    beside = "" if busy is None else f"{busy:10.2f}"
    print(f"{name:38} {one[0]:9.3f} {one[1]:9.3f} {per_second:12,.0f} {beside:>10}", flush=True)


def measure(name: str, model: Any, new: pd.DataFrame, folder: Path, python_rows: int) -> None:
    """Compare a model file with its estimator."""
    path = folder / "model.recuse"
    recuse.save(model, path)
    served = recuse.load(path)
    arrays = [row[None] for row in new.iloc[:500].to_numpy()]
    frames = [new.iloc[[row]] for row in range(500)]
    with busy_neighbours(2):
        _, busy = quantiles(served.decide, arrays, 2000)
    one = quantiles(served.decide, arrays, 2000)
    line(f"{name}, file, array", one, MANY / seconds(lambda: served.decide(new.to_numpy())), busy)
    line(f"{name}, file, DataFrame", quantiles(served.decide, frames, 2000), MANY / seconds(lambda: served.decide(new)))
    some = new.iloc[:python_rows]
    line(
        f"{name}, estimator", quantiles(model.decide, frames, 50), python_rows / seconds(lambda: model.decide(some), 1)
    )
    size, pickled = path.stat().st_size / 1e6, len(pickle.dumps(model)) / 1e6
    load = seconds(lambda: recuse.load(path), 5)
    print(f"    file {size:.2f} MB (pickle {pickled:.1f} MB), loaded in {load:.3f} s; a new process: {start_up(path)}")


def start_up(path: Path) -> str:
    """Return time and memory of a new process that loads the file and decides one row."""
    script = """
        import sys, time
        start = time.perf_counter()
        import recuse
        served = recuse.load(sys.argv[1])
        import numpy as np
        served.decide(np.ones((1, len(served.schema.columns))))
        status = dict(each.split(":") for each in open("/proc/self/status"))
        print(f"{time.perf_counter() - start:.2f} s, {int(status['VmHWM'].split()[0]) / 1024:.0f} MB")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    return min(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for _ in range(3))


def autogluon(python: str, X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame, folder: Path) -> None:
    """Time AutoGluon in its own environment: the regressor only, without a model of its risk."""
    X.assign(target=y).to_csv(folder / "train.csv", index=False)
    new.iloc[:5000].to_csv(folder / "new.csv", index=False)
    script = """
        import json, sys, time
        import numpy as np, pandas as pd
        from autogluon.tabular import TabularPredictor
        folder = sys.argv[1]
        train, new = (pd.read_csv(f"{folder}/{name}.csv") for name in ("train", "new"))
        for preset in ("medium_quality", "best_quality"):
            model = TabularPredictor("target", path=f"{folder}/{preset}", verbosity=0)
            model.fit(train, presets=preset, time_limit=120, num_cpus=1)
            model.persist()
            times = []
            for row in range(40):
                start = time.perf_counter()
                model.predict(new.iloc[[row]])
                times.append(time.perf_counter() - start)
            start = time.perf_counter()
            model.predict(new)
            many = len(new) / (time.perf_counter() - start)
            median, worst = (1e3 * np.quantile(times[5:], level) for level in (0.5, 0.99))
            print(json.dumps([preset, median, worst, many]), flush=True)
    """
    command = [python, "-c", textwrap.dedent(script), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"AutoGluon failed: {done.stderr.strip().splitlines()[-1]}")
    for text in done.stdout.splitlines():
        if text.startswith("["):
            preset, median, worst, many = json.loads(text)
            line(f"AutoGluon, {preset}, predict", (median, worst), many)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--autogluon", metavar="PYTHON", help="interpreter of an environment with autogluon.tabular")
    options = parser.parse_args()
    X, y, new = tables()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        print(f"{'milliseconds for one row':38} {'median':>9} {'99%':>9} {'rows/s':>12} {'99%, busy':>10}")
        for name, preset in (("AutoRejector", "balanced"), ("AutoRejector, fast", "fast")):
            auto = AutoRejector(COST, random_state=0, n_jobs=2, preset=preset).fit(X, y)
            measure(name, auto, new, Path(folder), python_rows=5000)
        rcr = RcRRegressor(COST, epochs=200, random_state=0).fit(X, y)
        measure("RcRRegressor", rcr, new, Path(folder), python_rows=MANY)
        rival = MLPRegressor(hidden_layer_sizes=(20, 30, 10)).fit(X.to_numpy(), y)
        arrays = [row[None] for row in new.iloc[:500].to_numpy()]
        one = quantiles(rival.predict, arrays, 2000)
        line("MLPRegressor of scikit-learn, predict", one, MANY / seconds(lambda: rival.predict(new.to_numpy())))
        if options.autogluon:
            autogluon(options.autogluon, X, y, new, Path(folder))


if __name__ == "__main__":
    main()
