"""Tables of the leaderboard: cells, standings of the methods, tests and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from recuse.bench.leaderboard import ranks
from recuse.bench.methods.registry import ALWAYS_ACCEPT, Method
from recuse.bench.paper.tables import over_repeats
from recuse.bench.spec import METRICS, Paper

__all__ = ["YARDSTICKS", "Standings", "cell_table", "named", "paper_best", "standings", "time_table"]

YARDSTICKS = {  # reference lines, of the paper's network trained alone, with their titles; not ranked
    "always_accept": "always accept",
    "always_reject": "always reject",
    "oracle": "oracle",
}
_COLUMNS = ["dataset", "method", "cost", "metric", "mean", "std", "repeats", "paper_best"]
_CELL = ["dataset", "cost"]


def named(records: pd.DataFrame, methods: Sequence[Method]) -> pd.DataFrame:
    """Give each record the name of its method, and add records of the reference lines."""
    keys = {(method.model, method.surrogate): method.name for method in (*methods, ALWAYS_ACCEPT)}
    method = [keys[key] for key in zip(records["model"], records["surrogate"], strict=True)]
    records = records.assign(method=method).drop(columns=["model", "surrogate", "share"])
    accepting = records[records["method"] == ALWAYS_ACCEPT.name]
    bare = accepting[["dataset", "repeat", "cost"]]
    yardsticks = [
        bare.assign(method="always_accept", rcrloss=accepting["rcrloss"]),
        bare.assign(method="always_reject", rcrloss=accepting["cost"]),
        bare.assign(method="oracle", rcrloss=accepting["oracle"]),
    ]
    return pd.concat([records[records["method"] != ALWAYS_ACCEPT.name], *yardsticks], ignore_index=True)


def paper_best(paper: Paper) -> pd.Series[float]:
    """Give the lowest RcRLoss that the paper prints for a network at each data set and cost, over its tables."""
    printed = paper.printed.query("model == 'mlp' and metric == 'rcrloss'")
    return printed.groupby(_CELL)["mean"].min().rename("paper_best")


def cell_table(records: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Give mean and deviation over the splits for every method and cell; reference lines have an RcRLoss only.

    Parameters
    ----------
    records : DataFrame
        As `named` gives them.
    paper : Paper
        Contains the printed numbers, for the column of the lowest RcRLoss.
    """
    cells = over_repeats(records.assign(model=records["method"], surrogate=""), METRICS)
    cells = cells.rename(columns={"model": "method"})
    cells = cells[(cells["metric"] == "rcrloss") | ~cells["method"].isin(list(YARDSTICKS))]
    table = cells.merge(paper_best(paper).reset_index().assign(metric="rcrloss"), on=[*_CELL, "metric"], how="left")
    order = {
        "dataset": list(paper.costs),
        "method": list(dict.fromkeys(records["method"])),
        "metric": list(METRICS),
    }
    places = table.assign(**{column: table[column].map(values.index) for column, values in order.items()})
    places = places.sort_values(["dataset", "method", "cost", "metric"])
    return table.loc[places.index, _COLUMNS].reset_index(drop=True)


@dataclass(frozen=True)
class Standings:
    """Comparison of the methods over all cells.

    Attributes
    ----------
    summary : DataFrame
        One row per method, the best mean rank first, then the reference lines, which have no rank. ``ratio`` is the
        geometric mean over the cells of RcRLoss over the paper's best; ``below_paper`` of ``printed`` cells are below
        it; in ``lowest`` of ``cells`` the method is the lowest of all. ``*_low`` and ``*_high`` are the ends
        of the 95% intervals over resampled splits.
    tests : dict of str to Friedman
        With the cells as blocks, and with the data sets.
    """

    summary: pd.DataFrame
    tests: dict[str, ranks.Friedman]

    @property
    def test_table(self) -> pd.DataFrame:
        """One row for each test."""
        return pd.DataFrame([{"blocks_are": name, **asdict(test)} for name, test in self.tests.items()])


def standings(records: pd.DataFrame, paper: Paper) -> Standings:
    """Rank the methods and compare them with the paper.

    Parameters
    ----------
    records : DataFrame
        As `named` gives them.
    paper : Paper
    """
    losses = _losses(records, paper)
    ranked = losses[[name for name in losses.columns if name not in YARDSTICKS]]
    summary = pd.concat([_against_paper(losses, paper), _ranked(ranked)], axis=1)
    summary = summary.loc[[*ranked.columns, *(name for name in YARDSTICKS if name in losses.columns)]]
    summary = summary.sort_values("mean_rank", kind="stable").rename_axis("method").reset_index()
    cells = _cells(ranked)
    # mean logarithms over the costs of a data set, so that every cost counts alike
    blocks = {"cells": cells, "data sets": cells.apply(np.log).groupby(level="dataset", sort=False).mean()}
    return Standings(summary, {name: ranks.friedman(table.to_numpy()) for name, table in blocks.items()})


def _losses(records: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """One column per method; rows (dataset, cost, repeat) in the paper's order."""
    wide = records.pivot(index=[*_CELL, "repeat"], columns="method", values="rcrloss")
    wide = wide[list(dict.fromkeys(records["method"]))].astype(float)
    return wide.sort_index(key=lambda level: level.map(list(paper.costs).index) if level.name == "dataset" else level)


def _cells(losses: pd.DataFrame) -> pd.DataFrame:
    return losses.groupby(level=_CELL, sort=False).mean()


def _ranked(losses: pd.DataFrame) -> pd.DataFrame:
    cells = _cells(losses)
    low, high = ranks.interval(ranks.mean_ranks(ranks.resampled(losses)))
    lowest = cells.eq(cells.min(axis=1), axis=0).sum()
    rank = ranks.mean_ranks(cells.to_numpy())
    columns = {"lowest": lowest, "cells": len(cells), "mean_rank": rank, "rank_low": low, "rank_high": high}
    return pd.DataFrame(columns, index=losses.columns)


def _against_paper(losses: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Compare with the printed numbers, in the cells that have one."""
    cells = _cells(losses)
    best = paper_best(paper).reindex(cells.index)
    known = best.notna().to_numpy()
    below = cells[known].lt(best[known], axis=0).sum()
    columns: dict[str, object] = {"ratio": np.nan, "ratio_low": np.nan, "ratio_high": np.nan}
    if known.any():
        printed = best[known].to_numpy()[:, None]  # (cell, 1)
        low, high = ranks.interval(_geometric_mean(ranks.resampled(losses)[:, known] / printed))
        ratio = _geometric_mean(cells[known].to_numpy() / printed)
        columns = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
    return pd.DataFrame({**columns, "below_paper": below, "printed": int(known.sum())}, index=cells.columns)


def _geometric_mean(values: ranks.Floats) -> ranks.Floats:
    mean: ranks.Floats = np.exp(np.log(values).mean(axis=-2))
    return mean


def time_table(seconds: pd.DataFrame, methods: Sequence[Method]) -> pd.DataFrame:
    """Give median, minimum and maximum seconds of fit and decisions of one split, by method and data set."""
    keys = {(method.model, method.surrogate): method.name for method in methods}
    method = [keys[key] for key in zip(seconds["model"], seconds["surrogate"], strict=True)]
    grouped = seconds.assign(method=method).groupby(["method", "dataset"], sort=False)["seconds"]
    table = grouped.agg(median="median", least="min", most="max", splits="count")
    return table.reset_index()
