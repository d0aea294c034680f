"""The command `recuse demo`: train on an embedded data set and show how much rejection saves."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.printing.measures import curve_table, savings_of
from recuse.extras import import_extra
from recuse.progress import progress_bar
from recuse.usage_errors import one_sentence_errors

if TYPE_CHECKING:
    import pandas as pd

    from recuse.datasets import Dataset
    from recuse.decision import Decision

__all__ = ["demo"]

# costs near the mean squared error, where rejection saves most; the paper's costs for the other data sets
_COSTS = {"concrete": (10.0, 15.0, 20.0, 25.0, 30.0)}
# columns whose groups the page compares
_GROUPS = {
    "abalone": "sex",
    "airfoil": "free_stream_velocity_mps",
    "auto_mpg": "origin",
    "concrete": "age_day",
    "housing": "RAD",
}
_JOBS = 2


def demo(
    dataset: Annotated[str, typer.Option(help="An embedded data set; see `recuse datasets`.")] = "concrete",
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figure and the page.")] = Path("demo"),
    members: Annotated[int, typer.Option(min=1, help="Members of each ensemble.")] = 4,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 1000,
    time_limit: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="Seconds for the fit of AutoRejector.")
    ] = None,
) -> None:
    """Train on an embedded data set at several costs, show how much rejection saves, and write a page about a model.

    \b
    Examples:
      recuse demo -o demo
      recuse demo --dataset housing --epochs 300
    """  # noqa: D301
    with one_sentence_errors():
        from recuse.datasets.tables import load

        data = load(dataset)
        import_extra("matplotlib.pyplot", "plot")
        _check_writable(output)  # before the training, which takes a minute
        _run(data, output, members, epochs, time_limit)


def _check_writable(folder: Path) -> None:
    """Create the folder, or raise an error if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"output must be a folder that can be written to, got {folder}: {error.strerror}") from error


def _run(data: Dataset, output: Path, members: int, epochs: int, time_limit: float | None) -> None:
    from rich.console import Console

    from recuse import datasets, metrics

    console = Console()
    (X, _), (X_validation, _), (X_test, y_test) = datasets.split(data, repeat=0)
    console.print(
        f"[bold]{data.name}[/]: {data.description}\n"
        f"{len(X)} training rows, {len(X_validation)} validation rows, {len(X_test)} test rows.\n"
    )
    curve = metrics.cost_curve(y_test, _decide(data, members, epochs))
    console.print(curve_table(record for _, record in curve.iterrows()))
    console.print(_summary(curve, data.target, len(X_test)))
    figure = _save_figure(curve, output)
    console.print(f"\nThe figure of these losses: [bold]{figure}[/]")
    paper = curve.iloc[len(curve) // 2]
    page, measures = _write_page(data, float(paper["cost"]), time_limit, output)
    console.print(_comparison(measures, float(paper["rcr_loss"]), float(paper["cost"])))
    console.print(f"\nOpen [bold]{page}[/] in a browser.", soft_wrap=True)


def _save_figure(curve: pd.DataFrame, folder: Path) -> Path:
    from recuse.displays import CostCurveDisplay
    from recuse.files.atomic import new_file

    path = folder / "cost_curve.png"
    with new_file(path) as file:
        CostCurveDisplay(curve).plot().figure_.savefig(file, format="png", dpi=150)
    return path


def _write_page(data: Dataset, cost: float, time_limit: float | None, folder: Path) -> tuple[Path, Mapping[str, float]]:
    """Fit AutoRejector to the training and validation rows; return the page about it and its measures."""
    import pandas as pd

    from recuse import datasets, report
    from recuse.estimators import AutoRejector

    *known, (X_test, y_test) = datasets.split(data, repeat=0)
    X, y = (pd.concat(parts) for parts in zip(*known, strict=True))
    path, title = folder / "report.html", f"{data.name}: what AutoRejector would save"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a short time limit leaves out candidates
        model: Any = AutoRejector(cost=cost, time_limit=time_limit, n_jobs=_JOBS, random_state=0, verbose=True)
        measures = model.fit(X, y).decide(X_test).evaluate(y_test)
        report.write(model, X_test, y_test, path, group=_GROUPS.get(data.name), training=(X, y), title=title)
    return path, measures


def _comparison(measures: Mapping[str, float], paper: float, cost: float) -> str:
    """Compare AutoRejector with the paper's method, and say what it saves."""
    loss, saved = measures["rcr_loss"], savings_of(measures)
    share, word = abs(1 - loss / paper), "less" if loss <= paper else "more"
    alternative = "accepting" if measures["always_accept"] <= measures["always_reject"] else "rejecting"
    return (
        f"\nAt cost {cost:g}, AutoRejector, a blend of many models, has the mean loss [bold]{loss:.3g}[/], "
        f"[bold green]{share:.0%} {word}[/] than the {paper:.3g} of the paper's method; "
        f"per 1,000 rows it saves {1000 * saved:,.0f} units of the squared loss, compared with {alternative} all rows."
    )


def _decide(data: Dataset, members: int, epochs: int) -> list[Decision]:
    """Train one ensemble for each cost of the data set, and decide on the test rows."""
    from recuse import datasets
    from recuse.estimators import RcRRegressor

    (X, y), validation, (X_test, _) = datasets.split(data, repeat=0)
    decisions = []
    costs = _COSTS.get(data.name, data.costs)
    with progress_bar("training at each cost", total=len(costs)) as done:
        for count, cost in enumerate(costs, start=1):
            model = RcRRegressor(cost=cost, epochs=epochs, n_members=members, random_state=0)
            decisions.append(model.fit(X, y, validation=validation).decide(X_test))
            done(count)
    return decisions


def _summary(curve: pd.DataFrame, target: str, n_rows: int) -> str:
    """Describe the row of the table that saves most."""
    alternative = curve[["always_accept", "always_reject"]].min(axis=1)
    savings = (1 - curve["rcr_loss"] / alternative).to_numpy()
    row, saved = curve.iloc[int(savings.argmax())], savings.max()
    return (
        f"\nIf a rejection costs {row['cost']:g} (as much as an error of {row['cost'] ** 0.5:.1f} "
        f"in {target}), the model rejects {row['rejection_rate']:.0%} of the {n_rows} test rows. The mean loss "
        f"per row is then [bold]{row['rcr_loss']:.3g}[/], against {row['always_accept']:.3g} for accepting all rows "
        f"and {row['always_reject']:.3g} for rejecting all: [bold green]{saved:.0%} less[/] than the better of the two."
    )
