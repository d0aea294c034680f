"""False alarms and power of the group audit, coverage of its intervals, and false alarms of the drift table.

    OMP_NUM_THREADS=1 python benchmarks/audit.py

Each simulation has 2,000 rows in eight groups of unequal sizes. The losses are squared errors of Student's t with four
degrees of freedom, whose variance is infinite. A row is rejected with probability 0.2, or 1.5 times as often in the
planted group; or the planted group has twice the loss.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from recuse import Decision, audit
from recuse.audit.significance import mean_interval

SHARES = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)
ROWS = 2000


def simulated(
    seed: int, *, planted: int | None = None, rejected: float = 1.0, loss: float = 1.0, rows: int = ROWS
) -> pd.DataFrame:
    """Audit random decisions, with more rejections or a higher loss in the planted group."""
    generator = np.random.default_rng(seed)
    group = generator.choice(len(SHARES), size=rows, p=SHARES)
    here = group == (-1 if planted is None else planted)
    accepted = generator.random(rows) >= 0.2 * np.where(here, rejected, 1.0)
    error = generator.standard_t(4, size=rows) * np.sqrt(np.where(here, loss, 1.0))
    decision = Decision(error, accepted, accepted - 0.5, cost=2.0)
    return audit.groups(decision, np.zeros(rows), group.astype(str), random_state=seed)


def drifted(seed: int, rows: int = 500) -> bool:
    """Whether any of 20 columns is flagged although both tables have the same distribution."""
    generator = np.random.default_rng(seed)

    def table() -> pd.DataFrame:
        numbers = {f"number {place}": generator.standard_t(2, rows) for place in range(10)}
        categories = {f"category {place}": generator.geometric(0.2, rows).astype(str) for place in range(10)}
        frame = pd.DataFrame(numbers | categories)
        return frame.mask(generator.random(frame.shape) < 0.02)

    return bool(audit.drift(table(), table())["drifted"].any())


def covered(rows: int, repeats: int, seed: int = 0) -> tuple[float, float]:
    """Share of intervals that hold the mean squared error of t with five degrees of freedom: ours, Student's."""
    generator, mean = np.random.default_rng(seed), 5 / 3
    ours = students = 0
    from scipy.stats import t

    for _ in range(repeats):
        losses = generator.standard_t(5, rows) ** 2
        low, high = mean_interval(losses)
        ours += low <= mean <= high
        half = t.ppf(0.975, rows - 1) * losses.std(ddof=1) / np.sqrt(rows)
        students += abs(losses.mean() - mean) <= half
    return ours / repeats, students / repeats


def main() -> None:
    """Print one line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=400)
    count = parser.parse_args().simulations
    start = time.perf_counter()
    alarms = [simulated(seed)[["rejected_more", "mispredicted_more"]].to_numpy().any() for seed in range(count)]
    print(f"false alarms over all groups    {np.mean(alarms):6.1%}   (at most 5%)", flush=True)
    for planted in (0, 1, 2, 3, 4, 5):
        more = [simulated(seed, planted=planted, rejected=1.5) for seed in range(count // 4)]
        worse = [simulated(seed, planted=planted, loss=2.0) for seed in range(count // 4)]
        flagged = np.mean([table["rejected_more"][planted] for table in more])
        missed = np.mean([table["mispredicted_more"][planted] for table in worse])
        others = np.mean([_others(table, planted) for table in more + worse])
        size = f"{SHARES[planted] * ROWS:4.0f} rows"
        print(f"planted in {size}: rejected 1.5x flagged {flagged:4.0%}, loss 2x flagged {missed:4.0%},", end=" ")
        print(f"another group flagged {others:4.1%}", flush=True)
    print(f"false alarms of drift, 20 columns {np.mean([drifted(seed) for seed in range(count)]):6.1%}", flush=True)
    for rows in (20, 50, 200):
        ours, students = covered(rows, 5 * count)
        print(f"95% intervals of the mean loss of {rows:3} rows hold it in {ours:.1%}, Student's in {students:.1%}")
    print(f"{time.perf_counter() - start:.0f} s")


def _others(table: pd.DataFrame, planted: int) -> bool:
    others = table.drop(index=planted)
    return bool(others[["rejected_more", "mispredicted_more"]].to_numpy().any())


if __name__ == "__main__":
    main()
