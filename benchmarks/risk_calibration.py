"""Expected against observed loss of new rows, on tables of several packages.

Rows are accepted because their risk was estimated low, so their loss can be higher than expected (the winner's curse).
Every table is divided into five folds, each of which is tested once; with ten splits there are two divisions. Test rows
that equal a training row are left out. For each table:

- for costs of half the mean out-of-fold loss and of all of it: expected over observed loss of the accepted rows (1 is
  calibrated, below 1 the expected loss is too low), the share of accepted rows, and the RcR loss over the cost;
- the Poisson deviance of the observed losses from the expected ones, relative to that from a constant: the quality of
  the risk for a given regressor, which does not depend on the cost;
- observed over expected loss by tenths of the expected loss, of the test rows of all splits together.

    OMP_NUM_THREADS=1 python benchmarks/risk_calibration.py
    OMP_NUM_THREADS=1 python benchmarks/risk_calibration.py --estimator auto
    OMP_NUM_THREADS=1 python benchmarks/risk_calibration.py --splits 10 --tables abalone airfoil concrete
"""

from __future__ import annotations

import argparse
import warnings
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.model_selection import RepeatedKFold

from public_tables import load_table, table_names, take
from recuse import AutoRejector, RiskRejector

SHARES = (0.5, 1.0)


def main() -> None:
    """Print two lines for each table, and the number of tables within 15%."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--estimator", choices=("risk", "auto"), default="risk")
    parser.add_argument("--splits", type=int, default=5, help="at most ten")
    parser.add_argument("--tables", nargs="*", default=table_names())
    parser.add_argument("--rows", type=int, default=3000, help="most rows of a table")
    parser.add_argument("--seed", type=int, default=0, help="of the splits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    costs = "".join(f" | cost {share:3.1f}: ratio  accepted  loss" for share in SHARES)
    print(f"{'table':24}{'rows':>6}{'power':>7}{'factor':>8}{costs} | deviance")
    within = []
    for name in options.tables:
        X, y = load_table(name, options.rows)
        splits = RepeatedKFold(n_splits=5, n_repeats=2, random_state=options.seed).split(y)
        runs = [run(options.estimator, X, y, *split, seed) for seed, split in enumerate(islice(splits, options.splits))]
        rows, cells = pd.concat([rows for rows, _ in runs]), pd.DataFrame([cells for _, cells in runs])
        means = [accepted_rows(rows, share) for share in SHARES]
        parts = "".join(f" | {ratio:15.2f}{coverage:10.2f}{loss:6.2f}" for ratio, coverage, loss in means)
        power, factor = cells["power"].mean(), cells["factor"].mean()
        print(f"{name:24}{len(y):6}{power:7.2f}{factor:8.2f}{parts} | {relative_deviance(rows):8.3f}")
        print(f"{'':12}observed / expected by tenths " + " ".join(f"{ratio:.2f}" for ratio in tenths(rows)), flush=True)
        within.append([0.85 <= ratio <= 1.15 for ratio, _, _ in means])
    counts = np.sum(within, axis=0)
    print(f"between 0.85 and 1.15: {', '.join(f'{count} of {len(within)}' for count in counts)}")


def run(
    estimator: str, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the expected and the observed loss of new rows, over the mean out-of-fold loss, and what was learned."""
    model: Any = RiskRejector(random_state=seed).fit(take(X, train), y[train])
    if estimator == "auto":
        cost = out_of_fold_loss(model) / 2
        model = AutoRejector(cost=cost, random_state=seed).fit(take(X, train), y[train])
    unit = out_of_fold_loss(model)
    new = test[~is_copy(X, test, train)]
    expected, error = model.expected_loss(take(X, new)), (model.predict(take(X, new)) - y[new]) ** 2
    rows = pd.DataFrame({"expected": expected / unit, "observed": error / unit})
    return rows, {"power": model.rule_.calibration.power, "factor": model.rule_.factor}


def out_of_fold_loss(model: Any) -> float:
    """Return the mean squared error of the out-of-fold predictions."""
    table = model.out_of_fold_.dropna()
    return float(((table["prediction"] - table["target"]) ** 2).mean())


def is_copy(X: Any, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether rows have the features of one of the others."""
    frame = pd.DataFrame(X)
    known = frame.iloc[others].drop_duplicates()
    return frame.iloc[rows].merge(known, how="left", indicator=True)["_merge"].eq("both").to_numpy()


def accepted_rows(rows: pd.DataFrame, cost: float) -> tuple[float, float, float]:
    """Return expected over observed loss of the accepted rows, their share, and the RcR loss over the cost."""
    accepted = rows["expected"] < cost
    sums = rows[accepted].sum()
    ratio = sums["expected"] / sums["observed"] if sums["observed"] > 0 else np.nan
    return float(ratio), float(accepted.mean()), float(rows["observed"].where(accepted, cost).mean() / cost)


def relative_deviance(rows: pd.DataFrame) -> float:
    """Return the Poisson deviance of the observed losses, relative to that of their mean."""
    observed = rows["observed"]

    def deviance(expected: Any) -> float:
        return float((xlogy(observed, observed / expected) - observed + expected).mean())

    return deviance(rows["expected"]) / deviance(observed.mean())


def tenths(rows: pd.DataFrame) -> list[float]:
    """Return observed over expected loss, by tenths of the expected loss."""
    ordered = rows.sort_values("expected")
    sums = ordered.groupby(np.arange(len(ordered)) * 10 // len(ordered)).sum()
    return list(sums["observed"] / sums["expected"])


if __name__ == "__main__":
    main()
