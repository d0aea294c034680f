"""`recuse bench paper`: a paper's name in, its tables, figures and page out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from recuse.bench.methods.auto import at_rejection_rates, our_group, run_ours
from recuse.bench.methods.published import compare, lowest_accepted_loss, rival_groups, run_rival
from recuse.bench.paper import figures
from recuse.bench.paper.page import write_page
from recuse.bench.paper.tables import side_by_side, summarise, write_csv
from recuse.bench.runner import record_environment, run_groups, share_groups, table_groups
from recuse.bench.spec import Paper
from recuse.bench.work_unit import SUPERVISED, Group

__all__ = ["run_paper"]

COMPARISON = "comparison"  # the table against other methods, which has a form of its own


def run_paper(
    paper: Paper,
    tables: Sequence[str],
    output: Path,
    *,
    jobs: int = 1,
    repeats: int | None = None,
    datasets: Sequence[str] | None = None,
    costs: Sequence[float] | None = None,
    reuse: Path | None = None,
    draw: bool = True,
    progress: bool = True,
) -> dict[str, pd.DataFrame]:
    """Run the experiments behind some tables and write everything down.

    Parameters
    ----------
    paper : Paper
    tables : sequence of str
    output : Path
        Gets one CSV per table, ``README.md`` with all of them side by side, the figures, ``environment.json``, and
        ``groups/`` with the finished work, from which a run that was cut off goes on.
    jobs : int
    repeats, datasets, costs : optional
        Run only a part.
    reuse : Path, optional
        Folder of `recuse bench methods`, whose runs of our best estimator need not be run again.
    draw : bool
        Also run and draw the figures.
    progress : bool

    Returns
    -------
    dict of str to DataFrame
        The tables, as they are in the CSV files.
    """
    _check(paper, tables, datasets, costs)
    finished = None if reuse is None else reuse / "groups"
    run = partial(
        run_groups, protocol=paper.protocol, folder=output / "groups", reuse=finished, jobs=jobs, progress=progress
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
    write_page(paper, written, pictures, output / "README.md", _command(paper, tables), remarks)
    return written


def _our_groups(paper: Paper, repeats: int | None, datasets: Sequence[str] | None) -> list[Group]:
    """List the runs of our best estimator on the data sets of the comparison."""
    return [
        our_group(paper, name, repeat)
        for name in dict.fromkeys(paper.comparison["dataset"])
        if datasets is None or name in datasets
        for repeat in range(repeats or paper.protocol.repeats)
    ]


def _remark(comparison: pd.DataFrame) -> str:
    """Say how our best estimator does at the paper's rejection rates."""
    counts = lowest_accepted_loss(comparison)
    return (
        "In the comparison, AutoRejector (`auto`) is asked to reject the lowest share that any of the other methods is "
        "asked for, or reported with, in a cell; its threshold comes from what it expected of training and validation "
        f"rows before it saw their targets. Of {counts['cells']} cells, its accepted loss is below all our runs "
        f"of the others in {counts['our_runs']}, below all printed numbers in {counts['printed']}, and below both in "
        f"{counts['both']}."
    )


def _rcr_mae(records: pd.DataFrame) -> pd.DataFrame:
    return records[(records["model"] == "mlp") & (records["surrogate"] == "mae")]


def _check(paper: Paper, tables: Sequence[str], datasets: Sequence[str] | None, costs: Sequence[float] | None) -> None:
    known_costs = sorted({cost for group in paper.costs.values() for cost in group})
    for name, given, known in (
        ("tables", tables, [*paper.tables, COMPARISON]),
        ("datasets", datasets, list(paper.costs)),
        ("costs", costs, known_costs),
    ):
        for value in given or ():
            if value not in known:
                raise ValueError(f"{name} must be among {known}, got {value!r}")


def _draw(records: pd.DataFrame, rivals: pd.DataFrame, shares: pd.DataFrame, paper: Paper, output: Path) -> list[Path]:
    """Draw what the records suffice for; the names of the files say what is on them."""
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
    """Records by the names that stand in the legend."""
    mlp = records[(records["model"] == "mlp") & (records["surrogate"] != SUPERVISED)]
    present = [name for name in figures.SURROGATES if name in set(mlp["surrogate"])]
    methods = {f"RcR, {name}": mlp[mlp["surrogate"] == name] for name in present}
    if len(rivals):
        methods |= {figures.METHODS[str(name)]: part for name, part in rivals.groupby("model", sort=False)}
    return methods


def _command(paper: Paper, tables: Sequence[str]) -> str:
    return f"recuse bench paper --paper {paper.name} --tables {','.join(tables)} --jobs 2 -o results/{paper.name}"
