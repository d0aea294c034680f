"""Expected and observed loss of accepted rows, on tables of several packages.

Rows are accepted because their risk was estimated low, so their loss can be higher than expected (the winner's curse).
For each table the cost is the mean out-of-fold loss, or half of it. A ratio of 1 is calibrated; below 1 the expected
loss is too low.

    OMP_NUM_THREADS=1 python benchmarks/risk_calibration.py
    OMP_NUM_THREADS=1 python benchmarks/risk_calibration.py --estimator auto --splits 2
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.model_selection import ShuffleSplit

from public_tables import load_table, table_names, take
from recuse import AutoRejector, RiskRejector

SHARES = (0.5, 1.0)


def main() -> None:
    """Print one line for each table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--estimator", choices=("risk", "auto"), default="risk")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--tables", nargs="*", default=table_names())
    parser.add_argument("--rows", type=int, default=6000, help="most rows of a table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'table':24}{'rows':>6}{'power':>7}"
        + "".join(f" | cost {share:g}: ratio  accepted  loss" for share in SHARES)
    )
    for name in options.tables:
        X, y = load_table(name, options.rows)
        splits = ShuffleSplit(options.splits, test_size=0.25, random_state=0).split(y)
        runs = [run(options.estimator, X, y, *split, seed) for seed, split in enumerate(splits)]
        power, cells = float(np.mean([power for power, _ in runs])), np.array([cells for _, cells in runs])
        expected, observed, accepted, loss = np.moveaxis(cells, 2, 0)  # each (split, share)
        ratio = expected.sum(axis=0) / np.maximum(observed.sum(axis=0), 1e-300)
        means = zip(ratio, accepted.mean(axis=0), loss.mean(axis=0), strict=True)
        parts = [f" | {each:15.2f}{share:10.2f}{paid:6.2f}" for each, share, paid in means]
        print(f"{name:24}{len(y):6}{power:7.2f}" + "".join(parts), flush=True)


def run(estimator: str, X: object, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int) -> tuple[float, list]:
    """Return the power of the calibration and, for each cost, expected and observed loss, coverage and RcR loss."""
    scale = float(np.var(y[train]))  # AutoRejector prefers costs near the given one
    model = RiskRejector(random_state=seed) if estimator == "risk" else AutoRejector(cost=scale / 4, random_state=seed)
    model.fit(take(X, train), y[train])
    table = model.out_of_fold_.dropna()
    mean = float(((table["prediction"] - table["target"]) ** 2).mean())
    expected, error = model.expected_loss(take(X, test)), (model.predict(take(X, test)) - y[test]) ** 2
    cells = []
    for share in SHARES:
        accepted = expected < share * mean
        paid = np.where(accepted, error, share * mean).mean() / (share * mean)
        cells.append((expected[accepted].sum(), error[accepted].sum(), accepted.mean(), paid))
    return model._calibration.power, cells


if __name__ == "__main__":
    main()
