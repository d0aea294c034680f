"""The command `recuse demo`: train on an embedded data set and show how much rejection saves."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from recuse import datasets, metrics
from recuse.decision import Decision
from recuse.displays import CostCurveDisplay
from recuse.estimators import RcRRegressor
from recuse.extras import import_extra
from recuse.progress import progress_bar
from recuse.usage_errors import one_sentence_errors

__all__ = ["demo"]

# costs near the mean squared error, where rejection saves most; the paper's costs for the other data sets
_COSTS = {"concrete": (10.0, 15.0, 20.0, 25.0, 30.0)}
_COLUMNS = {
    "cost": "cost",
    "rcr_loss": "RcR\nloss",
    "always_accept": "always\naccept",
    "always_reject": "always\nreject",
    "rejection_rate": "re-\njected",
    "accepted_loss": "accepted\nloss",
    "rejected_loss": "rejected\nloss",
    "false_rejection_rate": "false\nrej.",
    "false_acceptance_rate": "false\nacc.",
}
_SHARES = {"rejection_rate", "false_rejection_rate", "false_acceptance_rate"}


def demo(
    dataset: Annotated[str, typer.Option(help="An embedded data set; see `recuse datasets`.")] = "concrete",
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figure.")] = Path("demo"),
    members: Annotated[int, typer.Option(min=1, help="Members of each ensemble.")] = 4,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 1000,
) -> None:
    """Train on an embedded data set at several costs, and show how much rejection saves."""
    with one_sentence_errors():
        data = datasets.load(dataset)
        import_extra("matplotlib.pyplot", "plot")
        _check_writable(output)  # before the training, which takes a minute
        _run(data, output, members, epochs)


def _check_writable(folder: Path) -> None:
    """Create the folder, or raise an error if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"output must be a folder that can be written to, got {folder}: {error.strerror}") from error


def _run(data: datasets.Dataset, output: Path, members: int, epochs: int) -> None:
    console = Console()
    (X, _), (X_validation, _), (X_test, y_test) = datasets.split(data, repeat=0)
    console.print(
        f"[bold]{data.name}[/]: {data.description}\n"
        f"{len(X)} training rows, {len(X_validation)} validation rows, {len(X_test)} test rows.\n"
    )
    curve = metrics.cost_curve(y_test, _decide(data, members, epochs))
    console.print(_table(curve))
    console.print(_summary(curve, data.target, len(X_test)))
    figure = _save_figure(curve, output)
    console.print(f"\nThe figure of these losses: [bold]{figure}[/]")


def _save_figure(curve: pd.DataFrame, folder: Path) -> Path:
    path, partial = folder / "cost_curve.png", folder / "cost_curve.partial.png"
    CostCurveDisplay(curve).plot().figure_.savefig(partial, dpi=150)
    return partial.replace(path)


def _decide(data: datasets.Dataset, members: int, epochs: int) -> list[Decision]:
    """Train one ensemble for each cost of the data set, and decide on the test rows."""
    (X, y), validation, (X_test, _) = datasets.split(data, repeat=0)
    decisions = []
    costs = _COSTS.get(data.name, data.costs)
    with progress_bar("training at each cost", total=len(costs)) as done:
        for count, cost in enumerate(costs, start=1):
            model = RcRRegressor(cost=cost, epochs=epochs, n_members=members, random_state=0)
            decisions.append(model.fit(X, y, validation=validation).decide(X_test))
            done(count)
    return decisions


def _table(curve: pd.DataFrame) -> Table:
    table = Table(header_style="bold", pad_edge=False)
    for name, title in _COLUMNS.items():
        table.add_column(title, justify="right", style="bold green" if name == "rcr_loss" else None)
    for record in curve[list(_COLUMNS)].to_dict("records"):
        table.add_row(*(_cell(str(name), value) for name, value in record.items()))
    return table


def _cell(name: str, value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.0%}" if name in _SHARES else f"{value:.4g}"


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
