"""Runs all methods by a paper's protocol and ranks them (`recuse bench methods`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from recuse.bench import figures, pages, statistics
from recuse.bench.cells import MEASURES, BenchOptions, finished, list_cells, measures, write_results
from recuse.bench.method import BenchMethod
from recuse.bench.methods import METHODS
from recuse.bench.rcr import AcceptAll
from recuse.bench.spec import Paper
from recuse.bench.tables import in_order, over_splits
from recuse.files.tables import write_table
from recuse.validation import require

_COLUMNS = ["dataset", "method", "cost", "metric", "mean", "std", "repeats", "paper_best"]
_CELL = ["dataset", "cost"]
_SPLIT = ["dataset", "method", "cost", "repeat"]


def run_methods(
    paper: Paper,
    methods: Sequence[BenchMethod],
    output: Path,
    options: BenchOptions,
    against: Path | None = None,
) -> dict[str, pd.DataFrame]:
    """Run methods on a paper's data sets by its protocol, and rank them.

    Parameters
    ----------
    paper : Paper
    methods : sequence of BenchMethod
    output : Path
        Gets the tables, ``splits.csv`` with the measures of every split, ``README.md``, the figures,
        ``environment.json``, and ``cells/`` with finished work, from which an interrupted run continues.
    options : BenchOptions
    against : Path, optional
        A ``splits.csv`` of the same protocol, whose methods are ranked beside these without running them.

    Returns
    -------
    dict of str to DataFrame
        As `standings` gives it.
    """
    costs = options.costs_of(paper.costs)
    everything = [*methods, *([AcceptAll()] if against is None else [])]
    results = finished(list_cells(paper, everything, costs, options), output, options)
    measured = measures(results).drop(columns="share")
    if against is not None:
        measured = pd.concat([measured, _others(against, measured)], ignore_index=True)
    tables = standings(measured, paper)
    write_table(measured, str(output / "splits.csv"))
    write_results(tables, results, output, options)
    titles = {name: name for name in measured["method"].unique()}
    titles |= {method.name: method.title or method.name for method in (*METHODS.values(), *methods)} | pages.REFERENCES
    drawn = figures.of_leaderboard(tables, titles, output, options.figures)
    pages.write_leaderboard(paper, tables, [*methods, AcceptAll()], titles, drawn, output, options.command)
    return tables


def _others(path: Path, measured: pd.DataFrame) -> pd.DataFrame:
    """Read the splits of other methods, as far as they are about the cells of ours."""
    stored = pd.read_csv(path)
    require(set(_SPLIT) <= set(stored), f"the columns of {path}", f"{', '.join(_SPLIT)} and measures", [*stored])
    cells = measured[["dataset", "cost", "repeat"]].drop_duplicates()
    others = stored[~stored["method"].isin(measured["method"].unique())].merge(cells)
    counts = others["method"].value_counts()
    for name, count in ({"always_accept": 0} | counts.to_dict()).items():
        require(count == len(cells), f"the splits of {name} in {path}", f"all {len(cells)} of this run", count)
    return others


def standings(measured: pd.DataFrame, paper: Paper) -> dict[str, pd.DataFrame]:
    """Rank the methods and compare them with the paper.

    Parameters
    ----------
    measured : DataFrame
        As `recuse.bench.cells.measures` gives it, with cells of "always_accept".
    paper : Paper

    Returns
    -------
    leaderboard : DataFrame
        Mean and deviation over the splits of every measure of every cell; reference lines have an RcRLoss only.
    ranks : DataFrame
        One row per method, the best mean rank first, then the reference lines, which have no rank. ``ratio`` is the
        geometric mean over the cells of RcRLoss over the paper's best; ``below_paper`` of ``printed`` cells are below
        it; in ``lowest`` of ``cells`` the method is the lowest of all. ``*_low`` and ``*_high`` are the ends
        of the 95% intervals over resampled splits.
    friedman : DataFrame
        Friedman's test with the cells as blocks, and with the data sets.
    paired_tests : DataFrame
        Tests of each method against the best one, as `recuse.bench.statistics.paired_tests` gives them.
    times : DataFrame
        Median, minimum and maximum seconds of processor time of one split at all costs, by method and data set.
    """
    accepting = measured[measured["method"] == "always_accept"]
    bare = accepting[["dataset", "cost", "repeat"]]
    lines = [
        bare.assign(method="always_accept", rcrloss=accepting["rcrloss"], seconds=accepting["seconds"]),
        bare.assign(method="always_reject", rcrloss=accepting["cost"]),
        bare.assign(method="oracle", rcrloss=accepting["oracle"]),
    ]
    everything = pd.concat([measured[measured["method"] != "always_accept"], *lines], ignore_index=True)
    order = {"dataset": list(paper.costs), "method": list(dict.fromkeys(everything["method"]))}
    rows = [*_CELL, "repeat"]
    losses = in_order(everything, order, rows).pivot_table("rcrloss", rows, "method", sort=False)[order["method"]]
    ranked = losses.drop(columns=list(pages.REFERENCES))
    summary = pd.concat([_against_paper(losses, paper), _ranked(ranked)], axis=1).rename_axis("method")
    summary = summary.loc[[*ranked.columns, *pages.REFERENCES]].sort_values("mean_rank", kind="stable").reset_index()
    means = _means(ranked)
    # mean logarithms over the costs of a data set, so that every cost counts alike
    blocks = {"cells": means, "data sets": means.apply(np.log).groupby(level="dataset", sort=False).mean()}
    tests = [{"blocks_are": name} | statistics.friedman(each.to_numpy()) for name, each in blocks.items()]
    paired = statistics.paired_tests(ranked, str(summary["method"].iloc[0]))
    return {
        "leaderboard": _cell_table(everything, paper, order),
        "ranks": summary,
        "friedman": pd.DataFrame(tests),
        "paired_tests": paired,
        "times": _times(everything),
    }


def paper_best(paper: Paper) -> pd.Series[float]:
    """Give the lowest RcRLoss that the paper prints for a network at each data set and cost, over its tables."""
    printed = paper.printed.query("model == 'mlp' and metric == 'rcrloss'")
    return printed.groupby(_CELL)["mean"].min().rename("paper_best")


def _cell_table(measured: pd.DataFrame, paper: Paper, order: dict[str, list[str]]) -> pd.DataFrame:
    cells = over_splits(measured, list(MEASURES))
    cells = cells[(cells["metric"] == "rcrloss") | ~cells["method"].isin(list(pages.REFERENCES))]
    table = cells.merge(paper_best(paper).reset_index().assign(metric="rcrloss"), on=[*_CELL, "metric"], how="left")
    return in_order(table, order | {"metric": list(MEASURES)}, ["dataset", "method", "cost", "metric"])[_COLUMNS]


def _means(losses: pd.DataFrame) -> pd.DataFrame:
    return losses.groupby(level=_CELL, sort=False).mean()


def _ranked(losses: pd.DataFrame) -> pd.DataFrame:
    cells = _means(losses)
    low, high = statistics.interval(statistics.mean_ranks(statistics.resampled(losses)))
    lowest = cells.eq(cells.min(axis=1), axis=0).sum()
    rank = statistics.mean_ranks(cells.to_numpy())
    columns = {"lowest": lowest, "cells": len(cells), "mean_rank": rank, "rank_low": low, "rank_high": high}
    return pd.DataFrame(columns, index=losses.columns)


def _against_paper(losses: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Compare with the printed numbers, in the cells that have one."""
    cells = _means(losses)
    best = paper_best(paper).reindex(cells.index)
    known = best.notna().to_numpy()
    below = cells[known].lt(best[known], axis=0).sum()
    columns: dict[str, object] = {"ratio": np.nan, "ratio_low": np.nan, "ratio_high": np.nan}
    if known.any():
        printed = best[known].to_numpy()[:, None]  # (cell, 1)
        low, high = statistics.interval(_geometric_mean(statistics.resampled(losses)[:, known] / printed))
        ratio = _geometric_mean(cells[known].to_numpy() / printed)
        columns = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
    return pd.DataFrame({**columns, "below_paper": below, "printed": int(known.sum())}, index=cells.columns)


def _geometric_mean(values: statistics.Floats) -> statistics.Floats:
    mean: statistics.Floats = np.exp(np.log(values).mean(axis=-2))
    return mean


def _times(measured: pd.DataFrame) -> pd.DataFrame:
    of_split = measured.dropna(subset=["seconds"]).groupby(["method", "dataset", "repeat"], sort=False)["seconds"].sum()
    grouped = of_split.groupby(level=["method", "dataset"], sort=False)
    return grouped.agg(median="median", least="min", most="max", splits="count").reset_index()
