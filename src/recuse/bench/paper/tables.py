"""Tables of means over repeats beside the printed numbers, as CSV and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from recuse.bench.spec import METRICS, Paper
from recuse.bench.store import write_text
from recuse.bench.work_unit import SUPERVISED

__all__ = ["COLUMNS", "agreement", "markdown", "over_repeats", "side_by_side", "summarise", "write_csv"]

COLUMNS = ["dataset", "model", "surrogate", "cost", "metric", "mean", "std", "repeats", "paper_mean", "paper_std"]
_CELL = ["dataset", "model", "surrogate", "cost", "metric"]


def summarise(records: pd.DataFrame, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Mean and standard deviation over the repeats, one row for each cell and metric, and for Sup.

    A repeat in which a measure does not exist (for example, no row was accepted) is left out of its mean.
    """
    pairs = records[records["surrogate"] != SUPERVISED]
    return pd.concat([over_repeats(pairs, metrics), _supervised(records, pairs)], ignore_index=True)


def over_repeats(records: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Mean, standard deviation and number of repeats of some measures of each cell."""
    long = records.melt([*_CELL[:4], "repeat"], list(metrics), var_name="metric").astype({"value": float})
    grouped = long.groupby(_CELL, sort=False)["value"].agg(["mean", "std", "count"]).reset_index()
    return grouped.rename(columns={"count": "repeats"})


def _supervised(records: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Repeat Sup, which depends on neither surrogate nor cost, beside each of them, as in the paper."""
    alone = records[records["surrogate"] == SUPERVISED]
    if alone.empty:
        return pd.DataFrame(columns=[*_CELL, "mean", "std", "repeats"])
    sup = alone.groupby(["dataset", "model"], sort=False)["sup"].agg(["mean", "std", "count"]).reset_index()
    sup = sup.rename(columns={"count": "repeats"}).assign(metric="sup")
    return pairs[_CELL[:4]].drop_duplicates().merge(sup, on=["dataset", "model"])[[*_CELL, "mean", "std", "repeats"]]


def side_by_side(summary: pd.DataFrame, paper: Paper, table: str) -> pd.DataFrame:
    """Cells of one table in the paper's order, with the printed mean and deviation where there is one."""
    spec = paper.tables[table]
    ours = summary[summary["model"].isin(spec.models) & summary["surrogate"].isin(spec.surrogates)]
    printed = paper.printed.rename(columns={"mean": "paper_mean", "std": "paper_std"})
    joined = ours.merge(printed[[*_CELL, "paper_mean", "paper_std"]], on=_CELL, how="left")
    order = {
        "dataset": list(paper.costs),
        "model": list(spec.models),
        "surrogate": list(spec.surrogates),
        "metric": [*METRICS, "sup"],
    }
    ranks = joined.assign(**{column: joined[column].map(values.index) for column, values in order.items()})
    return joined.loc[ranks.sort_values(_CELL).index, COLUMNS].reset_index(drop=True)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table with six significant digits."""
    write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Compare the cells with the printed numbers.

    Adds ``gap``, the difference of the means in combined standard deviations, and ``agrees``: within two of them,
    or, for losses we minimise (RcRLoss and Sup), below the printed mean.
    """
    known = table.dropna(subset=["paper_mean"]).copy()
    combined = np.hypot(known["std"].fillna(0), known["paper_std"])  # a single repeat has no deviation
    known["gap"] = (known["mean"] - known["paper_mean"]) / combined
    minimised = known["metric"].isin(["rcrloss", "sup"])
    known["agrees"] = (known["gap"].abs() <= 2) | (minimised & (known["gap"] < 0))
    return known


def markdown(table: pd.DataFrame) -> str:
    """Give a Markdown table with a row for each cell, ours beside the paper's; disagreements are bold.

    Examples
    --------
    >>> cell = dict(dataset="abalone", model="mlp", surrogate="mae", cost=3.0, metric="rcrloss", mean=2.5, std=0.1)
    >>> print(markdown(pd.DataFrame([cell | dict(repeats=10, paper_mean=2.41, paper_std=0.12)])))
    | data set | cost | rcrloss |
    | --- | --- | --- |
    | abalone | 3 | 2.50 (0.10) / 2.41 (0.12) |
    """
    table = table.reset_index(drop=True)
    metrics = list(dict.fromkeys(table["metric"]))
    far = set(agreement(table).query("not agrees").index)
    several = [name for name in ("model", "surrogate") if table[name].nunique() > 1]
    lines = ["| " + " | ".join(["data set", *several, "cost", *metrics]) + " |"]
    lines.append("| " + " | ".join(["---"] * (2 + len(several) + len(metrics))) + " |")
    for key, cell in table.groupby(["dataset", *several, "cost"], sort=False):
        *names, cost = key
        values = [_cell(row, bold=row.Index in far) for row in cell.itertuples()]
        lines.append("| " + " | ".join([*map(str, names), f"{cost:g}", *values]) + " |")
    return "\n".join(lines)


def _cell(row: object, *, bold: bool) -> str:
    def number(mean: float, std: float) -> str:
        if np.isnan(mean):
            return "-"
        return f"{mean:.2f}" if np.isnan(std) else f"{mean:.2f} ({std:.2f})"

    ours = number(row.mean, row.std)  # type: ignore[attr-defined]
    ours = f"**{ours}**" if bold else ours
    if np.isnan(row.paper_mean):  # type: ignore[attr-defined]
        return ours
    return f"{ours} / {number(row.paper_mean, row.paper_std)}"  # type: ignore[attr-defined]
