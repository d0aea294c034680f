"""The Markdown page about all image experiments in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.images.work_unit import KNOWN, YARDSTICKS
from recuse.bench.paper.tables import agreement, markdown
from recuse.bench.spec import METRICS, Paper
from recuse.bench.store import write_text

__all__ = ["in_printed_units", "write_image_page"]

_TITLES = {
    "agedb": "AgeDB, ages of faces",
    "breastpathq": "BreastPathQ, cellularity of tissue",
    "cellularity": "Generated tissue, whose Bayes risk is known",
}
_SQUARED = ("rcrloss", "al", "rl", "sup", "always_reject", "oracle", "bayes_risk", "bayes_al")
_CAPTIONS = {
    "losses": "Mean over the repeats at each cost; the band is one standard deviation.",
    "pictures": "Test images of the first repeat at the middle cost, each with its prediction and target",
}

_INTRODUCTION = """\
A regressor and a rejector share a backbone and are trained together. *Sup* is the same network trained on squared
error alone, which accepts all images. The loss of *always reject* is the cost. The *oracle* makes the best decisions
about the predictions of the pair."""

_COMPARED = """\
Each cell shows *ours (deviation) / printed (deviation)*. It is bold if the two means are more than two combined
standard deviations apart (for RcRLoss and Sup, only if ours is higher). Rej, AR and RA are in percent."""

_GENERATED = """\
Means over the repeats, with standard deviations where there is more than one; Rej, AR and RA are in percent. Each
repeat generates new images. *bayes_risk* is the lowest possible loss, and *bayes_ratio* our RcRLoss divided by it.
*risk_ratio* is the same with the expected loss of each decision instead of the loss on the drawn target, so that it
does not depend on the draw. *bayes_al* and *bayes_rej* are the accepted loss and the rejection rate of the Bayes
decision, and *rank_correlation* is Spearman's correlation between our scores (with the sign changed) and the true
variances."""


def write_image_page(paper: Paper, folder: Path) -> None:
    """Write ``README.md`` about every data set that was run in this folder.

    Parameters
    ----------
    paper : Paper
        Its image data sets are included if their files exist.
    folder : Path
        Contains ``<dataset>.csv`` and ``<dataset>.json`` for each data set that was run.
    """
    parts = ["# Regression with rejection on images", paper.citation, _INTRODUCTION]
    discussion = folder / "discussion.md"  # written by hand, copied unchanged
    if discussion.is_file():
        parts.append(discussion.read_text(encoding="utf-8").strip())
    for name in paper.images:
        if (folder / f"{name}.json").is_file():
            parts += _section(name, folder)
    write_text(folder / "README.md", "\n\n".join(parts) + "\n")


def _section(name: str, folder: Path) -> list[str]:
    facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    table = in_printed_units(pd.read_csv(folder / f"{name}.csv"), facts["scale"])
    unit = "" if facts["scale"] == 1 else f" Costs and losses are times {facts['scale']:g}."
    parts = [f"## {_TITLES.get(name, name)}", f"Reproduce with\n\n    {facts['command']}", _protocol(facts, table)]
    parts.append(_summary(table))
    for kind, caption in _CAPTIONS.items():
        if (folder / f"{name}_{kind}.png").is_file():
            caption += _deviation(kind, table)
            parts.append(f"![{name} {kind}]({name}_{kind}.png)\n\n{caption}")
    parts.append((_GENERATED if _known(table) else _COMPARED) + unit)
    # two tables, since all measures do not fit into one
    halves = [table[table["metric"].isin(names)] for names in ((*METRICS, "sup"), (*YARDSTICKS, *KNOWN))]
    return [*parts, *(markdown(half) for half in halves)]


def _known(table: pd.DataFrame) -> bool:
    return "bayes_risk" in set(table["metric"])


def _deviation(kind: str, table: pd.DataFrame) -> str:
    if kind != "pictures":
        return ""
    return ", and the true standard deviation of the target." if _known(table) else "."


def in_printed_units(table: pd.DataFrame, scale: float) -> pd.DataFrame:
    """Return a table with costs and losses multiplied by the scale that the paper prints them with.

    Examples
    --------
    >>> row = dict(cost=0.005, metric="rcrloss", mean=0.0041, std=0.0002, paper_mean=0.00437, paper_std=0.00017)
    >>> in_printed_units(pd.DataFrame([row]), 1000)[["cost", "mean", "paper_mean"]]
       cost  mean  paper_mean
    0   5.0   4.1        4.37
    """
    factor = table["metric"].isin(_SQUARED).map({True: scale, False: 1.0})
    losses = {column: table[column] * factor for column in ("mean", "std", "paper_mean", "paper_std")}
    return table.assign(cost=table["cost"] * scale, **losses)


def _protocol(facts: dict[str, Any], table: pd.DataFrame) -> str:
    protocol = facts["protocol"]
    rows, repeats = protocol["rows"], int(table["repeats"].max())
    pictures = (
        f"{rows[0]:,} patches for training, {rows[1]:,} for validation and {rows[2]:,} for testing"
        if rows
        else f"{int(protocol['pictures'].split()[0]):,} images, split at random into 60 / 20 / 20 %"
    )
    return (
        f"{pictures}, {protocol['size']} x {protocol['size']} pixels; network {table['model'].iloc[0]}; "
        f"{protocol['epochs']} epochs, of which the regressor trains alone in {_alone(protocol)}; batches of "
        f"{protocol['batch_size']}; Adam with a {protocol['schedule']} learning rate of {protocol['learning_rate']:g}; "
        f"{repeats} {'repeat' if repeats == 1 else 'repeats'}. Slow-Start is trained once per repeat and shared. All "
        f"trainings and tests took {facts['processor seconds'] / 60:.1f} minutes of processor time."
    )


def _alone(protocol: dict[str, Any]) -> int:
    return min(int(protocol["slow_start"]), int(protocol["epochs"]) // 2)


def _summary(table: pd.DataFrame) -> str:
    """Count the cells in which rejection lowers the loss, and compare with the Bayes risk or the paper."""
    wide = table.pivot(index=["surrogate", "cost"], columns="metric", values="mean")
    lower = int((wide["rcrloss"] < wide["sup"]).sum())
    free = int((wide["rcrloss"] < wide[["sup", "always_reject"]].min(axis=1)).sum())
    text = f"RcRLoss is below Sup in {lower} of {len(wide)} cells, and below both Sup and always rejecting in {free}."
    if _known(table):
        return text + (
            f" It is at most {wide['bayes_ratio'].max():.3f} times the Bayes risk; the rank correlation between "
            f"our scores and the true variance is at least {wide['rank_correlation'].min():.2f}."
        )
    checked = agreement(table)
    if checked.empty:
        return text
    loss, others = (checked[checked["metric"].isin(names)] for names in (("rcrloss",), (*METRICS[1:], "sup")))
    counts = [f"{int(part['agrees'].sum())} of {len(part)}" for part in (loss, others)]
    return text + f" Of the printed numbers, {counts[0]} of RcRLoss and {counts[1]} others agree with ours."
