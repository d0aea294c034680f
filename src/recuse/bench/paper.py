"""Runs a paper's experiments and writes its tables beside the printed numbers (`recuse bench paper`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

import pandas as pd

from recuse.bench import figures, pages
from recuse.bench.cells import BenchCells, BenchOptions, finished, list_cells, measures, write_results
from recuse.bench.method import BenchMethod
from recuse.bench.methods import METHODS
from recuse.bench.rcr import AcceptAll, RcR
from recuse.bench.spec import COMPARISON, Paper
from recuse.bench.tables import comparison, over_splits, paper_table, with_rates
from recuse.validation import require

_AUTO = METHODS["auto"]
_BY_COST, _BY_RATE, _BEST_ROWS, _SHARES = "comparison by cost", "comparison by rate", "comparison of scores", "shares"


def run_paper(
    paper: Paper,
    tables: Sequence[str],
    output: Path,
    options: BenchOptions,
    methods: Sequence[BenchMethod] = (),
    surrogates: Sequence[str] = (),
) -> dict[str, pd.DataFrame]:
    """Run the experiments of some tables, and write tables, figures and a page.

    Parameters
    ----------
    paper : Paper
    tables : sequence of str
    output : Path
        Gets one CSV per table, ``README.md`` with all of them side by side, the figures, ``environment.json``, and
        ``cells/`` with finished work, from which an interrupted run continues.
    options : BenchOptions
    methods : sequence of BenchMethod
        More methods for the comparison, at the rejection rates of its cells.
    surrogates : sequence of str
        More surrogates for the joint trainings of every table.

    Returns
    -------
    dict of str to DataFrame
        The tables of the CSV files.
    """
    for name in tables:
        require(name in paper.table_names, "tables", f"among {', '.join(paper.table_names)}", name)
    costs, trainings = options.costs_of(paper.costs), dict[str, list[RcR]]()
    cells = dict[str, list[BenchCells]]()
    for name in tables:
        if name != COMPARISON:
            models, names = paper.tables[name]["models"], (*paper.tables[name]["surrogates"], *surrogates)
            trainings[name] = [RcR(model, surrogate) for model in models for surrogate in dict.fromkeys(names)]
            alone = [AcceptAll(model) for model in models]
            cells[name] = list_cells(paper, [*trainings[name], *alone], costs, options)
    compared = _compared(paper, [_AUTO, *methods], costs, options) if COMPARISON in tables else {}
    cells |= compared
    if options.figures is not None and paper.training_share:
        cells[_SHARES] = _shares(paper, options)
    results = finished(list(chain.from_iterable(cells.values())), output, options)
    remaining = iter(results)
    found = {name: list(islice(remaining, len(some))) for name, some in cells.items()}
    written = {name: paper_table(measures(found[name]), paper, some) for name, some in trainings.items()}
    if compared:
        rates = with_rates(paper.comparison, [_AUTO.name]).query("method == 'auto'")
        at_rates = (rates.set_index(["dataset", "cost"])["target_rejection"] / 100).to_dict()
        parts = [measures(found[_BY_COST]), measures(found[_BY_RATE]), measures(found[_BEST_ROWS], at_rates)]
        written[COMPARISON] = comparison(pd.concat(parts), paper, [each.name for each in (_AUTO, *methods)])
    shares = _share_table(measures(found.get(_SHARES, [])))
    write_results(written | ({} if shares.empty else {"training_share": shares}), results, output, options)
    drawn = figures.of_paper(paper, written, shares, output, options.figures)
    pages.write_reproduction(paper, written, drawn, output, options.command)
    return written


def _compared(
    paper: Paper, ours: Sequence[BenchMethod], costs: Mapping[str, tuple[float, ...]], options: BenchOptions
) -> dict[str, list[BenchCells]]:
    """List the cells of the comparison: joint training by cost, rivals by rate, ours by scores, for any rate."""
    kept = [cost in costs.get(name, ()) for name, cost in paper.comparison[["dataset", "cost"]].itertuples(index=False)]
    printed = paper.comparison[kept]
    if printed.empty:
        return {}
    by_cost = {str(name): tuple(part["cost"].unique()) for name, part in printed.groupby("dataset", sort=False)}
    by_rate = list[BenchCells]()
    required = printed.dropna(subset=["target_rejection"])
    for (name, rival), part in required.groupby(["dataset", "method"], sort=False):
        rates = {str(name): tuple(part["target_rejection"] / 100)}
        by_rate += list_cells(paper, [METHODS[str(rival)]], {str(name): tuple(part["cost"])}, options, rates=rates)
    all_costs = {name: costs[name] for name in by_cost}
    return {
        _BY_COST: list_cells(paper, [RcR("mlp", "mae")], by_cost, options),
        _BY_RATE: by_rate,
        _BEST_ROWS: list_cells(paper, ours, all_costs, options),
    }


def _shares(paper: Paper, options: BenchOptions) -> list[BenchCells]:
    """List the cells of the figure on growing training data."""
    figure, wanted = paper.training_share, options.datasets
    costs = {name: some for name, some in figure["costs"].items() if wanted is None or name in wanted}
    method = RcR(figure["model"], figure["surrogate"])
    return [each for share in figure["shares"] for each in list_cells(paper, [method], costs, options, share=share)]


def _share_table(measured: pd.DataFrame) -> pd.DataFrame:
    if measured.empty:
        return measured
    table = over_splits(measured.assign(method=measured["share"]), ["rcrloss", "al"])
    return table.rename(columns={"method": "share"})
