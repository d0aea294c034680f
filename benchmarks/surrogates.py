"""RcR loss of RcRRegressor with each surrogate and of AutoRejector, over the Bayes risk, on synthetic distributions.

    OMP_NUM_THREADS=1 python benchmarks/surrogates.py
    OMP_NUM_THREADS=1 python benchmarks/surrogates.py --auto

Features are uniform on [-1, 1] and the noise is normal, with known mean and variance, so the Bayes risk is the mean of
min(variance, cost). The settings of AutoRejector were chosen on the distributions of `--choosing`; the functions
that are reported by default had no part in it, except that the ball was added after the disc had turned out worst.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse import AutoRejector, RcRRegressor
from recuse.estimators import fit_costs
from recuse.theory import bayes_risk

Floats = NDArray[np.float64]
SURROGATES = ("mae", "hinge", "square", "logistic", "sigmoid")
FEATURES, TEST_ROWS = 8, 100_000


def product(x: Floats) -> tuple[Floats, Floats]:
    """Products of features, and a variance that falls and rises smoothly."""
    mean = x[0] * x[1] + x[2] * x[3] - x[4]
    return mean, np.exp(2.0 * np.sin(1.5 * (x[1] - x[4]) + x[5]) - 1.0)


def steps(x: Floats) -> tuple[Floats, Floats]:
    """Steps of the mean, and a variance that jumps at other places."""
    mean = 1.0 * (x[0] > 0.2) - 1.0 * (x[1] + x[2] > 0) + 0.5 * x[3]
    return mean, np.where(x[4] > 0.3, 2.5, np.where(x[0] + x[5] > 0, 1.0, 0.25))


def periodic(x: Floats) -> tuple[Floats, Floats]:
    """A periodic mean, and a smooth periodic variance with two regions to accept."""
    mean = 1.5 * np.sin(np.pi * (x[0] + 0.5 * x[1])) + x[2]
    return mean, 0.1 + 1.0 * (1.0 + np.cos(np.pi * x[3] + 0.5 * x[4]))


def mixed(x: Floats) -> tuple[Floats, Floats]:
    """A product and a periodic term in the mean, and a variance that jumps within a ball of two features."""
    mean = x[0] * x[1] + np.cos(np.pi * x[2]) + 0.5 * x[3]
    return mean, np.where(x[4] ** 2 + x[5] ** 2 < 0.6, 0.3, 2.0)


def choosing_product(x: Floats) -> tuple[Floats, Floats]:
    """Products of features with a smooth variance."""
    mean = 2.0 * x[0] * x[1] + 1.5 * x[2] * x[3] + x[4]
    return mean, 0.5 * np.exp(1.8 * np.tanh(1.2 * (x[0] + x[3] - x[5])))


def choosing_steps(x: Floats) -> tuple[Floats, Floats]:
    """Large oblique steps of the mean with an abrupt variance."""
    mean = 1.5 * np.sign(x[0] + 0.3 * x[1]) + 1.0 * (x[2] > 0.3) + x[3]
    return mean, np.where(x[4] + x[5] > 0.2, 2.0, np.where(x[0] > 0, 0.15, 0.6))


def choosing_periodic(x: Floats) -> tuple[Floats, Floats]:
    """A periodic mean with a smooth periodic variance."""
    mean = 2.0 * np.sin(np.pi * x[0]) + np.cos(np.pi * (x[1] + x[2]) / 1.5)
    return mean, 0.05 + 0.6 * (1.0 + np.sin(np.pi * x[3] + x[0])) ** 2


def choosing_ball(x: Floats) -> tuple[Floats, Floats]:
    """A product and a sine in the mean, and a low variance in an ellipsoid."""
    mean = 1.2 * x[0] * x[2] + np.sin(np.pi * x[1]) + 0.4 * x[5]
    return mean, np.where(x[3] ** 2 + 1.4 * x[4] ** 2 + 0.5 * x[1] ** 2 < 0.7, 0.25, 1.6)


Moments = Callable[[Floats], tuple[Floats, Floats]]
REPORTED: dict[str, tuple[Moments, tuple[float, ...]]] = {
    "product": (product, (0.3, 0.6)),
    "steps": (steps, (0.6, 1.5)),
    "periodic": (periodic, (0.6, 1.2)),
    "mixed": (mixed, (0.6, 1.2)),
}
CHOOSING: dict[str, tuple[Moments, tuple[float, ...]]] = {
    "product": (choosing_product, (0.5,)),
    "steps": (choosing_steps, (0.5,)),
    "periodic": (choosing_periodic, (0.6,)),
    "ball": (choosing_ball, (0.9,)),
}


def draw(moments: Moments, rows: int, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Draw features, targets, means and variances."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1.0, 1.0, (rows, FEATURES))
    mean, variance = moments(X.T)
    return X, mean + np.sqrt(variance) * random.standard_normal(rows), mean, variance


def fit(X: Floats, y: Floats, costs: tuple[float, ...], seed: int, members: int, auto: bool) -> list[list[Any]]:
    """Return the models of each cost: one for each surrogate, or AutoRejector, which is fitted once for all costs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if auto:
            return [[AutoRejector(float(np.exp(np.log(costs).mean())), random_state=seed).fit(X, y)]] * len(costs)
        models = fit_costs(RcRRegressor(n_members=members, random_state=seed), X, y, costs=costs, surrogates=SURROGATES)
    size = len(SURROGATES)
    return [list(models[place * size : (place + 1) * size]) for place in range(len(costs))]


