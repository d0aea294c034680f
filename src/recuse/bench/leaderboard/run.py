"""Runs all methods by a paper's protocol and writes their leaderboard (`recuse bench methods`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from recuse.bench.command import reproducing_command
from recuse.bench.leaderboard.page import write_leaderboard
from recuse.bench.leaderboard.summary import Standings, cell_table, named, standings, time_table
from recuse.bench.methods.registry import ALWAYS_ACCEPT, METHODS, Method, method_groups, run_method
from recuse.bench.paper import figures
from recuse.bench.paper.tables import write_csv
from recuse.bench.runner import group_seconds, record_environment, run_groups
from recuse.bench.spec import Paper

__all__ = ["run_methods"]


def run_methods(
    paper: Paper,
    methods: Sequence[Method],
    output: Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    repeats: int | None = None,
    datasets: Sequence[str] | None = None,
    reuse: Path | None = None,
    draw: bool = True,
    progress: bool = True,
) -> tuple[pd.DataFrame, Standings]:
    """Run methods on a paper's data sets by its protocol, and write their leaderboard.

    Parameters
    ----------
    paper : Paper
    methods : sequence of Method
    output : Path
        Gets ``leaderboard.csv``, ``ranks.csv``, ``friedman.csv``, ``times.csv``, ``README.md``, the figures,
        ``environment.json``, and ``groups/`` with finished work, from which an interrupted run continues.
    jobs : int
        Number of processes; it changes the times, but no other number.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers run the groups instead.
    repeats, datasets : optional
        Run only a part.
    reuse : Path, optional
        Folder that `run_paper` wrote by the same protocol; its runs of the paper's method are reused.
    draw : bool
        Also draw the figures.
    progress : bool

    Returns
    -------
    leaderboard : DataFrame
    standings : Standings
    """
    for name in datasets or ():
        if name not in paper.costs:
            raise ValueError(f"datasets must be among {list(paper.costs)}, got {name!r}")
    if not methods:
        raise ValueError(f"methods must be some of {list(METHODS)}, got none")
    everything = (*methods, ALWAYS_ACCEPT)
    groups = method_groups(everything, paper, repeats=repeats, datasets=datasets)
    work, folder = partial(run_method, methods=everything), output / "groups"
    finished = None if reuse is None else reuse / "groups"
    run = partial(run_groups, work=work, reuse=finished, jobs=jobs, scheduler=scheduler, progress=progress)
    records = named(run(groups, paper.protocol, folder), methods)
    table, result = cell_table(records, paper), standings(records, paper)
    times = time_table(group_seconds(groups, paper.protocol, folder), everything)
    for name, frame in (
        ("leaderboard", table),
        ("ranks", result.summary),
        ("friedman", result.test_table),
        ("times", times),
    ):
        write_csv(frame, output / f"{name}.csv")
    pictures = _draw(records, result, paper, methods, output) if draw else []
    record_environment(output / "environment.json")
    names = [method.name for method in methods]
    options = {"methods": None if names == list(METHODS) else names, "datasets": datasets, "repeats": repeats}
    own = {"paper": paper.source or paper.name, **options, "reuse": reuse, "no-figures": not draw}
    command = reproducing_command("methods", {**own, "jobs": 2, "o": output})
    write_leaderboard(table, result, times, methods, pictures, output / "README.md", command)
    return table, result


def _draw(
    records: pd.DataFrame, result: Standings, paper: Paper, methods: Sequence[Method], output: Path
) -> list[Path]:
    titles = {method.name: method.title for method in methods}
    drawn = [output / "ranks.png", output / "loss_against_cost.png"]
    difference = result.tests["cells"].critical_difference
    figures.mean_ranks(result.summary, difference, titles, drawn[0])
    figures.relative_loss(records, paper, titles, drawn[1])
    return drawn
