"""RcR losses of AutoRejector and of AutoGluon, with equal time on equal cores.

AutoGluon needs an environment of its own, for example with
pip install "autogluon.tabular[lightgbm,catboost,xgboost,fastai]"; give its interpreter. Models that are not installed
are left out. benchmarks/automl_rival.py says how it decides.

    OMP_NUM_THREADS=1 python benchmarks/automl.py --autogluon PYTHON
    OMP_NUM_THREADS=1 python benchmarks/automl.py --autogluon PYTHON --tables concrete housing --splits 2 --seconds 60
    python benchmarks/automl.py --page-only
    python benchmarks/automl.py --page-only --merge FOLDER1 FOLDER2

Results are stored after each run, and a run that is stored is not repeated. Parts may run side by side on cores of
their own (taskset), each with a folder (-o), and be merged later. Without --autogluon, only AutoRejector
runs. The tables of other packages are explained in benchmarks/public_tables.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict, train_test_split

from automl_page import AUTOGLUON, AUTOREJECTOR, NO_LIMIT, page
from public_tables import EMBEDDED, SIMULATORS, load_table, table_names
from recuse import AutoRejector, datasets
from recuse.files.atomic import new_file

KEY = ["table", "split", "method", "setting", "limit", "cores"]
LEVELS = (0.5, 1.0, 2.0)  # costs relative to the mean squared error of a baseline, about those of the paper
FOLDER = Path(__file__).parents[1] / "results" / "automl"


@dataclass(frozen=True)
class Task:
    """The rows of one split and the costs; the levels are names of the costs."""

    table: str
    split: int
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    costs: dict[str, float]


@dataclass(frozen=True)
class Run:
    """Predictions and risks of the test rows, and the seconds that it took."""

    prediction: np.ndarray
    risk: np.ndarray
    fit_seconds: float
    processor_seconds: float  # of the process that fits, without its child processes
    decide_seconds: float


def split_table(table: str, split: int) -> Task:
    """Split a table of the paper by its protocol and others at random into 80% and 20%; choose the costs."""
    if table in EMBEDDED:
        dataset = datasets.load(table)
        train, validation, (X_test, y_test) = datasets.split(dataset, split)
        X, y = pd.concat([train[0], validation[0]]), np.concatenate([train[1], validation[1]])
        costs = {f"{cost:g}": cost for cost in dataset.costs}
    else:
        features, target = load_table(table)
        frame = pd.DataFrame(features).rename(columns="x{}".format)
        X, X_test, y, y_test = train_test_split(frame, target, test_size=0.2, random_state=split)
        costs = baseline_costs(X, y)
    return Task(table, split, X, y, X_test, np.asarray(y_test, dtype=float), costs)


def baseline_costs(X: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Return multiples of the mean squared out-of-fold error of boosted trees on training rows."""
    folds = KFold(5, shuffle=True, random_state=0)
    errors = (cross_val_predict(HistGradientBoostingRegressor(random_state=0), X, y, cv=folds) - y) ** 2
    return {f"{level:g} x": level * float(errors.mean()) for level in LEVELS}


def run_autorejector(task: Task, seconds: float | None, cores: int, preset: str) -> Run:
    """Fit once, at the geometric mean of the costs.

    The rows are split at random, so test rows may have the features of training rows. Each training row is a group of
    its own for this reason, as the documentation advises; AutoGluon's folds are random too.
    """
    middle = float(np.exp(np.log(list(task.costs.values())).mean()))
    start, processor = time.monotonic(), time.process_time()
    model = AutoRejector(middle, seconds, random_state=task.split, n_jobs=cores, preset=preset)
    model.fit(task.X, task.y, groups=np.arange(len(task.y)))
    end, processor = time.monotonic(), time.process_time() - processor
    prediction, risk = model.predict(task.X_test), model.expected_loss(task.X_test)
    return Run(prediction, risk, end - start, processor, time.monotonic() - end)


