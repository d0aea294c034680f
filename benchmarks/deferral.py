"""Total loss of DeferralRegressor, divided by the Bayes risk of the best assignment, on synthetic data.

    OMP_NUM_THREADS=1 python benchmarks/deferral.py

20,000 training rows, 100,000 new rows, and two experts who see the target with noise that depends on the features in
different ways. The "day" expert has looked at half of the training rows only. All other parameters are defaults. The
last lines have capacities, and divide by the lowest expected total of any assignment within them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from recuse import DeferralRegressor
from recuse.datasets import make_heteroscedastic
from recuse.experts.assignment import assign

Floats = NDArray[np.float64]

FEES = {"day": 0.3, "night": 0.1}
CAPACITIES = {"day": 0.1, "night": 0.15}


def expert_variances(X: Floats) -> dict[str, Floats]:
    """Return the variance of each expert's answer around the target."""
    x1, x2, x3, x4 = X.T[:4]
    return {"day": 0.15 * np.exp(2 * np.tanh(x2 + x3)), "night": 0.3 * np.exp(2 * np.tanh(x4 - x1))}


def answers(X: Floats, y: Floats, seed: int) -> dict[str, Floats]:
    """Return the predictions of the experts."""
    random = np.random.RandomState(seed)
    return {name: y + np.sqrt(each) * random.normal(size=len(y)) for name, each in expert_variances(X).items()}


def main() -> None:
    """Print a line without and one with capacities."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    print(f"{'seed':>4} {'capacities':>10} {'total / Bayes risk':>19} {'shares':>18} {'fit':>6}")
    for seed in range(arguments.seeds):
        X, y, _, _ = make_heteroscedastic(arguments.rows, random_state=seed)
        X_new, y_new, _, variance = make_heteroscedastic(100_000, random_state=10_000 + seed)
        recorded = answers(X, y, seed + 1)
        recorded["day"][np.random.RandomState(seed).uniform(size=len(y)) < 0.5] = np.nan
        columns = [variance, *(each + FEES[name] for name, each in expert_variances(X_new).items())]
        costs = np.column_stack(columns)
        start = time.perf_counter()
        experts = {name: (column, FEES[name]) for name, column in recorded.items()}
        model = DeferralRegressor(experts, random_state=seed).fit(X, y)
        seconds = time.perf_counter() - start
        for capacities in ({}, CAPACITIES):
            decision = model.decide(X_new, capacities=capacities)
            limits = np.array([int(capacities.get(name, 1.0) * len(y_new)) for name in FEES])
            best = costs[np.arange(len(costs)), assign(costs, limits)].mean()
            measures = decision.evaluate(y_new, answers(X_new, y_new, seed + 2))
            shares = " ".join(f"{measures.loc[name, 'share']:.2f}" for name in decision.names)
            total = measures.loc["total", "total"] / best
            limited = "yes" if capacities else "no"
            print(f"{seed:4} {limited:>10} {total:19.4f} {shares:>18} {seconds:5.0f}s", flush=True)


if __name__ == "__main__":
    main()
