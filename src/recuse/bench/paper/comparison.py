"""The comparison table: the paper's method, other published methods and AutoRejector at matched rejection rates."""

from __future__ import annotations

import pandas as pd

from recuse.bench.methods.auto import OURS, with_ours
from recuse.bench.methods.published import BUDGET
from recuse.bench.paper.tables import COLUMNS, over_repeats
from recuse.bench.spec import Paper

__all__ = ["compare", "lowest_accepted_loss"]

_METRICS = ("al", "rej", "rcrloss")


def compare(records: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Give our runs of all methods beside the printed numbers.

    Parameters
    ----------
    records : DataFrame
        Runs of the other methods, of AutoRejector, and of the paper's method with the MLP and the mae surrogate.
    paper : Paper
    """
    ours = records.assign(model=records["model"].where(records["surrogate"] == BUDGET, "rcr_mae"))
    printed = _printed(paper)
    cells = over_repeats(ours, _METRICS).drop(columns="surrogate")
    surrogate = printed["model"].map(lambda method: "mae" if method == "rcr_mae" else "")
    table = printed.assign(surrogate=surrogate).merge(cells, on=["dataset", "model", "cost", "metric"])
    return table[COLUMNS]


def _printed(paper: Paper) -> pd.DataFrame:
    methods = with_ours(paper.comparison)
    parts = [
        methods.assign(
            model=methods["method"],
            metric=metric,
            paper_mean=methods[f"{metric}_mean"],
            paper_std=methods[f"{metric}_std"],
        )
        for metric in _METRICS
    ]
    # cell by cell as printed, all methods of one cost together
    return pd.concat(parts).rename_axis("row").reset_index().sort_values(["row", "metric"], kind="stable")


def lowest_accepted_loss(table: pd.DataFrame) -> dict[str, int]:
    """Count the cells in which AutoRejector has the lowest accepted loss.

    Parameters
    ----------
    table : DataFrame
        As `compare` gives it.

    Returns
    -------
    dict
        Numbers of ``cells``, and of those in which it is below ``our_runs`` of all other methods, below all
        ``printed`` numbers, and below ``both``.
    """
    loss = table[table["metric"] == "al"].set_index(["dataset", "cost"])
    others = loss[loss["model"] != OURS].groupby(level=[0, 1], sort=False)
    ours = loss.loc[loss["model"] == OURS, "mean"]
    runs, printed = (ours < others[column].min().reindex(ours.index) for column in ("mean", "paper_mean"))
    counts = {"cells": len(ours), "our_runs": runs.sum(), "printed": printed.sum(), "both": (runs & printed).sum()}
    return {name: int(count) for name, count in counts.items()}
