"""Certificates: how often a promise does not hold, how much they accept, and budgets.

    OMP_NUM_THREADS=1 python benchmarks/certificates.py            # all tables, some five minutes
    OMP_NUM_THREADS=1 python benchmarks/certificates.py --quick    # a tenth of the simulations
    OMP_NUM_THREADS=1 python benchmarks/certificates.py misuse     # only the table of misuse

- validity: calibrations in four settings for both targets. A violation is a certified threshold at which the true mean
  is above the target; in the setting "boundary", where it equals the target at every threshold, any certificate is one.
- usefulness: coverage of a certificate from 5,000 rows with the true risk as score, over that of the best threshold.
- rivals: mean coverage that is certified by other one-sided tests of the same thresholds on the same rows.
- misuse: share of trials that end with a false certificate, where the mean loss is above the target at every threshold
  and somebody repeats rows, or tries other rows, models or targets until a certificate is given; and how often an
  honest first attempt succeeds.
- budget: share of new rows that is rejected by `by_budget` and `by_cost_within_budget`.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr
from sklearn.linear_model import LinearRegression

import recuse
from recuse.datasets import make_heteroscedastic
from recuse.decision import Decision
from recuse.guarantees import CannotCertify, by_budget, by_cost_within_budget, certify
from recuse.guarantees.betting import refutes
from recuse.guarantees.request import BoundedValues, thresholds_to_test

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Test = Callable[[Floats, float, float, "Flags | None"], Flags]
Draw = Callable[[np.random.Generator, tuple[int, ...]], tuple[Floats, Floats, Floats]]

DELTA = 0.05
PILOT = 500
TRUTH = 2_000_000
BATCH = 250


@dataclass(frozen=True)
class Setting:
    """A distribution of (score, loss, cost), the bound of the loss, and the targets."""

    name: str
    draw: Draw
    n_rows: int
    bound: float
    cost_bound: float
    accepted_target: float
    rcr_target: float

    def target(self, what: str) -> float:
        """Return the target of a kind of certificate."""
        return self.accepted_target if what == "accepted_loss" else self.rcr_target

    def values(self, what: str, loss: Floats, cost: Floats) -> BoundedValues:
        """Return what the rows count."""
        limit = self.bound if what == "accepted_loss" else max(self.bound, self.cost_bound)
        return BoundedValues.of_rows(
            loss, None if what == "accepted_loss" else cost, self.target(what), self.bound, limit
        )


def heavy_tails(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Draw squared errors with 2.2 degrees of freedom, whose fourth moment is infinite; a constant cost."""
    risk = random.exponential(size=shape) + 0.1
    cost = np.full(shape, 2.0)
    return cost - risk, risk * random.standard_t(2.2, shape) ** 2 / 3, cost


