"""The page of the leaderboard, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.leaderboard.ranks import Friedman
from recuse.bench.leaderboard.summary import YARDSTICKS, Standings
from recuse.bench.methods.registry import ALWAYS_ACCEPT, Method
from recuse.bench.store import write_text

__all__ = ["write_leaderboard"]

_INTERVALS = (("ratio", "ratio"), ("mean_rank", "rank"))  # columns, and the prefixes of the columns of their ends

_INTRODUCTION = """\
Every method decides about the same test rows: {splits} random splits of each data set into 60% training, 20%
validation and 20% test rows, at the costs of the paper. No method uses test rows to choose parameters or
thresholds. Lower is better in all tables."""

_READING = """\
*Against the paper* is the RcRLoss divided by the lowest that the paper prints for a network in any of its tables, as
geometric mean over the cells (a cell is a data set at a cost). *Below it* counts the cells in which the method has a
lower loss than the paper, *lowest* those in which it has the lowest loss of all ranked methods. Ranks are within a
cell, 1 for the lowest loss. The 95% intervals in brackets come from resampling the splits of each data set: they show
the variation over splits, not over data sets. The reference lines are for the paper's network trained on squared
error alone; the oracle makes the best decisions about its predictions. A method with a better regressor may have a
lower loss than that oracle."""

_CAUTION = """\
Friedman's test assumes independent blocks. The cells of one data set share their rows, so the p-value of the first
line is too small. Only the data sets are independent, and {datasets} of them are few. By Nemenyi's test, two methods
differ at the 5% level if the difference of their mean ranks exceeds the critical difference."""

_METHODS = """\
Methods with a validation argument are fitted to the training rows and select epochs or thresholds on the validation
rows. Methods that cross-fit or hold out rows themselves are fitted to both together. All use the same 80% of the
rows. Joint training is as in the reproduction of the paper, on the target in its original units; our estimators
standardise the target."""

_CAPTIONS = {
    "ranks": "Mean rank over the cells. Shaded: not significantly different from the best (Nemenyi's test).",
    "loss_against_cost": "RcRLoss, divided by the lower of always accept and always reject.",
}

_CELLS = """\
RcRLoss, its standard deviation over the splits, and the rejection rate; the lowest loss of a column is bold. All
measures are in `leaderboard.csv`."""

_TIMES = """\
Median seconds of processor time of one split at all costs of the data set, training and decisions, one thread; a dash
marks runs that were reused from the reproduction and not timed."""


def write_leaderboard(
    table: pd.DataFrame,
    result: Standings,
    times: pd.DataFrame,
    methods: Sequence[Method],
    figures: Sequence[Path],
    path: Path,
    command: str,
) -> None:
    """Write the page.

    Parameters
    ----------
    table : DataFrame
        As `recuse.bench.leaderboard.summary.cell_table` gives it.
    result : Standings
    times : DataFrame
        As `recuse.bench.leaderboard.summary.time_table` gives it.
    methods : sequence of Method
    figures : sequence of Path
        In the folder of the page.
    path : Path
    command : str
        The command that reproduces the page.
    """
    titles = {method.name: method.title for method in methods} | YARDSTICKS
    names = list(dict.fromkeys(table["dataset"]))
    parts = [
        "# Methods side by side",
        _INTRODUCTION.format(splits=int(table["repeats"].max())),
        f"Reproduce with\n\n    {command}",
        "## In short\n\n" + _summary(result.summary, titles),
        _READING,
        _tests(result.tests),
        _CAUTION.format(datasets=len(names)),
    ]
    discussion = path.parent / "discussion.md"  # written by hand, copied unchanged
    if discussion.is_file():
        parts.append(discussion.read_text(encoding="utf-8").strip())
    parts += [_figure(each) for each in figures]
    parts.append("## Methods\n\n" + _METHODS + "\n\n" + _descriptions(methods))
    parts.append("## Cells\n\n" + _CELLS)
    parts += [f"### {name}\n\n{_cells(table[table['dataset'] == name], titles)}" for name in names]
    parts.append("## Times\n\n" + _TIMES + "\n\n" + _times(times, names, titles))
    write_text(path, "\n\n".join(parts) + "\n")


def _figure(path: Path) -> str:
    title = path.stem.replace("_", " ").capitalize()
    return f"## {title}\n\n![{path.stem}]({path.name})\n\n{_CAPTIONS[path.stem]}"


def _lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))


def _summary(summary: pd.DataFrame, titles: dict[str, str]) -> str:
    header = ["method", "against the paper", "below it", "lowest", "mean rank"]
    rows = []
    for row in summary.to_dict("records"):
        ranked = not isnan(row["mean_rank"])
        ratio, rank = (_between(row[name], row[f"{end}_low"], row[f"{end}_high"]) for name, end in _INTERVALS)
        lowest = f"{row['lowest']:g} of {row['cells']:g}" if ranked else ""
        below = f"{row['below_paper']} of {row['printed']}"
        rows.append([titles[row["method"]], ratio, below, lowest, rank if ranked else ""])
    return _lines(header, rows)


def _between(value: float, low: float, high: float) -> str:
    return "-" if isnan(value) else f"{value:.2f} ({low:.2f} to {high:.2f})"


def _tests(tests: dict[str, Friedman]) -> str:
    header = ["blocks", "number", "Friedman's statistic", "p", "critical difference"]
    rows = [
        [
            name,
            str(test.blocks),
            _number(test.statistic, 1),
            _p_value(test.p_value),
            _number(test.critical_difference, 2),
        ]
        for name, test in tests.items()
    ]
    return _lines(header, rows)


def _number(value: float, digits: int) -> str:
    return "-" if isnan(value) else f"{value:.{digits}f}"


def _p_value(value: float) -> str:
    return "below 0.001" if value < 1e-3 else _number(value, 3)


def _descriptions(methods: Sequence[Method]) -> str:
    rows = [[each.title, f"`{each.name}`", each.description, each.rows] for each in (*methods, ALWAYS_ACCEPT)]
    return _lines(["method", "name", "what it is", "rows"], rows)


def _cells(table: pd.DataFrame, titles: dict[str, str]) -> str:
    """Give the table of one data set: a row for each method and reference line, a column for each cost."""
    costs = sorted(set(table["cost"]))
    loss = table[table["metric"] == "rcrloss"].set_index(["method", "cost"])
    means, deviations = loss["mean"].to_dict(), loss["std"].to_dict()
    rejected = table[table["metric"] == "rej"].set_index(["method", "cost"])["mean"].to_dict()
    ranked = [name for name in dict.fromkeys(table["method"]) if name not in YARDSTICKS]
    lowest = {cost: min(means[name, cost] for name in ranked) for cost in costs}

    def cell(*key: Any) -> str:
        mean, deviation = means[key], deviations[key]
        text = f"{mean:.2f}" if isnan(deviation) else f"{mean:.2f} ({deviation:.2f})"
        if key not in rejected:  # a reference line
            return text
        text = f"**{text}**" if mean == lowest[key[1]] else text
        return f"{text}, {rejected[key]:.0f}%"

    rows = [[titles[name], *(cell(name, cost) for cost in costs)] for name in dict.fromkeys(table["method"])]
    printed = loss["paper_best"].groupby("cost").first().dropna()
    if len(printed):
        rows.append(["the paper's best", *(f"{printed[cost]:.2f}" if cost in printed else "" for cost in costs)])
    return _lines(["method", *(f"cost {cost:g}" for cost in costs)], rows)


def _times(times: pd.DataFrame, names: Sequence[str], titles: dict[str, str]) -> str:
    median = times.set_index(["method", "dataset"])["median"]
    rows = [
        [title, *(f"{median[name, dataset]:.1f}" if (name, dataset) in median else "-" for dataset in names)]
        for name, title in titles.items()
        if name not in ("always_reject", "oracle")  # nothing is run for them
    ]
    return _lines(["method", *names], rows)
