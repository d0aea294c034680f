"""Compare risk models fitted to training errors and to out-of-fold errors.

``python docs/pictures/cross_fitting.py FOLDER`` draws the figure and prints its numbers.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestRegressor

from _themes import save_for_both_themes
from recuse import RiskRejector, datasets
from recuse.theory import bayes_risk

COST, GROUPS = 1.0, 12
TITLES = {"train": "from training errors", "crossfit": "from out-of-fold errors"}


def draw(folder: Path) -> None:
    """Write the figure for both themes, and print the numbers."""
    X, y, _, _ = datasets.make_heteroscedastic(1000, random_state=0)
    X_new, y_new, _, variance = datasets.make_heteroscedastic(20_000, random_state=1)
    points, losses = {}, {}
    for residuals in TITLES:
        forest = RandomForestRegressor(50, min_samples_leaf=2, random_state=0)
        model = RiskRejector(forest, cost=COST, residuals=residuals, random_state=0).fit(X, y)
        expected, error = model.expected_loss(X_new), (model.predict(X_new) - y_new) ** 2
        groups = np.array_split(np.argsort(expected), GROUPS)
        points[residuals] = np.array([(expected[rows].mean(), error[rows].mean()) for rows in groups])
        measures = model.decide(X_new).evaluate(y_new)
        losses[residuals] = measures["rcr_loss"]
        sys.stdout.write(f"{residuals}: loss {measures['rcr_loss']:.3f}, rejects {measures['rejection_rate']:.0%}\n")
    best = bayes_risk(variance, COST)
    sys.stdout.write(f"best possible loss {best:.3f}\n")
    limits = (0.5 * min(p.min() for p in points.values()), 1.6 * max(p.max() for p in points.values()))

    def figure(colour: Mapping[str, str]) -> Figure:
        drawn, axes = plt.subplots(1, 2, figsize=(7.6, 3.9), layout="constrained", sharey=True)
        for ax, (residuals, title) in zip(axes, TITLES.items(), strict=True):
            shade = colour["orange"] if residuals == "train" else colour["blue"]
            ax.plot(limits, limits, "--", color=colour["line"], lw=1.4)
            ax.plot(*points[residuals].T, "o", color=shade, ms=7)
            ax.set(xscale="log", yscale="log", xlim=limits, ylim=limits, xlabel="expected squared error")
            ax.set_title(
                f"{title}\nRcR loss {losses[residuals]:.2f}, best possible {best:.2f}", color=shade, fontsize=11
            )
            ax.set_box_aspect(1)
        axes[0].set_ylabel("observed squared error of new rows")
        return drawn

    save_for_both_themes(figure, folder, "cross_fitting")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
