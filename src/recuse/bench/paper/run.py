"""Runs a paper's experiments and writes tables, figures and a page (`recuse bench paper`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from recuse.bench.command import reproducing_command
from recuse.bench.methods.auto import at_rejection_rates, our_group, run_ours
from recuse.bench.methods.published import rival_groups, run_rival
from recuse.bench.paper import figures
from recuse.bench.paper.comparison import compare, lowest_accepted_loss
from recuse.bench.paper.page import write_page
from recuse.bench.paper.tables import side_by_side, summarise, write_csv
from recuse.bench.runner import record_environment, run_groups, share_groups, table_groups
from recuse.bench.spec import COMPARISON, Paper
from recuse.bench.work_unit import SUPERVISED, Group

__all__ = ["run_paper"]


def run_paper(
    paper: Paper,
    tables: Sequence[str],
    output: Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    repeats: int | None = None,
    datasets: Sequence[str] | None = None,
    costs: Sequence[float] | None = None,
    reuse: Path | None = None,
    draw: bool = True,
    progress: bool = True,
) -> dict[str, pd.DataFrame]:
    """Run the experiments of some tables, and write tables, figures and a page.

    Parameters
    ----------
    paper : Paper
    tables : sequence of str
    output : Path
        Gets one CSV per table, ``README.md`` with all of them side by side, the figures, ``environment.json``, and
        ``groups/`` with finished work, from which an interrupted run continues.
    jobs : int
    scheduler : str, optional
        Address of a Dask scheduler, whose workers run the groups instead.
    repeats, datasets, costs : optional
        Run only a part.
    reuse : Path, optional
        Folder of `recuse bench methods`, whose runs of AutoRejector are reused.
    draw : bool
        Also run and draw the figures.
    progress : bool

    Returns
    -------
    dict of str to DataFrame
        The tables of the CSV files.
    """
    _check(paper, tables, datasets, costs)
    finished = None if reuse is None else reuse / "groups"
    run = partial(
        run_groups,
        protocol=paper.protocol,
        folder=output / "groups",
        reuse=finished,
        jobs=jobs,
        scheduler=scheduler,
        progress=progress,
    )
    own = [name for name in tables if name != COMPARISON]
    compared = COMPARISON in tables
    groups = table_groups(paper, [*own, *(["mlp"] * compared)], repeats=repeats, datasets=datasets, costs=costs)
    records = run(groups)
    summary = summarise(records)
    written = {name: side_by_side(summary, paper, name) for name in own}
    rivals = pd.DataFrame()
    if compared:
        rivals = run(rival_groups(paper, repeats=repeats, names=datasets, costs=costs), work=run_rival)
        ours = at_rejection_rates(run(_our_groups(paper, repeats, datasets), work=run_ours))
        rivals = pd.concat([rivals, ours if costs is None else ours[ours["cost"].isin(costs)]])
        written[COMPARISON] = compare(pd.concat([_rcr_mae(records), rivals]), paper)
    for name, table in written.items():
        write_csv(table, output / f"{name}.csv")
    pictures = []
    if draw:
        shares = run(share_groups(paper, repeats=repeats, datasets=datasets))
        pictures = _draw(records, rivals, shares, paper, output)
    record_environment(output / "environment.json")
    remarks = [_remark(written[COMPARISON])] if compared else []
    options = {"repeats": repeats, "datasets": datasets, "costs": costs, "reuse": reuse, "no-figures": not draw}
    source = {"paper": paper.source or paper.name, "tables": list(tables)}
    command = reproducing_command("paper", {**source, **options, "jobs": 2, "o": output})
    write_page(paper, written, pictures, output / "README.md", command, remarks)
    return written


def _our_groups(paper: Paper, repeats: int | None, datasets: Sequence[str] | None) -> list[Group]:
    """List the runs of AutoRejector on the data sets of the comparison."""
    return [
        our_group(paper, name, repeat)
        for name in dict.fromkeys(paper.comparison["dataset"])
        if datasets is None or name in datasets
        for repeat in range(repeats or paper.protocol.repeats)
    ]


def _remark(comparison: pd.DataFrame) -> str:
    """Count the cells in which AutoRejector has the lowest accepted loss."""
    counts = lowest_accepted_loss(comparison)
    return (
        "In the comparison, AutoRejector (`auto`) rejects the lowest share of rows that is required of, or reported "
        "for, any other method in a cell: the test rows with the highest expected losses, as on a risk-coverage curve. "
        f"Of {counts['cells']} cells, its accepted loss is below all our runs of the others in {counts['our_runs']}, "
        f"below all printed numbers in {counts['printed']}, and below both in {counts['both']}."
    )


def _rcr_mae(records: pd.DataFrame) -> pd.DataFrame:
    return records[(records["model"] == "mlp") & (records["surrogate"] == "mae")]


def _check(paper: Paper, tables: Sequence[str], datasets: Sequence[str] | None, costs: Sequence[float] | None) -> None:
    known_costs = sorted({cost for group in paper.costs.values() for cost in group})
    for name, given, known in (
        ("tables", tables, paper.table_names),
        ("datasets", datasets, list(paper.costs)),
        ("costs", costs, known_costs),
    ):
        for value in given or ():
            if value not in known:
                raise ValueError(f"{name} must be among {known}, got {value!r}")


def _draw(records: pd.DataFrame, rivals: pd.DataFrame, shares: pd.DataFrame, paper: Paper, output: Path) -> list[Path]:
    """Draw the figures that the records allow."""
    drawn = []
    for model in dict.fromkeys(records["model"]):
        drawn.append(output / f"losses_against_cost_{model}.png")
        figures.losses_against_cost(records, paper, model, drawn[-1])
    if len(shares):
        drawn.append(output / "losses_against_training_share.png")
        figures.losses_against_share(shares, paper, drawn[-1])
    names = [name for name in paper.accepted_loss_datasets if name in set(records["dataset"])]
    if names:
        drawn.append(output / "accepted_loss_against_rejection.png")
        figures.accepted_loss_against_rejection(_methods(records, rivals), paper.comparison, names, drawn[-1])
    return drawn


def _methods(records: pd.DataFrame, rivals: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Give the records of each entry of the legend."""
    mlp = records[(records["model"] == "mlp") & (records["surrogate"] != SUPERVISED)]
    present = [name for name in figures.SURROGATES if name in set(mlp["surrogate"])]
    methods = {f"RcR, {name}": mlp[mlp["surrogate"] == name] for name in present}
    if len(rivals):
        methods |= {figures.METHODS[str(name)]: part for name, part in rivals.groupby("model", sort=False)}
    return methods
