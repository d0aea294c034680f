"""The commands `recuse demo` and `recuse datasets`, about the embedded data sets."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.printing import Output, as_text, table_of
from recuse.extras import import_extra
from recuse.inspection.savings import saved_per_row
from recuse.usage_errors import UsageError, one_sentence_errors

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from recuse.datasets import Dataset

_FIELDS = ("name", "description", "target", "source", "licence", "note", "sha256")
# Costs near the mean squared error, where rejection saves most; the paper's costs for the other data sets
_COSTS = {"concrete": (10.0, 20.0, 30.0)}
# Columns whose groups the page compares
_GROUPS = {
    "abalone": "sex",
    "airfoil": "free_stream_velocity_mps",
    "auto_mpg": "origin",
    "concrete": "age_day",
    "housing": "RAD",
}
# Networks of the paper's method for each cost, whose mean decides. One network depends on how a processor rounds.
_MEMBERS = 8


def demo(
    dataset: Annotated[str, typer.Option(help="An embedded data set; see `recuse datasets`.")] = "concrete",
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figure and the page.")] = Path("demo"),
    epochs: Annotated[int, typer.Option(min=5, help="Epochs of the paper's method, which has 1000.")] = 400,
    time_limit: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="Seconds for the fit of AutoRejector.")
    ] = None,
) -> None:
    """Compare AutoRejector with the paper's method on an embedded data set, and write a page about it.

    \b
    Examples:
      recuse demo -o demo
      recuse demo --dataset housing --epochs 1000
    """  # noqa: D301
    with one_sentence_errors():
        from recuse.datasets.tables import load

        data, say = load(dataset), Output().say
        _check_writable(output)  # before the training
        say(f"[bold]{data.name}[/]: {data.description}")
        say(f"{len(data.X)} rows, a fifth of them to test on.")
        say(f"The paper's method has {_MEMBERS} networks for each cost, trained for {epochs:,} epochs.")
        say("AutoRejector has one fit for all costs, with the preset fast.\n")
        import_extra("matplotlib.pyplot", "plot")
        _run(data, output, epochs, time_limit)


def _check_writable(folder: Path) -> None:
    """Create the folder, or raise an error if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"output must be a folder that can be written to, got {folder}: {error.strerror}") from error