def run_autogluon(python: str, task: Task, seconds: float, cores: int, preset: str) -> Run:
    """Run AutoGluon in its own environment and a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task.X.assign(target=task.y).to_csv(folder / "train.csv", index=False)
        task.X_test.to_csv(folder / "test.csv", index=False)
        categories = list(task.X.select_dtypes("category").columns)
        words = {"categories": categories, "seconds": seconds, "cores": cores, "preset": preset}
        (folder / "task.json").write_text(json.dumps(words))
        script = Path(__file__).with_name("automl_rival.py")
        environment = {**os.environ, "OMP_NUM_THREADS": str(cores)}
        environment.pop("PYTHONPATH", None)  # the packages of this environment are of other versions
        done = subprocess.run(
            [python, str(script), str(folder)], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"AutoGluon failed:\n{done.stderr[-2000:]}")
        decided, run = pd.read_csv(folder / "decided.csv"), json.loads((folder / "run.json").read_text())
    seconds_used = (run[name] for name in ("fit_seconds", "processor_seconds", "decide_seconds"))
    return Run(decided["prediction"].to_numpy(), decided["risk"].to_numpy(), *seconds_used)


def measures(task: Task, run: Run) -> list[dict[str, Any]]:
    """Return one line for each cost: RcR loss, share and losses of accepted rows, and seconds."""
    error, lines = (run.prediction - task.y_test) ** 2, []
    for level, cost in task.costs.items():
        accepted = run.risk < cost
        lines.append(
            {
                "level": level,
                "cost": cost,
                "loss": np.where(accepted, error, cost).mean(),
                "accepted": accepted.mean(),
                "expected": run.risk[accepted].mean() if accepted.any() else np.nan,  # of the accepted rows
                "observed": error[accepted].mean() if accepted.any() else np.nan,
                "train_rows": len(task.y),
                "test_rows": len(task.y_test),
                "features": task.X.shape[1],
                "fit_seconds": run.fit_seconds,
                "processor_seconds": run.processor_seconds,
                "decide_seconds": run.decide_seconds,
            }
        )
    return lines


class Store:
    """All results in one CSV file, which is written as a whole after each run."""

    def __init__(self, folder: Path, again: list[str]) -> None:
        self.path = folder / "losses.csv"
        self.results: pd.DataFrame | None = None
        if self.path.exists():
            stored = self.read(self.path)
            self.results = stored[~stored["method"].isin(again)]

    @staticmethod
    def read(path: Path) -> pd.DataFrame:
        """Read the results of a file."""
        return pd.read_csv(path, dtype={"level": str, "limit": str}).fillna({"limit": ""})

    def merge(self, folder: Path) -> None:
        """Take over the runs of another folder, in place of stored runs of the same key, and write the file."""
        new = self.read(folder / "losses.csv")
        if self.results is not None:
            replaced = pd.MultiIndex.from_frame(self.results[KEY]).isin(pd.MultiIndex.from_frame(new[KEY]))
            new = pd.concat([self.results[~replaced], new], ignore_index=True)
        self.results = new.sort_values(KEY, kind="stable", ignore_index=True)
        self.write()

    def write(self) -> None:
        """Write the file as a whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(self.path) as file:
            file.write(self.results.to_csv(index=False, float_format="%.6g").encode())

    def has(self, key: tuple[Any, ...]) -> bool:
        """Whether this run is stored."""
        return self.results is not None and bool((self.results[KEY] == key).all(axis=1).any())

    def add(self, key: tuple[Any, ...], lines: list[dict[str, Any]]) -> None:
        """Add the lines of a run, and write the file."""
        new = pd.DataFrame([dict(zip(KEY, key, strict=True)) | line for line in lines])
        self.results = new if self.results is None else pd.concat([self.results, new], ignore_index=True)
        self.write()


def run_all(options: argparse.Namespace, store: Store) -> int:
    """Run what is not stored, one after the other, and return the number of failures."""
    methods = [(AUTOREJECTOR, options.preset, f"{options.seconds:g}")]
    if options.autogluon:
        methods.append((AUTOGLUON, options.autogluon_preset, f"{options.seconds:g}"))
    if options.no_limit:
        methods.append((NO_LIMIT, options.preset, ""))
    failures = 0
    for split in range(options.splits):
        for table in options.tables:
            task = None
            for method, setting, limit in methods:
                key = (table, split, method, setting, limit, options.cores)
                if store.has(key):
                    continue
                task = task or split_table(table, split)
                try:
                    if method == AUTOGLUON:
                        run = run_autogluon(options.autogluon, task, options.seconds, options.cores, setting)
                    else:
                        run = run_autorejector(task, float(limit) if limit else None, options.cores, setting)
                except RuntimeError as error:
                    failures += 1
                    print(f"{table}, split {split}, {method}: {error}", file=sys.stderr, flush=True)
                    continue
                lines = measures(task, run)
                store.add(key, lines)
                losses = " ".join(f"{line['loss']:.4g}" for line in lines)
                print(f"{table:24} split {split} {method:24} {run.fit_seconds:6.1f} s  loss {losses}", flush=True)
    return failures


def main() -> None:
    """Run the command line."""
    names = [*table_names(), *SIMULATORS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=names, default=names, metavar="TABLE")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit of a fit of each method")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--autogluon", metavar="PYTHON", help="interpreter of an environment with autogluon.tabular")
    parser.add_argument("--autogluon-preset", default="best_quality")
    parser.add_argument("--preset", default="balanced", help="preset of AutoRejector")
    parser.add_argument("--no-limit", action="store_true", help="also AutoRejector without a time limit")
    parser.add_argument(
        "--again",
        nargs="+",
        default=[],
        choices=[AUTOREJECTOR, NO_LIMIT, AUTOGLUON],
        metavar="METHOD",
        help="discard the stored results of these methods",
    )
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    parser.add_argument(
        "--merge", nargs="+", type=Path, default=[], metavar="FOLDER", help="take over the runs of other folders"
    )
    parser.add_argument("--page-only", action="store_true", help="write the page from the stored results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    store, failures = Store(options.output, options.again), 0
    for folder in options.merge:
        store.merge(folder)
    if not options.page_only:
        if hasattr(os, "sched_setaffinity"):  # also for the rival's process
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        failures = run_all(options, store)
    if store.results is None:
        sys.exit(f"{store.path} is not there")
    with new_file(options.output / "README.md") as file:
        file.write(page(store.results).encode())
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
