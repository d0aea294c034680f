"""Tables of means over the splits beside the printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from recuse.bench.rcr import AcceptAll, RcR
from recuse.bench.spec import METRICS, Paper

_COLUMNS = ["dataset", "model", "surrogate", "cost", "metric", "mean", "std", "repeats", "paper_mean", "paper_std"]
_COMPARED = ("al", "rej", "rcrloss")


def over_splits(measured: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Give mean, standard deviation and number of splits of some measures of each cell.

    A split in which a measure does not exist (for example, no row was accepted) is left out of its mean.
    """
    long = measured.melt(["dataset", "method", "cost", "repeat"], list(metrics), var_name="metric")
    grouped = long.groupby(["dataset", "method", "cost", "metric"], sort=False)["value"].agg(["mean", "std", "count"])
    return grouped.reset_index().rename(columns={"count": "repeats"})


def paper_table(measured: pd.DataFrame, paper: Paper, methods: Sequence[RcR]) -> pd.DataFrame:
    """Give the cells of some joint trainings in the paper's order, with the printed numbers where there are any.

    The loss of the regressor alone, "sup", stands beside each of its model's cells.
    """
    names = pd.DataFrame([(each.name, each.model, each.surrogate) for each in methods])
    names.columns = pd.Index(["method", "model", "surrogate"])
    alone = {AcceptAll(model).name: model for model in names["model"].unique()}
    sup = over_splits(measured[measured["method"].isin(list(alone))], ["rcrloss"]).assign(metric="sup")
    sup = sup.assign(model=sup.pop("method").map(alone)).merge(names, on="model")
    ours = over_splits(measured, METRICS).merge(names, on="method")
    cell = ["dataset", "model", "surrogate", "cost", "metric"]
    printed = paper.printed.rename(columns={"mean": "paper_mean", "std": "paper_std"})
    printed = printed.drop_duplicates(cell)[[*cell, "paper_mean", "paper_std"]]
    joined = pd.concat([ours, sup]).merge(printed, on=cell, how="left")[_COLUMNS]
    order = {"dataset": list(paper.costs), "metric": [*METRICS, "sup"]}
    order |= {name: list(names[name].unique()) for name in ("model", "surrogate")}
    return in_order(joined, order, cell)


def in_order(table: pd.DataFrame, order: Mapping[str, Sequence[str]], by: list[str]) -> pd.DataFrame:
    """Sort a table by some columns, words by their place in `order`."""
    places = table.assign(**{name: table[name].map(list(words).index) for name, words in order.items()})
    return table.loc[places.sort_values(by, kind="stable").index].reset_index(drop=True)


def with_rates(printed: pd.DataFrame, ours: Sequence[str]) -> pd.DataFrame:
    """Add methods to each cell of the comparison, at the lowest rate required of, or reported for, any other."""
    rate = printed["target_rejection"].fillna(printed["rej_mean"])
    lowest = printed.assign(target_rejection=rate).groupby(["dataset", "cost"], sort=False)["target_rejection"].min()
    parts = [printed, *(lowest.reset_index().assign(method=name) for name in ours)]
    table = pd.concat(parts, ignore_index=True)
    place = {cell: number for number, cell in enumerate(lowest.index)}
    order = [place[cell] for cell in zip(table["dataset"], table["cost"], strict=True)]
    return table.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)


def comparison(measured: pd.DataFrame, paper: Paper, ours: Sequence[str]) -> pd.DataFrame:
    """Give all methods at matched rejection rates beside the printed numbers, cell by cell as in the paper.

    Parameters
    ----------
    measured : DataFrame
        Measures of the paper's method at the costs, and of the others at the rejection rates.
    paper : Paper
    ours : sequence of str
        Methods that the paper does not have.
    """
    cells = with_rates(paper.comparison, ours).rename(columns={"method": "model"}).rename_axis("row").reset_index()
    parts = [
        cells.assign(metric=metric, paper_mean=cells[f"{metric}_mean"], paper_std=cells[f"{metric}_std"])
        for metric in _COMPARED
    ]
    table = pd.concat(parts).sort_values(["row", "metric"], kind="stable")
    surrogate = table["model"].map(lambda name: name.removeprefix("rcr_") if name.startswith("rcr_") else "")
    means = over_splits(measured, _COMPARED).rename(columns={"method": "model"})
    return table.assign(surrogate=surrogate).merge(means, on=["dataset", "model", "cost", "metric"])[_COLUMNS]


def gaps(table: pd.DataFrame, paper_repeats: int) -> pd.Series[float]:
    """Give the difference from the printed mean in standard errors of the difference; NaN where it is not defined."""
    error = np.hypot(table["std"] / np.sqrt(table["repeats"]), table["paper_std"] / np.sqrt(paper_repeats))
    gap: pd.Series[float] = (table["mean"] - table["paper_mean"]) / error
    return gap.replace([np.inf, -np.inf], np.nan)


def trends(table: pd.DataFrame) -> pd.Series[bool]:
    """Whether rejection falls and accepted loss rises with the cost, for each data set, model and surrogate.

    A trend that is not defined, such as that over one cost, is left out.
    """
    cells = ["dataset", "model", "surrogate", "cost"]
    wide = table.pivot(index=cells, columns="metric", values="mean").reset_index()
    groups = wide.groupby(["dataset", "model", "surrogate"], sort=False)[["cost", "rej", "al"]]
    ranks = groups.apply(lambda part: part.corr(method="spearman")["cost"])
    defined: pd.Series[float] = pd.concat([-ranks["rej"], ranks["al"]]).dropna()
    return defined > 0.5


def lowest_loss(table: pd.DataFrame, method: str) -> dict[str, int]:
    """Count the cells of the comparison in which a method has the lowest accepted loss.

    Returns
    -------
    dict
        Numbers of ``cells``, and of those in which it is below ``our_runs`` of all other methods, below all
        ``printed`` numbers, and below ``both``.
    """
    loss = table[table["metric"] == "al"].set_index(["dataset", "cost"])
    others = loss[loss["model"] != method].groupby(level=[0, 1], sort=False)
    ours = loss.loc[loss["model"] == method, "mean"]
    runs, printed = (ours < others[column].min().reindex(ours.index) for column in ("mean", "paper_mean"))
    counts = {"cells": len(ours), "our_runs": runs.sum(), "printed": printed.sum(), "both": (runs & printed).sum()}
    return {name: int(count) for name, count in counts.items()}
