"""The commands of `recuse bench`, which run the experiments."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from recuse.usage_errors import one_sentence_errors

if TYPE_CHECKING:
    from recuse.bench.cells import BenchOptions
    from recuse.bench.pages import Grid

app = typer.Typer(help="Run the experiments of published papers.", no_args_is_help=True)

OutputOption = Annotated[
    Path, typer.Option("-o", "--output", help="Folder for results; the same command continues an interrupted run.")
]
JobsOption = Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")]
RepeatsOption = Annotated[int | None, typer.Option(min=1, help="Random splits.")]
DatasetsOption = Annotated[str | None, typer.Option(help="Only these data sets, separated by commas.")]
CostsOption = Annotated[str | None, typer.Option(help="Only these costs, separated by commas.")]
MethodsFromOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Python file that defines methods or registers surrogates.")
]
ReuseOption = Annotated[Path | None, typer.Option(help="Another output folder, whose finished cells are read.")]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers run the cells, instead of --jobs.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Compute finished cells again.")]
PredictionsOption = Annotated[
    bool, typer.Option("--predictions", help="Also write predictions.csv.gz, of all test rows.")
]
FiguresOption = Annotated[bool, typer.Option(help="Also draw the figures.")]
FormatOption = Annotated[str, typer.Option(help="Format of the figures: png or pdf.")]
PaperOption = Annotated[str, typer.Option(help="Name of a paper, or the path of its TOML file.")]


@app.command("paper")
def paper_command(
    context: typer.Context,
    tables: Annotated[str | None, typer.Option(help="Only these tables, separated by commas.")] = None,
    output: OutputOption = Path("results"),
    jobs: JobsOption = 1,
    repeats: RepeatsOption = None,
    datasets: DatasetsOption = None,
    costs: CostsOption = None,
    methods_from: MethodsFromOption = None,
    reuse: ReuseOption = None,
    scheduler: SchedulerOption = None,
    fresh: FreshOption = False,
    predictions: PredictionsOption = False,
    figures: FiguresOption = True,
    format: FormatOption = "png",
    paper: PaperOption = "rcr2023",
) -> None:
    """Run a paper's tables and figures and compare our numbers with the printed ones."""
    from recuse.bench import method, pages
    from recuse.bench.paper import run_paper
    from recuse.bench.spec import load

    with one_sentence_errors():
        whole, options = load(paper), _options(context)
        methods, surrogates = ([], []) if methods_from is None else method.methods_from(methods_from)
        chosen = whole.table_names if tables is None else _words(tables)
        written = run_paper(whole, chosen, output, options, methods, surrogates)
    shown = {name: table[table["metric"].isin(["rcrloss", "al", "rej"])] for name, table in written.items()}
    grids = {name: pages.cells_of_paper(table, whole.protocol.repeats) for name, table in shown.items()}
    _print(
        {f"{name}: ours, and below it printed and the gap in standard errors": g for name, g in grids.items()}, output
    )


@app.command("methods")
def methods_command(
    context: typer.Context,
    methods: Annotated[str | None, typer.Option(help="Only these methods, separated by commas.")] = None,
    output: OutputOption = Path("results/methods"),
    jobs: JobsOption = 1,
    repeats: RepeatsOption = None,
    datasets: DatasetsOption = None,
    costs: CostsOption = None,
    methods_from: MethodsFromOption = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="splits.csv of another run, whose methods are not run again.")
    ] = None,
    reuse: ReuseOption = None,
    scheduler: SchedulerOption = None,
    fresh: FreshOption = False,
    predictions: PredictionsOption = False,
    figures: FiguresOption = True,
    format: FormatOption = "png",
    paper: PaperOption = "rcr2023",
) -> None:
    """Run all methods by a paper's protocol and rank them."""
    from recuse.bench import method, pages
    from recuse.bench.leaderboard import run_methods
    from recuse.bench.methods import choose
    from recuse.bench.rcr import RcR
    from recuse.bench.spec import load

    with one_sentence_errors():
        options = _options(context)
        own, surrogates = ([], []) if methods_from is None else method.methods_from(methods_from)
        mine = [*own, *(RcR("mlp", surrogate) for surrogate in surrogates)]
        names = [each.name for each in mine] if against is not None and mine else None
        chosen = choose(names if methods is None else _words(methods), mine)
        tables = run_methods(load(paper), chosen, output, options, against)
    titles = {name: name for name in tables["ranks"]["method"]}
    grids = pages.cells_of_methods(tables["leaderboard"], titles)
    _print({"all cells": pages.standings(tables["ranks"], titles)} | grids, output)


def _options(context: typer.Context) -> BenchOptions:
    """Return the options that both commands share, and the command itself for the page."""
    from recuse.bench.cells import BenchOptions
    from recuse.validation import require

    given, unneeded = context.params, {"fresh", "jobs", "scheduler", "reuse"}
    require(given["format"] in ("png", "pdf"), "format", "png or pdf", given["format"])
    words = ["recuse", "bench", str(context.info_name)]
    for option in context.command.params:
        value, default = given[str(option.name)], option.get_default(context)
        if value not in (None, default) and option.name not in unneeded:
            names = option.secondary_opts if value is False else option.opts
            words += [names[-1]] if isinstance(value, bool) else [names[-1], str(value)]
    unchanged = ("repeats", "jobs", "scheduler", "reuse", "fresh", "predictions")
    return BenchOptions(
        **{name: given[name] for name in unchanged},
        datasets=None if given["datasets"] is None else _words(given["datasets"]),
        costs=None if given["costs"] is None else [float(cost) for cost in _words(given["costs"])],
        figures=given["format"] if given["figures"] else None,
        command=shlex.join(words),
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _print(grids: dict[str, Grid], output: Path) -> None:
    console = Console()
    for title, (header, lines) in grids.items():
        table = Table(*header, title=title, header_style="bold", padding=(0, 0, 0, 1))
        table.columns[0].no_wrap = True
        for line in lines:
            cells = [re.sub(r"\*\*(.+?)\*\*", r"[bold]\1[/]", cell, flags=re.DOTALL) for cell in line]
            table.add_row(*(re.sub(r" / |, (?=\d+%)", "\n", cell) for cell in cells))
        console.print(table)
    console.print(f"Everything is in [bold]{output}[/]; open [bold]{output / 'README.md'}[/] first.")
