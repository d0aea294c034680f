"""Draw the loss of a model against the cost of a rejection: ``python docs/pictures/cost_curve.py FOLDER``."""

import sys
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from _themes import end_label, save_for_both_themes
from recuse import AutoRejector, datasets
from recuse.metrics import cost_curve

COSTS = np.linspace(0, 30, 31)


def measure() -> pd.DataFrame:
    """Fit a model to half of the concrete data, and decide about the other half at every cost."""
    data = datasets.load("concrete")
    half = np.random.default_rng(0).permutation(len(data.X)) < len(data.X) // 2
    model = AutoRejector(cost=12.0, learners=["boosting", "extra_trees"], random_state=0)
    model.fit(data.X[half], data.y[half])
    return pd.DataFrame(cost_curve(data.y[~half], [model.decide(data.X[~half], cost=cost) for cost in COSTS]))


def draw(folder: Path) -> None:
    """Write the figure for both themes."""
    curve = measure()

    def figure(colour: Mapping[str, str]) -> Figure:
        drawn, ax = plt.subplots(figsize=(7.2, 3.9), layout="constrained")
        cost, loss = curve["cost"], curve["rcr_loss"]
        accept, reject = curve["always_accept"], curve["always_reject"]
        ax.fill_between(cost, loss, np.minimum(accept, reject), color=colour["blue"], alpha=0.18, lw=0)
        shown = reject <= 1.25 * accept
        ax.plot(cost, accept, "--", color=colour["orange"], lw=1.8)
        ax.plot(cost[shown], reject[shown], "--", color=colour["green"], lw=1.8)
        ax.plot(cost, loss, color=colour["blue"], lw=2.6)
        end_label(ax, cost.iloc[-1], accept.iloc[-1], "accept all rows", colour["orange"])
        end_label(ax, cost[shown].iloc[-1], reject[shown].iloc[-1], "reject all rows", colour["green"])
        end_label(ax, cost.iloc[-1], loss.iloc[-1], "the model decides", colour["blue"])
        widest = int((np.minimum(accept, reject) - loss).argmax())
        ax.annotate(
            "saved by rejection",
            (cost[widest], 0.5 * (loss[widest] + min(accept[widest], reject[widest]))),
            (cost[widest], 0.6 * loss[widest]),
            ha="center",
            arrowprops={"arrowstyle": "-", "color": colour["line"]},
            color=colour["text"],
        )
        ax.set(xlabel="cost of a rejection", ylabel="mean loss per row", xlim=(0, COSTS[-1]), ylim=(0, None))
        return drawn

    save_for_both_themes(figure, folder, "cost_curve")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
