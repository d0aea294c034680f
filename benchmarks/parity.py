"""Agreement of model files with their estimators on 100,000 rows with unseen categories and gaps.

python benchmarks/parity.py                      all estimators, losses and targets of the tests
python benchmarks/parity.py --rows 5000 auto     fewer rows, and only the cases with this word

Prints the largest difference of the predictions, relative to the largest prediction, the number of decisions that
differ, and how many of them have a score that is not below a millionth of the cost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import recuse

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from saved_estimators import CASES, FRAME, RANDOM, Y, messy
from saved_estimators import NEW as TEST


def new_rows(count: int) -> pd.DataFrame:
    """Return rows near the test rows, with unseen categories, gaps and numbers outside the range."""
    table = TEST.iloc[RANDOM.randint(len(TEST), size=count)].reset_index(drop=True)
    for name in ("displacement", "horsepower", "weight", "acceleration"):
        table[name] = table[name].astype(float) * RANDOM.uniform(0.9, 1.1, size=count)
    return messy(table, new=True)


def compare(name: str, rows: pd.DataFrame, path: Path) -> bool:
    """Print the differences of one case; return whether it is within the bounds."""
    model, fit, decide = CASES[name]
    fit = dict(fit)
    model.fit(FRAME, fit.pop("y", Y), **fit)
    recuse.save(model, path)
    served = recuse.load(path)
    costs = {key: np.resize(value, len(rows)) if np.ndim(value) else value for key, value in decide.items()}
    start = time.perf_counter()
    expected = model.decide(rows, **costs)
    middle = time.perf_counter()
    found = served.decide(rows, **costs)
    end = time.perf_counter()
    relative = np.abs(found.prediction - expected.prediction).max() / np.abs(expected.prediction).max()
    differ = found.accepted != expected.accepted
    clear = int((differ & (np.abs(expected.score) >= 1e-6 * np.maximum(expected.cost, 1e-300))).sum())
    print(
        f"{name:28} {relative:12.1e} {int(differ.sum()):8} {clear:8} {middle - start:12.2f} {end - middle:8.2f}",
        flush=True,
    )
    return bool(relative <= 1e-6) and clear == 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only the cases with one of these words in their names")
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = new_rows(options.rows)
    print(f"{'case':28} {'difference':>12} {'differ':>8} {'clear':>8} {'estimator, s':>12} {'file, s':>8}")
    names = [name for name in CASES if not options.words or any(word in name for word in options.words)]
    with tempfile.TemporaryDirectory() as folder:
        within = [compare(name, rows, Path(folder, "model.recuse")) for name in names]
    print(f"{sum(within)} of {len(within)} cases within 1e-6")
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