def _run(data: Dataset, output: Path, epochs: int, time_limit: float | None) -> None:
    import pandas as pd

    from recuse import datasets, metrics, report
    from recuse.estimators import AutoRejector, RcRRegressor, fit_costs

    (X, y), (X_validation, y_validation), (X_test, y_test) = datasets.split(data, repeat=0)
    known, say = (pd.concat([X, X_validation]), pd.concat([y, y_validation])), Output().say
    costs = _COSTS.get(data.name, data.costs)
    network = RcRRegressor(epochs=epochs, slow_start=epochs // 5, n_members=_MEMBERS, random_state=0, verbose=True)
    middle: dict[str, Any] = {"cost": costs[len(costs) // 2], "n_jobs": 2, "random_state": 0, "verbose": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the table shows where rejection does not pay
        papers = fit_costs(network, X, y, costs=costs, validation=(X_validation, y_validation))
        model: Any = AutoRejector(preset="fast", time_limit=time_limit, **middle).fit(*known)
    paper = metrics.cost_curve(y_test, [each.decide(X_test) for each in papers])
    auto = metrics.cost_curve(y_test, [model.decide(X_test, cost=cost) for cost in costs])
    name = f"paper's method, mean of {_MEMBERS} networks"
    say(_comparison_table(paper, auto, name))
    say(_summary(paper, auto, data.target))
    say(f"\nThe figure of these losses is [bold]{_save_figure(paper, auto, output, f'the {name}')}[/].")
    page, title = output / "report.html", f"{data.name}: what AutoRejector would save"
    report.write(model, X_test, y_test, page, group=_GROUPS.get(data.name), training=known, title=title)
    say(f"Open [bold]{page}[/] in a browser: its sliders move the cost and the share of rejected rows.")


def _comparison_table(paper: pd.DataFrame, auto: pd.DataFrame, name: str) -> Any:
    """Return a table with one line for each cost.

    It has no share of rejected rows of the paper's method. Many scores of its rejectors are near zero, so that the
    share depends on the seed and on how the processor rounds; the loss hardly does. Nor has it a column of differences,
    in which the rounding of both losses would add up.
    """
    rival = name.replace(", ", ",\n")
    titles = ("cost", f"{rival}:\nmean loss", "[bold green]AutoRejector:\nmean loss[/]", "rows\nrejected")
    lines = []
    for (_, before), (_, after) in zip(paper.iterrows(), auto.iterrows(), strict=True):
        losses = [as_text("rcr_loss", record["rcr_loss"]) for record in (before, after)]
        rejected = as_text("rejection_rate", after["rejection_rate"])
        lines.append(([f"{before['cost']:g}", losses[0], f"[bold green]{losses[1]}[/]", rejected], None))
    title = "Mean loss per row: squared error if accepted, cost if rejected"
    return table_of(titles, lines, numbers=titles, title=title)


def _summary(paper: pd.DataFrame, auto: pd.DataFrame, target: str) -> str:
    """Say what AutoRejector saves at the middle cost."""
    place = len(auto) // 2
    measures, before = {str(name): float(value) for name, value in auto.iloc[place].items()}, paper.iloc[place]
    cost, loss, saved = measures["cost"], measures["rcr_loss"], saved_per_row(measures)
    share = 1 - loss / before["rcr_loss"]
    other = "accepting" if measures["always_accept"] <= measures["always_reject"] else "rejecting"
    return (
        f"\nIf a rejection costs {cost:g} (as much as an error of {cost**0.5:.1f} in {target}), AutoRejector rejects "
        f"{measures['rejection_rate']:.0%} of the rows. Its mean loss is [bold]{loss:.3g}[/], "
        f"[bold green]{abs(share):.0%} {'less' if share >= 0 else 'more'}[/] than the {before['rcr_loss']:.3g} of "
        f"the paper's method. Per 1,000 rows it saves {1000 * saved:,.0f} units of the squared loss, compared with "
        f"{other} all rows."
    )


def _save_figure(paper: pd.DataFrame, auto: pd.DataFrame, folder: Path, name: str) -> Path:
    from recuse.displays import CostCurveDisplay
    from recuse.displays.style import PALETTE, new_axes
    from recuse.files.atomic import new_file

    path = folder / "cost_curve.png"
    figure, ax = new_axes(None)
    ax.plot(paper["cost"], paper["rcr_loss"], "s-", color=PALETTE[1], lw=1.5, ms=4, label=name.replace(", ", ",\n"))
    CostCurveDisplay(auto).plot(ax, name="AutoRejector")
    with new_file(path) as file:
        figure.savefig(file, format="png", dpi=110)
    return path


def datasets(
    name: Annotated[str | None, typer.Argument(help="Describe this data set, with its source and licence.")] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write the table: CSV, Parquet, Arrow, or - for CSV.")
    ] = None,
) -> None:
    """List the embedded data sets, describe one of them, or write its table.

    \b
    Examples:
      recuse datasets
      recuse datasets concrete
      recuse datasets auto_mpg -o cars.csv
    """  # noqa: D301
    with one_sentence_errors():
        from recuse.datasets.tables import load

        if output is not None and name is None:
            raise UsageError("-o needs the name of a data set, such as: recuse datasets auto_mpg -o cars.csv")
        if name is None:
            Output().say(_overview())
        elif output is None:
            Output().facts({field: str(getattr(load(name), field)) for field in _FIELDS}, width=12)
        else:
            _write(load(name), output)


def _overview() -> Table:
    from recuse.datasets.tables import load, names

    lines = []
    for data in map(load, names()):
        costs = " ".join(f"{cost:g}" for cost in data.costs)
        lines.append(((data.name, str(len(data.X)), str(data.X.shape[1]), data.target, costs), None))
    return table_of(("name", "rows", "columns", "target", "costs in the paper"), lines)


def _write(data: Dataset, output: str) -> None:
    from recuse.files.tables import write_table

    write_table(data.X.assign(**{data.target: data.y}), output)
    if output != "-":
        typer.echo(f"Wrote {len(data.X):,} rows to {output}; the target is {data.target}.")
