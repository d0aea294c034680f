"""The commands of `recuse bench`, which run the experiments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from recuse.usage_errors import one_sentence_errors

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["app"]

app = typer.Typer(help="Run the experiments of published papers.", no_args_is_help=True)

_HEADERS = {"bayes_ratio": "x Bayes", "rank_correlation": "ranks"}  # short, for narrow screens
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers run the groups, instead of --jobs.")
]
PaperOption = Annotated[str, typer.Option(help="Name of a paper, or the path of its TOML file.")]


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


@app.command("paper")
def paper_command(
    tables: Annotated[str | None, typer.Option(help="Only these tables, separated by commas.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for results; the same command continues an interrupted run.")
    ] = Path("results"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")] = 1,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random splits.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these data sets, separated by commas.")] = None,
    costs: Annotated[str | None, typer.Option(help="Only these costs, separated by commas.")] = None,
    reuse: Annotated[
        Path | None, typer.Option(help="Folder of `recuse bench methods`; its runs of AutoRejector are reused.")
    ] = None,
    scheduler: SchedulerOption = None,
    figures: Annotated[bool, typer.Option(help="Also run and draw the figures.")] = True,
    paper: PaperOption = "rcr2023",
) -> None:
    """Run a paper's tables and figures and compare our numbers with the printed ones."""
    from recuse.bench.paper.run import run_paper
    from recuse.bench.spec import load

    with one_sentence_errors():
        chosen_costs = None if costs is None else [float(cost) for cost in _words(costs) or []]
        chosen = load(paper)
        written = run_paper(
            chosen,
            chosen.table_names if tables is None else _words(tables) or [],
            output,
            jobs=jobs,
            scheduler=scheduler,
            repeats=repeats,
            datasets=_words(datasets),
            costs=chosen_costs,
            reuse=reuse,
            draw=figures,
        )
    _print_tables(written, output)


def _print_tables(written: dict[str, pd.DataFrame], output: Path) -> None:
    console = Console()
    for name, table in written.items():
        console.print(_rich_table(name, table))
    console.print(f"Everything is in [bold]{output}[/]; open [bold]{output / 'README.md'}[/] first.")


def _rich_table(title: str, table: pd.DataFrame) -> Table:
    """Give one row for each cell, with the printed number in grey below ours."""
    metrics = list(dict.fromkeys(table["metric"]))
    several = [name for name in ("dataset", "model", "surrogate") if table[name].nunique() > 1]
    names = [*several, "cost"]
    known = table["paper_mean"].notna().any()
    lines = Table(title=f"{title}: ours, and printed below" if known else title, header_style="bold")
    for name in names:
        lines.add_column(name, no_wrap=True)
    for metric in metrics:
        lines.add_column(_HEADERS.get(metric, metric), justify="right", no_wrap=True)
    for key, cell in table.groupby(names, sort=False):
        labels = [f"{part:g}" if isinstance(part, float) else str(part) for part in key]
        lines.add_row(*labels, *[_both(row) for _, row in cell.iterrows()])
    return lines


def _both(row: pd.Series[float]) -> str:
    printed = "" if math.isnan(row["paper_mean"]) else f"\n[dim]{row['paper_mean']:.2f}[/]"
    return f"{row['mean']:.2f}{printed}"


@app.command("methods")
def methods_command(
    methods: Annotated[str | None, typer.Option(help="Only these methods, separated by commas.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for results; the same command continues an interrupted run.")
    ] = Path("results/methods"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")] = 1,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random splits.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these data sets, separated by commas.")] = None,
    reuse: Annotated[
        Path | None, typer.Option(help="Folder of `recuse bench paper`; its finished runs are reused.")
    ] = None,
    scheduler: SchedulerOption = None,
    figures: Annotated[bool, typer.Option(help="Also draw the figures.")] = True,
    paper: PaperOption = "rcr2023",
) -> None:
    """Run all methods by a paper's protocol and rank them."""
    from recuse.bench.leaderboard.run import run_methods
    from recuse.bench.methods.registry import choose
    from recuse.bench.spec import load

    with one_sentence_errors():
        table, result = run_methods(
            load(paper),
            choose(_words(methods)),
            output,
            jobs=jobs,
            scheduler=scheduler,
            repeats=repeats,
            datasets=_words(datasets),
            reuse=reuse,
            draw=figures,
        )
    console = Console()
    console.print(_rich_leaderboard(table, result.summary))
    console.print(f"Everything is in [bold]{output}[/]; open [bold]{output / 'README.md'}[/] first.")