def few_accepted(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Draw rows of which few have a small loss."""
    easy = random.random(shape) < 0.3
    risk = np.where(easy, 0.1, 4.0) * random.uniform(0.5, 1.5, shape)
    cost = np.full(shape, 1.0)
    return cost - risk, risk * random.chisquare(1, shape), cost


def cost_per_row(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Draw costs of the rows, and errors whose size the score knows roughly."""
    risk, cost = random.gamma(2.0, size=shape), random.uniform(0.0, 4.0, shape)
    known = risk * random.lognormal(0.0, 0.3, shape)
    return cost - known, risk * random.chisquare(2, shape) / 2, cost


def boundary(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Draw losses of 20 with probability 1/20 and else 0, whatever the score; cost and mean loss are 1."""
    return random.normal(size=shape), 20.0 * (random.random(shape) < 0.05), np.ones(shape)


SETTINGS = (
    Setting("heavy tails", heavy_tails, 1000, 20.0, 2.0, 0.8, 1.1),
    Setting("few accepted", few_accepted, 300, 5.0, 1.0, 0.4, 0.85),
    Setting("cost per row", cost_per_row, 1000, 20.0, 4.0, 1.6, 1.5),
    Setting("boundary", boundary, 400, 20.0, 1.0, 1.0, 1.0),
)


def hoeffding_bentkus(values: Floats, mean: float, delta: float, used: Flags | None = None) -> Flags:
    """Test by the smaller of the p-values of Hoeffding and of Bentkus (Bates et al. 2021)."""
    used = np.ones(values.shape, np.bool_) if used is None else used
    count = used.sum(axis=0).astype(np.float64)
    total = np.where(used, values, 0.0).sum(axis=0)
    seen = np.minimum(total / np.maximum(count, 1), mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(seen > 0, seen * np.log(seen / mean), 0.0) + (1 - seen) * np.log((1 - seen) / (1 - mean))
    bentkus = math.e * bdtr(np.minimum(np.ceil(total), count), count.astype(int), mean)
    return np.asarray((np.minimum(np.exp(-count * entropy), bentkus) <= delta) & (count > 0))


def variance_bets(published: str) -> Test:
    """Return a test by bets from a variance: "wsr" (Waudby-Smith and Ramdas) or "star" (STaR-Bets as published)."""

    def test(values: Floats, mean: float, delta: float, used: Flags | None = None) -> Flags:
        used = np.ones((len(values),) + (1,) * (values.ndim - 1), np.bool_) if used is None else used
        shape = np.broadcast_shapes(values.shape, used.shape)[1:]
        total = np.broadcast_to(used, (len(values), *shape)).sum(axis=0)
        goal, largest_bet = math.log(1 / delta), 0.75 / (1 - mean)
        seen, sums, squares = np.zeros(shape), np.full(shape, 0.5), np.full(shape, 0.25)
        wealth, largest = np.zeros(shape), np.zeros(shape)
        for value, now in zip(values, used, strict=True):
            variance = squares / (seen + 1)
            missing = np.full(shape, goal) if published == "wsr" else np.maximum(goal - wealth, 0)
            rounds = np.maximum(total if published == "wsr" else total - seen, 1)
            bet = np.minimum(np.sqrt(2 * missing / (rounds * variance)), largest_bet)
            wealth = wealth + np.where(now, np.log1p(-bet * (value - mean)), 0.0)
            largest = np.maximum(largest, wealth)
            seen, sums = seen + now, sums + np.where(now, value, 0.0)
            squares = squares + np.where(now, (value - sums / (seen + 1)) ** 2, 0.0)
        return np.asarray(largest >= goal)

    return test


TESTS: dict[str, Test] = {
    "recuse": refutes,
    "STaR as published": variance_bets("star"),
    "Waudby-Smith and Ramdas": variance_bets("wsr"),
    "Hoeffding-Bentkus": hoeffding_bentkus,
}


@dataclass(frozen=True)
class Simulated:
    """Results of many calibrations: how often a promise did not hold, and the coverage of each certificate."""

    violations: Flags
    coverage: Floats


def simulate(setting: Setting, what: str, repeats: int, tests: Sequence[str]) -> dict[str, Simulated]:
    """Calibrate many times with one sequence of thresholds, by several tests."""
    random = np.random.default_rng([len(setting.name), len(what)])
    score, loss, cost = setting.draw(random, (PILOT,))
    thresholds = thresholds_to_test(score, setting.values(what, loss, cost), setting.n_rows)
    if setting.name == "boundary":  # where the pilot sees no threshold that could pass
        thresholds = np.quantile(score, np.linspace(0.5, 0.0, 51))
    risk, coverage = truth_of(setting, what, thresholds, random)
    wrong = np.append(False, risk > setting.target(what) if setting.name != "boundary" else risk > 0)
    accepted_share = np.append(0.0, coverage)
    found: dict[str, list[NDArray[np.intp]]] = {name: [] for name in tests}
    for start in range(0, repeats, BATCH):
        score, loss, cost = setting.draw(random, (setting.n_rows, min(BATCH, repeats - start)))
        values = setting.values(what, loss, cost)
        of_rows, used = values.at(score[..., None] > thresholds)
        for name in tests:
            passed = TESTS[name](of_rows, values.mean, DELTA, used)
            found[name].append(np.cumprod(passed, axis=1).sum(axis=1))
    last = {name: np.concatenate(counts) for name, counts in found.items()}
    return {name: Simulated(wrong[count], accepted_share[count]) for name, count in last.items()}


def truth_of(setting: Setting, what: str, thresholds: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the true mean and the coverage of each threshold."""
    score, loss, cost = setting.draw(random, (TRUTH,))
    loss = np.minimum(loss, setting.bound)
    risk, coverage = np.zeros(len(thresholds)), np.zeros(len(thresholds))
    for place, threshold in enumerate(thresholds):
        accepted = score > threshold
        risk[place] = np.where(accepted, loss, cost).mean() if what == "rcr_loss" else loss[accepted].mean()
        coverage[place] = accepted.mean()
    return risk, coverage


class TrueRisk:
    """A model that predicts the true mean, with minus the true variance as its score."""

    fingerprint = "true risk"
    cost_ = 1.0

    def __init__(self, mean: Floats, variance: Floats) -> None:
        self.mean, self.variance = mean, variance

    def decide(self, X: Any, cost: Any = None) -> Decision:
        """Decide about rows given by their numbers."""
        rows = np.asarray(X)[:, 0].astype(int)
        score = 1.0 - self.variance[rows]
        return Decision(self.mean[rows], score > 0, score, 1.0)


def usefulness(target: float, repeats: int, n_rows: int = 5000) -> tuple[float, float, int]:
    """Return the coverage of certificates and of the best threshold, and how many certificates were refused."""
    _, _, _, many = make_heteroscedastic(1_000_000, random_state=10_000)
    ranked = np.sort(many)
    best = float(np.mean(np.cumsum(ranked) / np.arange(1, len(ranked) + 1) <= target))
    coverage, refused = [], 0
    for repeat in range(repeats):
        _, y, mean, variance = make_heteroscedastic(n_rows, random_state=repeat)
        try:
            result = certify(TrueRisk(mean, variance), np.arange(n_rows)[:, None], y, target, bound=80 * target)
            coverage.append(float(np.mean(many < 1.0 - result.threshold)))
        except CannotCertify:
            refused += 1
            coverage.append(0.0)
    return float(np.mean(coverage)), best, refused


def budgets(repeats: int) -> list[tuple[float, int, float, float, float]]:
    """Return budget, rows, and the mean share of new rows rejected by both rules, of uniform scores."""
    random, lines = np.random.default_rng(0), []
    for budget in (0.05, 0.1, 0.3):
        for n_rows in (20, 100, 1000):
            scores = random.uniform(-0.2, 0.8, (repeats, n_rows))
            shares = [
                [np.clip(rule(row, budget) + 0.2, 0.0, 1.0) for row in scores]
                for rule in (by_budget, by_cost_within_budget)
            ]
            lines.append((budget, n_rows, *(float(np.mean(share)) for share in shares), budget + 1 / (n_rows + 1)))
    return lines


MODELS = 10
TRIES = 20
MISUSE_ROWS = 400
REPEATED_ROWS = 60
LARGE = math.sqrt(2.0)
NULL = {"target": 0.995, "bound": 2.5}  # the mean loss is 1 at every threshold, so every certificate is false
MISUSES = (
    "repeats",
    "repeats in another order",
    "repeats with a changed column",
    "repeated measurements",
    "orders and dropped rows",
    "ten models",
    "several targets",
)


@cache
def null_models() -> list[Any]:
    """Return models of which model m predicts column m, and whose score depends on column 0 only."""
    random = np.random.default_rng(0)
    X, _ = null_rows(random, 3000)
    noise = np.exp(X[:, 0]) * random.choice([-1.0, 1.0], len(X)) / 10
    return [
        recuse.RiskRejector(LinearRegression(), LinearRegression(), cost=0.01, cv=2, random_state=0).fit(
            X, X[:, m] + noise
        )
        for m in range(1, MODELS + 1)
    ]


def null_rows(random: np.random.Generator, n_rows: int, share: float = 0.5) -> tuple[Floats, Floats]:
    """Draw rows and targets near 0; the squared error of a model is 2 with probability `share` and else 0."""
    columns = LARGE * (random.random((n_rows, MODELS)) < share)
    return np.column_stack([random.uniform(-1, 1, n_rows), columns]), random.normal(size=n_rows) / 1e6


def misuse(kind: str, trials: int, place: Path, from_files: bool = True) -> Flags:
    """Return which trials end with a certificate, all of which are false.

    Parameters
    ----------
    kind : one of `MISUSES`
    trials : int
    place : Path
        Folder for the model files.
    from_files : bool
        Whether the models are loaded from files, beside which attempts are corrected for.
    """
    random = np.random.default_rng([MISUSES.index(kind), 1])
    saved = place / "saved"
    if from_files and not saved.exists():
        saved.mkdir()
        for number, model in enumerate(null_models()):
            recuse.save(model, saved / f"{number}.recuse")
    found = []
    for trial in range(trials):
        folder = place / f"{kind} {trial}"
        if from_files:
            shutil.copytree(saved, folder)
        attempts = tries(kind, random, (folder if from_files else None))
        found.append(any(is_certified(model, *rows, target) for model, rows, target in attempts))
        shutil.rmtree(folder, ignore_errors=True)
    return np.array(found)


def tries(kind: str, random: np.random.Generator, folder: Path | None) -> Any:
    """Yield the models, rows and targets that somebody tries until a certificate is given."""

    def model(number: int) -> Any:
        return null_models()[number] if folder is None else recuse.load(folder / f"{number}.recuse")

    if kind.startswith("repeat"):
        yield model(0), repeats(kind, random), NULL["target"]
        return
    first, (X, y) = model(0), null_rows(random, MISUSE_ROWS)
    for number in range(MODELS if kind == "ten models" else TRIES):
        rows = random.permutation(MISUSE_ROWS)[number:] if kind == "orders and dropped rows" else slice(None)
        target = NULL["target"] - (0.01 * number if kind == "several targets" else 0.0)
        yield model(number) if kind == "ten models" and number else first, (X[rows], y[rows]), target


def repeats(kind: str, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw rows and give each ten times."""
    X, y = (np.repeat(each, 10, axis=0) for each in null_rows(random, REPEATED_ROWS))
    order = random.permutation(len(y)) if kind == "repeats in another order" else slice(None)
    if kind == "repeats with a changed column":
        X[:, 0] = random.uniform(-1, 1, len(y))
    if kind == "repeated measurements":
        y = y + random.normal(size=len(y)) / 1e6
    return X[order], y[order]


def is_certified(model: Any, X: Floats, y: Floats, target: float, **options: Any) -> bool:
    """Whether there is a certificate; rows that are refused have none."""
    try:
        certify(model, X, y, target, delta=DELTA, bound=NULL["bound"], **options)
    except ValueError:  # CannotCertify is one, too
        return False
    return True


def honest(trials: int, place: Path) -> float:
    """Return how often a first attempt succeeds at a mean loss of 0.86."""
    random, model, found = np.random.default_rng(2), null_models()[0], []
    for trial in range(trials):
        X, y = null_rows(random, MISUSE_ROWS, share=0.43)
        found.append(is_certified(model, X, y, NULL["target"], attempts=place / f"{trial}"))
    return float(np.mean(found))


def grouped(trials: int) -> tuple[Flags, Flags]:
    """Return which trials end with a false certificate of rows, and of groups, where ten rows share their loss."""
    random, model, found = np.random.default_rng(3), null_models()[0], []
    for _ in range(trials):
        X, y = null_rows(random, 10 * REPEATED_ROWS)
        groups = np.arange(len(y)) // 10
        X[:, 1] = X[10 * groups, 1]
        found.append([is_certified(model, X, y, NULL["target"], groups=each) for each in (None, groups)])
    by_row, by_group = np.array(found).T
    return by_row, by_group


def print_misuse(trials: int) -> None:
    """Print the share of false certificates of each kind of misuse, and of honest successes."""
    print(f"\n{trials} trials of each kind of misuse; share that ends with a false certificate")
    print("| misuse | models from files | models in memory |")
    print("| --- | --- | --- |")
    total = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in MISUSES:
            found = [misuse(kind, trials, Path(folder), from_files) for from_files in (True, False)]
            total.append(found)
            print(f"| {kind} | {found[0].mean():.1%} | {found[1].mean():.1%} |", flush=True)
        files, memory = np.mean(total, axis=(0, 2))
        print(f"| all {np.size(total) // 2:,} | {files:.1%} | {memory:.1%} |")
        by_row, by_group = grouped(trials)
        print(
            f"\nten rows share their loss: {by_row.mean():.1%} false without groups, {by_group.mean():.1%} with groups"
        )
        print(f"honest first attempts that succeed: {honest(trials, Path(folder)):.1%}")


def print_validity(repeats: int) -> None:
    """Print violations and the coverage of all tests."""
    print(f"{repeats} calibrations, delta {DELTA}; violations of recuse, and mean coverage certified by each test")
    print("| setting | what | rows | violations | " + " | ".join(TESTS) + " |")
    print("| --- | --- | --- | --- | " + " | ".join("---" for _ in TESTS) + " |")
    for setting in SETTINGS:
        for what in ("accepted_loss", "rcr_loss"):
            results = simulate(setting, what, repeats, list(TESTS))
            share = results["recuse"].violations.mean()
            cells = [f"{result.coverage.mean():.1%}" for result in results.values()]
            print(
                f"| {setting.name} | {what} | {setting.n_rows:,} | {share:.2%} | " + " | ".join(cells) + " |",
                flush=True,
            )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["all", "misuse"], default="all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations")
    options = parser.parse_args()
    scale = 10 if options.quick else 1
    if options.part == "misuse":
        print_misuse(150 // scale)
        return
    start = time.perf_counter()
    print_validity(2000 // scale)
    print("\n5,000 rows of make_heteroscedastic, the true risk as score, bound 80 times the target")
    print("| target | coverage of certificates | of the best threshold | ratio | refused |")
    print("| --- | --- | --- | --- | --- |")
    for target in (0.2, 0.5, 1.0):
        mean, best, refused = usefulness(target, 100 // scale)
        print(f"| {target} | {mean:.1%} | {best:.1%} | {mean / best:.1%} | {refused} |", flush=True)
    print("\nshare of new rows rejected, mean of", 2000 // scale)
    print("| budget | rows | by_budget | by_cost_within_budget | budget + 1/(rows + 1) |")
    print("| --- | --- | --- | --- | --- |")
    for budget, n_rows, plain, by_cost, most in budgets(2000 // scale):
        print(f"| {budget} | {n_rows} | {plain:.4f} | {by_cost:.4f} | {most:.4f} |")
    print_misuse(150 // scale)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
