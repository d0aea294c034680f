"""Choices about AutoRejector, on folds of training rows: no test row of benchmarks/automl.py of the same split is used.

python benchmarks/training_folds.py processes                     squared errors of Gaussian processes
python benchmarks/training_folds.py losses -o before.csv          predictions and expected losses of held-out rows
python benchmarks/training_folds.py compare before.csv after.csv  RcR losses of two such runs, of two states of the code

With --tables, --splits and --folds for other rows, --seconds for a time limit, and --preset for another preset. The
tables of other packages are explained in benchmarks/public_tables.py.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from automl import Task, split_table
from public_tables import SIMULATORS, table_names
from recuse import AutoRejector
from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.files.atomic import new_file
from recuse.tabular.encoder import TableEncoder

KEY = ["table", "split", "fold", "row"]
TRIM = 0.95  # quantile of the squared errors that larger ones count as, in the second number of a cell
PROCESSES = {
    "ranks, 1 kernel": ("ranks", {}),
    "ranks, 2": ("ranks", {"parts": 2}),
    "ranks, 2, shrunk": ("ranks", {"parts": 2, "shrinkage": 0.1}),
    "ranks, 2, shrunk, robust": ("ranks", {"parts": 2, "shrinkage": 0.1, "robust": True}),
    "pieces, 3": ("pieces", {"parts": 3}),
    "pieces, 3, shrunk": ("pieces", {"parts": 3, "shrinkage": 0.1}),
    "pieces, 3, shrunk, robust": ("pieces", {"parts": 3, "shrinkage": 0.1, "robust": True}),
    "levels, 3, shrunk, robust": ("levels", {"parts": 3, "shrinkage": 0.1, "robust": True}),
}


def held_out(task: Task, folds: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Divide the training rows of a split: the number of a fold, the rows to fit to, and those to decide about."""
    divided = KFold(folds, shuffle=True, random_state=100 + task.split).split(task.y)
    for fold, (train, test) in enumerate(divided):
        yield fold, train, test


def losses(options: argparse.Namespace) -> None:
    """Fit AutoRejector to the other folds, and store predictions and expected losses of each fold."""
    parts = []
    for table in options.tables:
        for split in range(options.splits):
            task = split_table(table, split)
            cost = float(np.exp(np.log(list(task.costs.values())).mean()))
            for fold, train, test in held_out(task, options.folds):
                seed = 10 * split + fold
                model = AutoRejector(cost, options.seconds, random_state=seed, n_jobs=1, preset=options.preset)
                model.fit(task.X.iloc[train], task.y[train], groups=np.arange(len(train)))
                rows = task.X.iloc[test]
                columns = {"target": task.y[test], "prediction": model.predict(rows), "risk": model.expected_loss(rows)}
                own = {"table": table, "split": split, "fold": fold, "row": test}
                parts.append(pd.DataFrame(own | columns))
                with new_file(options.output) as file:
                    file.write(pd.concat(parts).to_csv(index=False).encode())
            print(f"{table}, split {split}", flush=True)


def compare(before: Path, after: Path) -> None:
    """Print ratios of RcR losses at each cost, and of mean squared errors, of the rows that both have."""
    both = pd.read_csv(before).merge(pd.read_csv(after), on=[*KEY, "target"], suffixes=("_before", "_after"))
    for table, rows in both.groupby("table"):
        sums: dict[str, list[np.ndarray]] = {"before": [], "after": []}
        errors = {state: ((rows[f"prediction_{state}"] - rows["target"]) ** 2).to_numpy() for state in sums}
        for split in rows["split"].unique():
            own = (rows["split"] == split).to_numpy()
            costs = np.array(list(split_table(str(table), int(split)).costs.values()))[:, None]
            for state, parts in sums.items():
                risk = rows[f"risk_{state}"].to_numpy()[own]
                parts.append(np.where(risk < costs, errors[state][own], costs).sum(axis=1))
        ratios = sum(sums["after"]) / sum(sums["before"])
        squared = errors["after"].mean() / errors["before"].mean()
        print(
            f"{table:24} {len(rows):6} rows, RcR loss {np.exp(np.log(ratios).mean()):.3f} ("
            f"{' '.join(f'{ratio:.3f}' for ratio in ratios)}), squared error {squared:.3f}"
        )


def processes(tables: list[str], splits: int, folds: int) -> None:
    """Print out-of-fold squared errors of processes relative to the first of them: all, and without large ones."""
    for table in tables:
        errors: dict[str, list[np.ndarray]] = {name: [] for name in PROCESSES}
        for split in range(splits):
            task = split_table(table, split)
            features = TableEncoder("novel").fit(task.X, np.ones(len(task.y))).transform(task.X)
            for _, train, test in held_out(task, folds):
                for name, (expansion, settings) in PROCESSES.items():
                    model = ExpandedFeatures(GaussianProcess(**settings, random_state=0), expansion)
                    prediction = model.fit(features[train], task.y[train]).predict(features[test])
                    errors[name].append((prediction - task.y[test]) ** 2)
        pooled = {name: np.concatenate(parts) for name, parts in errors.items()}
        first = next(iter(pooled.values()))
        most = np.quantile(first, TRIM)
        print(f"{table}, {len(first)} rows, mean squared error {first.mean():.4g}")
        for name, own in pooled.items():
            trimmed = np.minimum(own, most).mean() / np.minimum(first, most).mean()
            print(f"  {name:28} {own.mean() / first.mean():.3f} {trimmed:.3f}", flush=True)


def main() -> None:
    """Run the command line."""
    names = [*table_names(), *SIMULATORS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["processes", "losses", "compare"])
    parser.add_argument("runs", nargs="*", type=Path, help="two files, to compare")
    parser.add_argument("--tables", nargs="+", choices=names, default=["concrete", "airfoil"], metavar="TABLE")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seconds", type=float, help="time limit of a fit; by default there is none")
    parser.add_argument("--preset", default="balanced", help="preset of AutoRejector")
    parser.add_argument("-o", "--output", type=Path, default=Path("training_folds.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "compare":
        if len(options.runs) != 2:
            parser.error("compare needs two files")
        compare(*options.runs)
    elif options.what == "losses":
        losses(options)
    else:
        processes(options.tables, options.splits, options.folds)


if __name__ == "__main__":
    main()
