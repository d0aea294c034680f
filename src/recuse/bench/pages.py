"""The pages of the experiments from the templates of this folder, and their tables in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from recuse.bench.method import BenchMethod
from recuse.bench.spec import COMPARISON, METRICS, Paper
from recuse.bench.tables import gaps, lowest_loss, trends
from recuse.files.atomic import new_file

Grid: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]  # the header and the lines of a table

# Reference lines, of the paper's network trained alone, with their titles; they are not ranked.
REFERENCES = {"always_accept": "always accept", "always_reject": "always reject", "oracle": "oracle"}

_CAPTIONS = {
    "ranks": "Mean rank over the cells. Shaded: not significantly different from the best (Nemenyi's test).",
    "loss_against_cost": "RcRLoss, divided by the lower of always accept and always reject.",
}


def write_reproduction(
    paper: Paper, tables: Mapping[str, pd.DataFrame], drawn: Sequence[Path], output: Path, command: str
) -> None:
    """Write ``README.md`` with the tables of a paper beside the printed numbers, and each of them for LaTeX."""
    repeats, compared = paper.protocol.repeats, COMPARISON in tables
    grids = {name: cells_of_paper(table, repeats) for name, table in tables.items()}
    page = _filled(
        "reproduction",
        title=paper.title,
        citation=paper.citation,
        reproduce=_reproduce(command),
        summary=markdown(_summary_of_paper(tables, repeats)),
        remark=_filled("comparison", **lowest_loss(tables[COMPARISON], "auto")) if compared else "",
        protocol=_protocol(paper, max(table["repeats"].max() for table in tables.values())),
        discussion=_discussion(output),
        figures=_figures(drawn),
        cells=_sections(grids),
    )
    _write(output / "README.md", page)
    for name, grid in grids.items():
        _write(output / f"{name}.tex", latex(grid))


def _summary_of_paper(tables: Mapping[str, pd.DataFrame], repeats: int) -> Grid:
    lines = []
    for name, table in tables.items():
        checked = table.assign(gap=gaps(table, repeats)).dropna(subset="gap")
        kinds = [["rcrloss"], METRICS[1:], ["sup"]]
        of_kinds = [checked[checked["metric"].isin(kind)]["gap"] for kind in kinds[:2]]
        alone = checked[checked["metric"] == "sup"].drop_duplicates(["dataset", "model"])["gap"]
        kept = trends(table)
        lines.append([name, *map(_within, (*of_kinds, alone)), f"{kept.sum()} of {len(kept)}" if len(kept) else "-"])
    return ["table", "RcRLoss", "other measures", "Sup", "trends"], lines


def _within(gap: pd.Series[float]) -> str:
    lower, higher = int((gap < -2).sum()), int((gap > 2).sum())
    return f"{len(gap) - lower - higher} of {len(gap)} (-{lower}, +{higher})" if len(gap) else "-"


def cells_of_paper(table: pd.DataFrame, repeats: int) -> Grid:
    """Give a line for each cell, ours beside the paper's.

    Examples
    --------
    >>> cell = dict(dataset="abalone", model="mlp", surrogate="mae", cost=3.0, metric="rcrloss", mean=2.5, std=0.1)
    >>> table = pd.DataFrame([cell | dict(repeats=10, paper_mean=2.41, paper_std=0.12)])
    >>> print(markdown(cells_of_paper(table, repeats=10)))
    | data set | cost | rcrloss |
    | --- | --- | --- |
    | abalone | 3 | 2.50 (0.10) / 2.41 (0.12) +1.8 |
    """
    checked = table.assign(gap=gaps(table, repeats))
    metrics = list(dict.fromkeys(table["metric"]))
    models, pairs = table["model"].nunique(), len(table[["model", "surrogate"]].drop_duplicates())
    several = [*(["model"] if models > 1 else []), *(["surrogate"] if pairs > models else [])]
    lines = []
    for key, cell in checked.groupby(["dataset", *several, "cost"], sort=False):
        *names, cost = key
        by_metric = {row["metric"]: _cell_of_paper(row) for row in cell.to_dict("records")}
        lines.append([*map(str, names), f"{cost:g}", *(by_metric.get(metric, "-") for metric in metrics)])
    return ["data set", *several, "cost", *metrics], lines


def _cell_of_paper(row: Mapping[Any, Any]) -> str:
    ours = _with_deviation(row["mean"], row["std"])
    if isnan(row["paper_mean"]):
        return ours
    gap = "-" if isnan(row["gap"]) else f"{row['gap']:+.1f}"
    text = f"{ours} / {_with_deviation(row['paper_mean'], row['paper_std'])} {gap}"
    return f"**{text}**" if abs(row["gap"]) > 2 else text


def _with_deviation(mean: float, deviation: float) -> str:
    if isnan(mean):
        return "-"
    return f"{mean:.2f}" if isnan(deviation) else f"{mean:.2f} ({deviation:.2f})"


def write_leaderboard(
    paper: Paper,
    tables: Mapping[str, pd.DataFrame],
    methods: Sequence[BenchMethod],
    titles: Mapping[str, str],
    drawn: Sequence[Path],
    output: Path,
    command: str,
) -> None:
    """Write ``README.md`` of a leaderboard, and its cells for LaTeX.

    Parameters
    ----------
    paper : Paper
    tables : mapping
        By name, as `recuse.bench.leaderboard.standings` gives them.
    methods : sequence of BenchMethod
        For their descriptions.
    titles : mapping of str to str
        The name of every method in tables and figures.
    drawn : sequence of Path
        The figures.
    output : Path
    command : str
    """
    cells, summary = tables["leaderboard"], tables["ranks"]
    grids = cells_of_methods(cells, titles)
    described = [[each.title or each.name, f"`{each.name}`", each.description, each.rows] for each in methods]
    page = _filled(
        "leaderboard",
        reproduce=_reproduce(command),
        standings=markdown(standings(summary, titles)),
        friedman=markdown(_friedman(tables["friedman"])),
        datasets=len(grids),
        paired=_paired(tables["paired_tests"], titles[summary["method"].iloc[0]], titles),
        protocol=_protocol(paper, cells["repeats"].max()),
        discussion=_discussion(output),
        figures=_figures(drawn),
        methods=markdown((["method", "name", "what it is", "rows"], described)),
        cells=_sections(grids),
        times=markdown(_times(tables["times"], list(grids), titles)),
    )
    _write(output / "README.md", page)
    _write(output / "leaderboard.tex", "\n\n".join(f"% {name}\n{latex(grid)}" for name, grid in grids.items()))


def standings(summary: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
    """Give a line for each method, the best first."""
    lines = []
    for row in summary.to_dict("records"):
        ranked = not isnan(row["mean_rank"])
        lowest = f"{row['lowest']:g} of {row['cells']:g}" if ranked else "-"
        below = f"{row['below_paper']} of {row['printed']}" if row["printed"] else "-"
        ratio, rank = (_between(row, *columns) for columns in (("ratio", "ratio"), ("mean_rank", "rank")))
        lines.append([titles[row["method"]], ratio, below, lowest, rank])
    return ["method", "against the paper", "below it", "lowest", "mean rank"], lines


def _between(row: Mapping[Any, Any], name: str, ends: str) -> str:
    return "-" if isnan(row[name]) else f"{row[name]:.2f} ({row[f'{ends}_low']:.2f} to {row[f'{ends}_high']:.2f})"


def _friedman(tests: pd.DataFrame) -> Grid:
    header = ["blocks", "number", "Friedman's statistic", "p", "critical difference"]
    rows = tests.to_dict("records")
    numbers = [(_number(r["statistic"], 1), _p_value(r["p_value"]), _number(r["critical_difference"], 2)) for r in rows]
    return header, [[r["blocks_are"], str(r["blocks"]), *some] for r, some in zip(rows, numbers, strict=True)]


def _paired(tests: pd.DataFrame, best: str, titles: Mapping[str, str]) -> str:
    if tests.empty:
        return ""
    texts = [f"{ratio:.2f}, {_p_value(p)}" for ratio, p in zip(tests["ratio"], tests["p_holm"], strict=True)]
    bold = [f"**{text}**" if p < 0.05 else text for text, p in zip(texts, tests["p_holm"], strict=True)]
    wide = tests.assign(text=bold).pivot_table("text", "method", "dataset", "first", sort=False)
    lines = [[titles[str(method)], *row] for method, row in zip(wide.index, wide.to_numpy(), strict=True)]
    return _filled("paired", best=best, table=markdown((["method", *wide.columns], lines)))


def _number(value: float, digits: int) -> str:
    return "-" if isnan(value) else f"{value:.{digits}f}"


def _p_value(value: float) -> str:
    return "below 0.001" if value < 1e-3 else _number(value, 3)


def cells_of_methods(cells: pd.DataFrame, titles: Mapping[str, str]) -> dict[str, Grid]:
    """Give the losses of all methods at every cost, by data set."""
    return {str(name): _cells(table, titles) for name, table in cells.groupby("dataset", sort=False)}


def _cells(table: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
    """Give the table of one data set: a line for each method and reference line, a column for each cost."""
    costs = sorted(set(table["cost"]))
    loss = table[table["metric"] == "rcrloss"].set_index(["method", "cost"])
    means, deviations = loss["mean"].to_dict(), loss["std"].to_dict()
    rejected = table[table["metric"] == "rej"].set_index(["method", "cost"])["mean"].to_dict()
    ranked = loss[~loss.index.isin(list(REFERENCES), level="method")]
    lowest = ranked.groupby(level="cost")["mean"].min()

    def cell(method: str, cost: float) -> str:
        text = _with_deviation(means[method, cost], deviations[method, cost])
        if (method, cost) not in rejected:  # a reference line
            return text
        return f"{f'**{text}**' if means[method, cost] == lowest[cost] else text}, {rejected[method, cost]:.0f}%"

    lines = [[titles[name], *(cell(name, cost) for cost in costs)] for name in dict.fromkeys(table["method"])]
    printed = loss["paper_best"].groupby(level="cost").first()
    if printed.notna().any():
        lines.append(["the paper's best", *(_number(printed[cost], 2) for cost in costs)])
    return ["method", *(f"cost {cost:g}" for cost in costs)], lines


def _times(times: pd.DataFrame, names: Sequence[str], titles: Mapping[str, str]) -> Grid:
    median = times.set_index(["method", "dataset"])["median"].to_dict()
    methods = dict.fromkeys(times["method"])
    lines = [
        [titles[each], *(_number(median.get((each, name), float("nan")), 1) for name in names)] for each in methods
    ]
    return ["method", *names], lines


def _reproduce(command: str) -> str:
    return f"Reproduce with\n\n    {command}" if command else ""


def _protocol(paper: Paper, repeats: int) -> str:
    words = {
        "repeats": repeats,
        "hidden": ", ".join(map(str, paper.protocol.hidden)),
        "learning_rates": ", ".join(f"{rate:g}" for rate in paper.protocol.learning_rates),
        "target": ", ".join(f"{units} ({model})" for model, units in paper.protocol.target.items()) or "standardised",
    }
    costs = [[name, ", ".join(f"{cost:g}" for cost in some)] for name, some in paper.costs.items()]
    return _filled("protocol", **vars(paper.protocol) | words, costs=markdown((["data set", "costs"], costs)))


def _filled(template: str, **parts: object) -> str:
    """Fill a template of this folder; empty parts leave no gap."""
    text = Path(__file__).with_name(f"{template}.md").read_text(encoding="utf-8").format(**parts)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _sections(grids: Mapping[str, Grid]) -> str:
    return "\n\n".join(f"### {name}\n\n{markdown(grid)}" for name, grid in grids.items())


def _discussion(output: Path) -> str:
    """Return the text that was written by hand, unchanged."""
    path = output / "discussion.md"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _figures(drawn: Sequence[Path]) -> str:
    parts = []
    for path in drawn:
        title = path.stem.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n![{path.stem}]({path.name})\n\n{_CAPTIONS.get(path.stem, '')}")
    return "\n\n".join(parts)


def markdown(grid: Grid) -> str:
    """Give a table in Markdown."""
    header, lines = grid
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *lines))


def latex(grid: Grid) -> str:
    r"""Give a table for LaTeX with the package booktabs.

    Examples
    --------
    >>> print(latex((["method", "cost 3"], [["RcR, mae", "**2.48 (0.16)**, 44%"]])))
    \begin{tabular}{lr}
    \toprule
    method & cost 3 \\
    \midrule
    RcR, mae & \textbf{2.48 (0.16)}, 44\% \\
    \bottomrule
    \end{tabular}
    """
    header, lines = grid
    escaped = [[re.sub(r"([%_&#$])", r"\\\1", cell) for cell in line] for line in (header, *lines)]
    first, *rest = (" & ".join(re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", cell) for cell in line) for line in escaped)
    body = "\n".join(f"{line} \\\\" for line in rest)
    start, end = f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", "\\end{tabular}"
    return f"{start}\n\\toprule\n{first} \\\\\n\\midrule\n{body}\n\\bottomrule\n{end}"


def _write(path: Path, text: str) -> None:
    with new_file(path) as file:
        file.write(f"{text}\n".encode())
