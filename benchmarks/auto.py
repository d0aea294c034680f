"""How good AutoRejector is where the truth is known, how well its risk is calibrated, and how it scales.

python benchmarks/auto.py bayes         loss over Bayes risk on 20,000 rows
python benchmarks/auto.py calibration   expected against observed loss over ten bins, on test rows
python benchmarks/auto.py scale         a million rows in ten minutes
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd

from recuse import AutoRejector, datasets, theory


def bayes(n_jobs: int) -> None:
    """Fit to 20,000 rows of known mean and variance; measure on fresh ones."""
    X, y, _, _ = datasets.make_heteroscedastic(20_000, random_state=0)
    X_new, _, mean, variance = datasets.make_heteroscedastic(100_000, random_state=1)
    costs = np.quantile(variance, [0.25, 0.5, 0.75])
    start = time.monotonic()
    model = AutoRejector(float(costs[1]), random_state=0, n_jobs=n_jobs).fit(X, y)
    print(f"fitted in {time.monotonic() - start:.0f} s\n{model.leaderboard_.to_string(index=False)}\n")
    error, risk = (model.predict(X_new) - mean) ** 2 + variance, model.expected_loss(X_new)  # over the noise
    for cost in costs:
        loss, best = np.where(risk < cost, error, cost).mean(), theory.bayes_risk(variance, cost)
        agreement = np.mean((risk < cost) == (variance < cost))
        print(f"cost {cost:.3f}: loss / Bayes risk {loss / best:.4f}, agreement with Bayes' rule {agreement:.1%}")


def calibration(n_jobs: int, repeats: int = 4) -> None:
    """Pool the test rows of the splits, sort them into ten bins by expected loss, and compare the means."""
    for name, cost in (("concrete", 36.0), ("abalone", 4.0)):
        expected, observed = [], []
        for repeat in range(repeats):
            train, validation, (X, y) = datasets.split(datasets.load(name), repeat)
            both = pd.concat([train[0], validation[0]]), np.concatenate([train[1], validation[1]])
            model = AutoRejector(cost, random_state=repeat, n_jobs=n_jobs).fit(*both)
            expected.append(model.expected_loss(X))
            observed.append((model.predict(X) - np.asarray(y)) ** 2)
        said, seen = np.concatenate(expected), np.concatenate(observed)
        bins = np.array_split(np.argsort(said), 10)
        table = pd.DataFrame({"expected": [said[b].mean() for b in bins], "observed": [seen[b].mean() for b in bins]})
        print(f"\n{name}, {repeats} splits\n{table.assign(ratio=table['observed'] / table['expected']).round(3)}")
        print(f"over all rows {seen.mean() / said.mean():.3f}")


def scale(n_jobs: int, rows: int = 1_000_000, limit: float = 600.0) -> None:
    """Fit to many rows in limited time; compare with boosted trees that always or never reject."""
    X, y, _, _ = datasets.make_heteroscedastic(rows, n_features=20, random_state=0)
    X_new, _, mean, variance = datasets.make_heteroscedastic(50_000, n_features=20, random_state=1)
    cost = float(np.median(variance))
    start = time.monotonic()
    model = AutoRejector(cost, time_limit=limit, random_state=0, n_jobs=n_jobs).fit(X, y)
    print(f"{rows} rows x 20 fitted in {time.monotonic() - start:.0f} s of {limit:.0f} s allowed")
    print(f"peak memory {_peak():.2f} GiB\n{model.leaderboard_.to_string(index=False)}")
    start = time.monotonic()
    decision = model.decide(X_new)
    error = (decision.prediction - mean) ** 2 + variance
    loss, best = np.where(decision.accepted, error, cost).mean(), theory.bayes_risk(variance, cost)
    print(f"loss / Bayes risk {loss / best:.4f}; {len(X_new) / (time.monotonic() - start):.0f} rows decided a second")


def _peak() -> float:
    """Of this process and of the largest of its children, in GiB."""
    kilobytes = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return kilobytes / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bayes", "calibration", "scale"])
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    {"bayes": bayes, "calibration": calibration, "scale": scale}[chosen.what](chosen.jobs)
