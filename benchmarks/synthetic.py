"""RcR loss of the default RcRRegressor, divided by the Bayes risk, on synthetic data.

    OMP_NUM_THREADS=1 python benchmarks/synthetic.py

20,000 training rows, 200,000 test rows, three costs (the quartiles of the variance) and five surrogates; all other
parameters are defaults. A small network can learn this distribution, so the numbers test the method, and do not predict
its loss on real data.
"""

from __future__ import annotations

import argparse

import numpy as np

from recuse import RcRRegressor
from recuse.datasets import make_heteroscedastic
from recuse.theory import bayes_decision, bayes_risk


def main() -> None:
    """Print one line for each cost and surrogate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=1, help="members of each ensemble")
    arguments = parser.parse_args()
    print(f"{'seed':>4} {'cost':>6} {'surrogate':>10} {'loss / Bayes risk':>18} {'agrees with Bayes rule':>23}")
    for seed in range(arguments.seeds):
        X, y, _, variance = make_heteroscedastic(arguments.rows, random_state=seed)
        X_new, y_new, mean_new, variance_new = make_heteroscedastic(200_000, random_state=10_000 + seed)
        for cost in np.quantile(variance, [0.25, 0.5, 0.75]).tolist():
            bayes = bayes_decision(mean_new, variance_new, cost).accepted
            for surrogate in ("mae", "hinge", "square", "logistic", "sigmoid"):
                model = RcRRegressor(cost, surrogate, n_members=arguments.members, random_state=seed).fit(X, y)
                decision = model.decide(X_new)
                ratio = decision.evaluate(y_new)["rcr_loss"] / bayes_risk(variance_new, cost)
                agreement = float(np.mean(decision.accepted == bayes))
                print(f"{seed:4} {cost:6.3f} {surrogate:>10} {ratio:18.4f} {agreement:23.1%}", flush=True)


if __name__ == "__main__":
    main()
