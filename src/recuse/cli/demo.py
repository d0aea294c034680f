"""The newcomer's first minute: an embedded table in, one table of figures, one sentence and one picture out."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from recuse import datasets, metrics
from recuse.decision import Decision
from recuse.displays import CostCurveDisplay
from recuse.estimators import RcRRegressor
from recuse.progress import progress_bar

__all__ = ["run"]

_COSTS = {"concrete": (10.0, 15.0, 20.0, 25.0, 30.0)}  # where the choice is hardest; else the paper's costs
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


def run(dataset: str = "concrete", output: Path = Path("demo"), *, members: int = 4, epochs: int = 1000) -> Path:
    """Train at each cost of an embedded data set, print what came out, and save the cost curve.

    Parameters
    ----------
    dataset : str
    output : Path
        Folder for the picture.
    members : int
        Members of each ensemble.
    epochs : int

    Returns
    -------
    Path
        The picture.
    """
    console = Console()
    data = datasets.load(dataset)
    (X, _), (X_validation, _), (X_test, y_test) = datasets.split(data, repeat=0)
    console.print(
        f"[bold]{data.name}[/]: {data.description}\n"
        f"{len(X)} rows to learn from, {len(X_validation)} to choose by, {len(X_test)} to test on.\n"
    )
    decisions = _decide(data, members, epochs)
    curve = metrics.cost_curve(y_test, decisions)
    console.print(_table(curve))
    console.print(_meaning(curve, data.target, len(X_test)))
    output.mkdir(parents=True, exist_ok=True)
    picture = output / "cost_curve.png"
    CostCurveDisplay(curve).plot().figure_.savefig(picture, dpi=150)
    console.print(f"\nThe same as a picture: [bold]{picture}[/]")
    return picture


def _decide(data: datasets.Dataset, members: int, epochs: int) -> list[Decision]:
    """Train one ensemble for each cost of the data set and let it decide on the test rows."""
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


def _meaning(curve: pd.DataFrame, target: str, n_rows: int) -> str:
    """Say in words what the most telling row of the table means."""
    alternative = curve[["always_accept", "always_reject"]].min(axis=1)
    savings = (1 - curve["rcr_loss"] / alternative).to_numpy()
    row, saved = curve.iloc[int(savings.argmax())], savings.max()
    return (
        f"\nIf leaving a row to somebody else costs {row['cost']:g} (as much as an error of {row['cost'] ** 0.5:.1f} "
        f"in {target}), the model steps aside on {row['rejection_rate']:.0%} of the {n_rows} test rows. The mean loss "
        f"is then [bold]{row['rcr_loss']:.3g}[/] a row, against {row['always_accept']:.3g} for always predicting and "
        f"{row['always_reject']:.3g} for always asking: [bold green]{saved:.0%} less[/] than the better of the two."
    )
