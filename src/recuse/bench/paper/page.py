"""The page of a reproduction, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from recuse.bench.paper.tables import agreement, markdown
from recuse.bench.spec import METRICS, Paper
from recuse.bench.store import write_text

__all__ = ["trends", "write_page"]

_LEGEND = """\
Each cell shows *ours (deviation) / printed (deviation)*, over {repeats} random splits. It is bold if the two means are
more than two combined standard deviations apart (for RcRLoss and Sup, only if ours is higher). Rej, AR and RA are in
percent.
"""


def write_page(
    paper: Paper,
    tables: dict[str, pd.DataFrame],
    figures: Sequence[Path],
    path: Path,
    command: str,
    remarks: Sequence[str] = (),
) -> None:
    """Write the page with all tables and figures.

    Parameters
    ----------
    paper : Paper
    tables : dict of str to DataFrame
        As `recuse.bench.paper.tables.side_by_side` gives them.
    figures : sequence of Path
        In the folder of the page.
    path : Path
    command : str
        The command that reproduces the page.
    remarks : sequence of str
        Paragraphs under the summary.
    """
    repeats = max(int(table["repeats"].max()) for table in tables.values())
    parts = [
        f"# {paper.title}: ours beside the printed numbers",
        f"{paper.citation}\n\nReproduce with\n\n    {command}",
        "## In short\n\n" + _summary(tables),
        *remarks,
    ]
    discussion = path.parent / "discussion.md"  # written by hand
    if discussion.is_file():
        parts.append(discussion.read_text(encoding="utf-8").strip())
    parts += [
        f"## {figure.stem.replace('_', ' ').capitalize()}\n\n![{figure.stem}]({figure.name})" for figure in figures
    ]
    parts.append("## Tables\n\n" + _LEGEND.format(repeats=repeats).strip())
    parts += [f"### {name}\n\n{markdown(table)}" for name, table in tables.items()]
    write_text(path, "\n\n".join(parts) + "\n")


def _summary(tables: dict[str, pd.DataFrame]) -> str:
    lines = ["| table | RcRLoss | other measures | Sup | trends |", "| --- | --- | --- | --- | --- |"]
    for name, table in tables.items():
        checked = agreement(table)
        if checked.empty:
            continue
        others = checked[checked["metric"].isin(METRICS[1:])]
        sup = checked[checked["metric"] == "sup"].drop_duplicates(["dataset", "model"])
        loss = checked[checked["metric"] == "rcrloss"]
        counts = [f"{int(part['agrees'].sum())} of {len(part)}" for part in (loss, others, sup)]
        kept = trends(table)
        lines.append(f"| {name} | {' | '.join(counts)} | {int(kept.to_numpy().sum())} of {kept.size} |")
    lines.append(
        "\nA cell counts if the two means are within two combined standard deviations or, for RcRLoss and Sup, if ours "
        "is lower. There are two trends for each data set, model and surrogate: the mean rejection rate falls with the "
        "cost (rank correlation below -0.5), and the mean accepted loss rises with it (above 0.5)."
    )
    return "\n".join(lines)


def trends(table: pd.DataFrame) -> pd.DataFrame:
    """Whether rejection falls and accepted loss rises with the cost, one row per data set, model and surrogate."""
    cells = ["dataset", "model", "surrogate", "cost"]
    wide = table.pivot(index=cells, columns="metric", values="mean").reset_index()
    groups = wide.groupby(["dataset", "model", "surrogate"], sort=False)
    ranks = groups[["cost", "rej", "al"]].apply(lambda part: part.corr(method="spearman")["cost"])
    return pd.DataFrame({"rejection falls": ranks["rej"] < -0.5, "accepted loss rises": ranks["al"] > 0.5})