def main() -> None:
    """Print one line for each distribution, cost and seed, then the means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=1, help="members of each ensemble")
    parser.add_argument("--auto", action="store_true", help="AutoRejector instead of RcRRegressor")
    parser.add_argument("--families", default="", help="names, separated by commas; all by default")
    parser.add_argument("--costs", type=int, default=2, help="at most this number of costs of each distribution")
    parser.add_argument("--choosing", action="store_true", help="the distributions that the settings were chosen on")
    arguments = parser.parse_args()
    families = CHOOSING if arguments.choosing else REPORTED
    names = arguments.families.split(",") if arguments.families else list(families)
    columns = ("AutoRejector",) if arguments.auto else SURROGATES
    print(f"{'distribution':>12} {'cost':>5} {'seed':>4} " + " ".join(f"{name:>8}" for name in columns) + "  cpu s")
    ratios: dict[tuple[str, float], list[Floats]] = {}
    for seed in range(arguments.seeds):
        for name in names:
            moments, costs = families[name][0], families[name][1][: arguments.costs]
            X, y, _, _ = draw(moments, arguments.rows, 100 * arguments.choosing + seed)
            X_new, _, mean, variance = draw(moments, TEST_ROWS, 10_000 + seed)
            started = time.process_time()
            models = fit(X, y, costs, seed, arguments.members, arguments.auto)
            seconds = time.process_time() - started
            for cost, of_cost in zip(costs, models, strict=True):
                row = []
                for fitted in of_cost:
                    decision = fitted.decide(X_new, cost=cost if arguments.auto else None)
                    # the expected loss given the features, so that the noise of the test rows does not matter
                    expected = np.where(decision.accepted, (decision.prediction - mean) ** 2 + variance, cost)
                    row.append(float(expected.mean()) / bayes_risk(variance, cost))
                ratios.setdefault((name, cost), []).append(np.array(row))
                text = " ".join(f"{ratio:8.4f}" for ratio in row)
                print(f"{name:>12} {cost:5.2f} {seed:4} {text} {seconds:6.0f}", flush=True)
    for (name, cost), rows in ratios.items():
        print(f"{name:>12} {cost:5.2f} mean " + " ".join(f"{ratio:8.4f}" for ratio in np.mean(rows, axis=0)))
    worst = max(float(np.mean(rows, axis=0).max()) for rows in ratios.values())
    print(f"largest mean ratio: {worst:.4f}")


if __name__ == "__main__":
    main()
