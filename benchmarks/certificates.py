"""Certificates: how often a promise does not hold, how much they accept, and budgets.

    OMP_NUM_THREADS=1 python benchmarks/certificates.py            # all tables, some five minutes
    OMP_NUM_THREADS=1 python benchmarks/certificates.py --quick    # a tenth of the simulations

- validity: calibrations in four settings for both targets. A violation is a certified threshold at which the true mean
  is above the target; in the setting "boundary", where it equals the target at every threshold, any certificate is one.
- usefulness: coverage of a certificate from 5,000 rows with the true risk as score, over that of the best threshold.
- rivals: mean coverage that is certified by other one-sided tests of the same thresholds on the same rows.
- budget: share of new rows that is rejected by `by_budget` and `by_cost_within_budget`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from recuse.datasets import make_heteroscedastic
from recuse.decision import Decision
from recuse.guarantees import CannotCertify, by_budget, by_cost_within_budget, certify
from recuse.guarantees.betting import refutes
from recuse.guarantees.sequence import BoundedValues, Pilot, thresholds_to_test

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
    thresholds = thresholds_to_test(Pilot(score, setting.values(what, loss, cost)), setting.n_rows)
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
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations")
    scale = 10 if parser.parse_args().quick else 1
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
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