def _rich_leaderboard(table: pd.DataFrame, summary: pd.DataFrame) -> Table:
    """Give one row for each method, with its mean RcR loss over the costs of each data set."""
    loss = table[table["metric"] == "rcrloss"]
    means = loss.groupby(["dataset", "method"], sort=False)["mean"].mean()
    names = list(dict.fromkeys(table["dataset"]))
    title = "RcR loss over the paper's best, cells below it, and by data set the mean over the costs"
    lines = Table(title=title, header_style="bold", padding=(0, 0, 0, 1))
    lines.add_column("method", no_wrap=True)
    for name in ("rank", "lowest", "ratio", "below", *names):
        lines.add_column(name, justify="right")
    for row in summary.to_dict("records"):
        ranked = not math.isnan(row["mean_rank"])
        lines.add_row(
            row["method"],
            f"{row['mean_rank']:.2f}" if ranked else "",
            f"{row['lowest']:g} of {row['cells']:g}" if ranked else "",
            "" if math.isnan(row["ratio"]) else f"{row['ratio']:.2f}",
            f"{row['below_paper']} of {row['printed']}",
            *(f"{means[name, row['method']]:.2f}" for name in names),
            style=None if ranked else "dim",
        )
    return lines


@app.command("images")
def images_command(
    dataset: Annotated[str, typer.Option(help="agedb, breastpathq, or cellularity, which is generated.")],
    root: Annotated[Path | None, typer.Option(help="Folder of the images of agedb or breastpathq.")] = None,
    model: Annotated[str | None, typer.Option(help="resnet50 or small_cnn, instead of the protocol's.")] = None,
    surrogates: Annotated[str | None, typer.Option(help="These surrogates, separated by commas.")] = None,
    costs: Annotated[str | None, typer.Option(help="These costs, separated by commas.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random splits.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; Slow-Start keeps its share of them.")] = None,
    size: Annotated[int | None, typer.Option(min=16, help="Height and width in pixels.")] = None,
    rows: Annotated[int | None, typer.Option(min=8, help="Training images, if they are generated.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for results; the same command continues an interrupted run.")
    ] = Path("results/images"),
    jobs: Annotated[int, typer.Option(min=1, help="Trainings in parallel; the numbers do not depend on it.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each training on the CPU.")] = 1,
    workers: Annotated[int, typer.Option(min=0, help="Processes that read images for each training.")] = 0,
    accelerator: Annotated[str, typer.Option(help="Accelerator of Lightning: auto, cpu, gpu, ...")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Devices for each training.")] = 1,
    precision: Annotated[str, typer.Option(help="Precision of Lightning: 32, 16-mixed, bf16-mixed, ...")] = "32",
    figures: Annotated[bool, typer.Option(help="Also draw the figures.")] = True,
    paper: PaperOption = "rcr2023",
) -> None:
    """Run a paper's image experiments, or the same on generated tissue with known Bayes risk."""
    from recuse.bench.spec import load

    with one_sentence_errors():
        from recuse.bench.images.page import in_printed_units
        from recuse.bench.images.run import adjusted, run_images
        from recuse.bench.images.training import Hardware
        from recuse.bench.images.work_unit import is_main_process

        whole = load(paper)
        if dataset not in whole.images:
            raise ValueError(f"dataset must be one of {', '.join(whole.images)}, got {dataset!r}")
        spec = adjusted(
            whole.images[dataset],
            model=model,
            surrogates=_words(surrogates),
            costs=None if costs is None else [float(cost) for cost in _words(costs) or []],
            repeats=repeats,
            epochs=epochs,
            size=size,
            rows=rows,
            precision=precision,
        )
        hardware = Hardware(accelerator, devices, workers, threads)
        table = run_images(whole, spec, output, root=root, hardware=hardware, jobs=jobs, draw=figures)
    if not is_main_process():
        return
    shown = in_printed_units(table, spec.printed_scale)
    unit = "" if spec.printed_scale == 1 else f" (costs and losses times {spec.printed_scale:g})"
    _print_tables({f"{dataset}{unit}": shown[shown["metric"].isin(_SHORT)]}, output)


# measures to print; all of them are too many for a screen
_SHORT = ("rcrloss", "rej", "sup", "oracle", "bayes_ratio", "rank_correlation")


@app.command("speed")
def speed_command(
    table: Annotated[str, typer.Option(help="Table whose trainings are timed.")] = "mlp",
    epochs: Annotated[int, typer.Option(min=5, help="Epochs of each training, instead of the protocol's.")] = 100,
    datasets: Annotated[str | None, typer.Option(help="Only these data sets, separated by commas.")] = None,
    paper: PaperOption = "rcr2023",
) -> None:
    """Compare the speed of the stacked engine with that of a plain PyTorch script, on the same trainings and core."""
    from recuse.bench.spec import load
    from recuse.bench.speed import compare

    console = Console()
    lines = Table("data set", "trainings", "plain script", "stacked", "ratio", header_style="bold")
    total = [0.0, 0.0]
    with one_sentence_errors(), console.status("timing"):
        for timing in compare(load(paper), table, epochs=epochs, names=tuple(_words(datasets) or ())):
            total = [total[0] + timing.straightforward, total[1] + timing.stacked]
            lines.add_row(
                timing.dataset,
                str(timing.trainings),
                f"{timing.straightforward:.1f} s",
                f"{timing.stacked:.2f} s",
                f"{timing.straightforward / timing.stacked:.1f} x",
            )
    lines.add_section()
    lines.add_row("whole table", "", f"{total[0]:.1f} s", f"{total[1]:.2f} s", f"{total[0] / total[1]:.1f} x")
    console.print(lines)
