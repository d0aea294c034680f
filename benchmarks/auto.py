"""Loss, calibration, thresholds and run time of AutoRejector.

python benchmarks/auto.py bayes         RcR loss divided by the Bayes risk, fitted to 20,000 synthetic rows
python benchmarks/auto.py calibration   expected against observed loss over ten bins, on test rows
python benchmarks/auto.py budget        rejection rates of thresholds chosen on out-of-fold scores, and RcR losses
python benchmarks/auto.py split         seconds to fit splits of abalone and auto-mpg
python benchmarks/auto.py limit         seconds and out-of-fold losses with time limits, on tables of odd shapes too
python benchmarks/auto.py scale         fit to a million rows in ten minutes
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd

from recuse import AutoRejector, datasets, guarantees, theory

NEAR = 0.15  # distance from 1 of a ratio of observed and expected loss that is called right


def bayes(n_jobs: int, seeds: int = 3) -> None:
    """Fit to 20,000 rows of known mean and variance; measure on fresh ones."""
    ratios = []
    for seed in range(seeds):
        X, y, _, _ = datasets.make_heteroscedastic(20_000, random_state=seed)
        X_new, _, mean, variance = datasets.make_heteroscedastic(100_000, random_state=seeds + seed)
        costs = np.quantile(variance, [0.25, 0.5, 0.75])
        start = time.monotonic()
        model = AutoRejector(float(costs[1]), random_state=seed, n_jobs=n_jobs).fit(X, y)
        print(f"fitted in {time.monotonic() - start:.0f} s\n{model.leaderboard_.to_string(index=False)}\n")
        error, risk = (model.predict(X_new) - mean) ** 2 + variance, model.expected_loss(X_new)  # over the noise
        for cost in costs:
            loss, best = np.where(risk < cost, error, cost).mean(), theory.bayes_risk(variance, cost)
            ratios.append(loss / best)
            agreement = np.mean((risk < cost) == (variance < cost))
            print(f"cost {cost:.3f}: loss / Bayes risk {ratios[-1]:.4f}, agreement with Bayes' rule {agreement:.1%}")
    print(f"mean over costs and {seeds} seeds: {np.mean(ratios):.4f}", flush=True)


def calibration(n_jobs: int, repeats: int = 10) -> None:
    """Pool the test rows of the splits, sort them into ten bins by expected loss, and compare the means.

    Test rows that equal a training row are excluded from the bins and from the ratio of new rows. A row may be a
    test row of several splits, so the intervals resample rows, each with all its splits. The last line says how many
    bins would be within 15% if all expected losses were right: the resampled ratios then have the mean 1.
    """
    for name, cost in (("concrete", 36.0), ("abalone", 4.0), ("airfoil", 16.0)):
        tested = pd.concat(
            [_expected_and_observed(name, cost, repeat, n_jobs) for repeat in range(repeats)], ignore_index=True
        )
        rows = tested[~tested["copy"]].sort_values("expected")
        bins = rows.groupby(np.arange(len(rows)) * 10 // len(rows) + 1)
        table = bins[["expected", "observed"]].mean()
        table["ratio"] = table["observed"] / table["expected"]
        ratios = [_resampled_ratios(part, seed=number) for number, part in bins]
        table[["low", "high"]] = [_interval(each) for each in ratios]
        print(f"\n{name}, {repeats} splits\n{table.round(3)}")
        for what, part in (("new", rows), ("all", tested)):
            ratio, (low, high) = part["observed"].sum() / part["expected"].sum(), _interval(_resampled_ratios(part))
            print(f"{what} test rows, {len(part)}: {ratio:.3f} ({low:.3f} to {high:.3f})", flush=True)
        within = np.abs(table["ratio"] - 1) <= NEAR
        counts = sum(np.abs(each / each.mean() - 1) <= NEAR for each in ratios)  # the bins are resampled independently
        print(
            f"bins within 15%: {within.sum()}; with right expected losses {counts.mean():.1f} on average, "
            f"9 or more in {np.mean(counts >= 9):.0%}",
            flush=True,
        )


def _expected_and_observed(name: str, cost: float, repeat: int, n_jobs: int) -> pd.DataFrame:
    train, validation, (X, y) = datasets.split(datasets.load(name), repeat)
    both = pd.concat([train[0], validation[0]]), np.concatenate([train[1], validation[1]])
    model = AutoRejector(cost, random_state=repeat, n_jobs=n_jobs).fit(*both)
    known = set(both[0].itertuples(index=False, name=None))
    return pd.DataFrame(
        {
            "row": X.index,
            "copy": [row in known for row in X.itertuples(index=False, name=None)],
            "expected": model.expected_loss(X),
            "observed": (model.predict(X) - np.asarray(y)) ** 2,
        }
    )


def _resampled_ratios(rows: pd.DataFrame, draws: int = 2000, seed: int = 0) -> np.ndarray:
    """Return bootstrap draws (draw,) of the ratio of observed and expected loss, over rows of the table."""
    sums = rows.groupby("row")[["observed", "expected"]].sum().to_numpy()
    chosen = np.random.default_rng(seed).integers(len(sums), size=(draws, len(sums)))
    observed, expected = sums[chosen].sum(axis=1).T
    return observed / expected


def _interval(ratios: np.ndarray) -> tuple[float, float]:
    """Return the 95% interval of resampled ratios."""
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def budget(n_jobs: int, repeats: int = 10) -> None:
    """Choose thresholds on out-of-fold scores for given shares of rejections; measure the shares of test rows."""
    shares = (0.1, 0.2, 0.4)
    for name in ("auto_mpg", "housing"):
        data, achieved, losses = datasets.load(name), [], []
        for repeat in range(repeats):
            train, validation, (X, y) = datasets.split(data, repeat)
            both = pd.concat([train[0], validation[0]]), pd.concat([train[1], validation[1]])
            middle = float(np.exp(np.log(data.costs).mean()))
            model = AutoRejector(middle, random_state=repeat, n_jobs=n_jobs).fit(*both)
            score = model.decision_function(X)
            thresholds = [guarantees.by_budget(model.out_of_fold_["score"], share) for share in shares]
            achieved.append([np.mean(score <= threshold) for threshold in thresholds])
            losses.append([model.decide(X, cost=cost).evaluate(y)["rcr_loss"] for cost in data.costs])
        print(f"\n{name}, mean of {repeats} splits")
        for share, mean, deviation in zip(shares, np.mean(achieved, 0), np.std(achieved, 0, ddof=1), strict=True):
            print(f"  requested {share:.0%}, achieved {mean:.1%} (standard error {deviation / repeats**0.5:.1%})")
        pairs = zip(data.costs, np.mean(losses, axis=0), strict=True)
        print("  RcR loss " + ", ".join(f"{loss:.2f} at cost {cost:g}" for cost, loss in pairs), flush=True)


def split(n_jobs: int) -> None:
    """Time fits to one split of abalone and, in one process, to three splits of auto-mpg; and decisions of abalone."""
    model, (X, y) = _timed_fit("abalone", 0, n_jobs)
    print(model.leaderboard_.to_string(index=False))
    for cost in (4.0, 6.0):
        start = time.monotonic()
        loss = model.decide(X, cost=cost).evaluate(y)["rcr_loss"]
        print(f"cost {cost}: RcR loss {loss:.3f}, {len(X)} rows decided in {time.monotonic() - start:.1f} s")
    for repeat in range(3):
        _timed_fit("auto_mpg", repeat, n_jobs=1)


def _timed_fit(name: str, repeat: int, n_jobs: int) -> tuple[AutoRejector, tuple[pd.DataFrame, np.ndarray]]:
    """Fit to training and validation rows, print the time, and return the model and the test rows."""
    data = datasets.load(name)
    train, validation, test = datasets.split(data, repeat)
    both = pd.concat([train[0], validation[0]]), np.concatenate([train[1], validation[1]])
    start, processor = time.monotonic(), time.process_time()
    model = AutoRejector(data.costs[1], random_state=0, n_jobs=n_jobs).fit(*both)
    seconds = f"{time.monotonic() - start:.1f} s, {time.process_time() - processor:.1f} s of this process"
    print(f"{name}, split {repeat}: {len(both[1])} rows fitted in {seconds}")
    return model, test


def limit(n_jobs: int) -> None:
    """Fit with time limits: seconds used, and the out-of-fold RcR loss of the blend."""
    random = np.random.default_rng(0)
    wide = random.normal(size=(200, 5000))
    texts = pd.DataFrame({"a": random.normal(size=2000), "b": random.normal(size=2000)})
    for name, values in (("id", 2000), ("reference", 1500)):
        texts[name] = [f"{name} {number}" for number in random.integers(values, size=2000)]
    train, validation, _ = datasets.split(datasets.load("concrete"), 0)
    concrete = pd.concat([train[0], validation[0]]), pd.concat([train[1], validation[1]]), 36.0, (10, 25, 60, None)
    tables = {
        "200 x 5,000": (wide, wide[:, 0] + random.normal(size=200), 1.0, (20,)),
        "two texts": (texts, texts["a"] + random.normal(size=2000) * np.exp(texts["b"] / 2), 1.0, (30,)),
        "concrete": concrete,
    }
    for name, (X, y, cost, limits) in tables.items():
        for seconds in limits:
            start, processor = time.monotonic(), time.process_time()
            model = AutoRejector(cost, time_limit=seconds, random_state=0, n_jobs=n_jobs).fit(X, y)
            wall, processor = time.monotonic() - start, time.process_time() - processor
            loss = model.leaderboard_.set_index("name").loc["blend", "rcr_loss"]
            print(
                f"{name}, limit {seconds}: {wall:.1f} s, {processor:.1f} s of processor time, loss {loss:.3f}",
                flush=True,
            )


def scale(n_jobs: int, rows: int = 1_000_000, limit: float = 600.0) -> None:
    """Fit to many rows in limited time, and compare the loss with the Bayes risk."""
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
    print(f"loss / Bayes risk {loss / best:.4f}; {len(X_new) / (time.monotonic() - start):.0f} rows decided per second")


def _peak() -> float:
    """Give the peak memory of this process plus that of its largest child process, in GiB."""
    kilobytes = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return kilobytes / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = {task.__name__: task for task in (bayes, budget, calibration, split, limit, scale)}
    parser.add_argument("what", choices=list(tasks))
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    tasks[chosen.what](chosen.jobs)
