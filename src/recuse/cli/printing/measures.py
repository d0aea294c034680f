"""Tables of measures that several commands print, and what rejection saves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from recuse.inspection.savings import Prices, better_alternative, saved_per_row

__all__ = ["MEANINGS", "cell", "comparison_table", "curve_table", "explained_table", "savings_sentence"]

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

MEANINGS = {
    "rcr_loss": "mean loss per row: its loss if accepted, its cost if rejected",
    "always_accept": "mean loss if every row were accepted",
    "always_reject": "mean cost if every row were rejected",
    "oracle": "smallest mean loss that is possible with these predictions",
    "rejection_rate": "share of rows that are rejected",
    "accepted_loss": "mean loss of the accepted rows",
    "rejected_loss": "mean loss of the rejected rows, had they been accepted",
    "false_rejection_rate": "share rejected of the rows whose loss is below their cost",
    "false_acceptance_rate": "share accepted of the rows whose loss is at least their cost",
}


def cell(name: str, value: float) -> str:
    """Return a measure as text: a share in percent, "-" if there is none.

    Examples
    --------
    >>> cell("rejection_rate", 0.256), cell("rcr_loss", 9.3571), cell("accepted_loss", float("nan"))
    ('26%', '9.357', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.0%}" if name in _SHARES else f"{value:.4g}"


def curve_table(records: Iterable[Any]) -> Table:
    """Return a table with one line of measures for each cost."""
    table = Table(header_style="bold", pad_edge=False)
    for name, title in _COLUMNS.items():
        table.add_column(title, justify="right", style="bold green" if name == "rcr_loss" else None)
    for record in records:
        table.add_row(*(cell(name, record[name]) for name in _COLUMNS))
    return table


def comparison_table(measures: Mapping[str, float], money: Prices | None) -> Table:
    """Return a table of accepting all rows, rejecting all rows, and the decisions of the model."""
    table = Table(header_style="bold")
    table.add_column("decision")
    for title in ("rows rejected", "loss per row", *(["money per row"] if money else [])):
        table.add_column(title, justify="right")
    lines = (
        ("accept all rows", 0.0, measures["always_accept"], None),
        ("reject all rows", 1.0, measures["always_reject"], None),
        ("recuse", measures["rejection_rate"], measures["rcr_loss"], "bold green"),
    )
    for name, rejected, loss, style in lines:
        price = [f"{loss * money.per_unit:,.2f}"] if money else []
        table.add_row(name, cell("rejection_rate", rejected), cell("rcr_loss", loss), *price, style=style)
    return table


def explained_table(measures: Mapping[str, float]) -> Table:
    """Return a table of all measures with their meaning."""
    table = Table("measure", header_style="bold")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for name, meaning in MEANINGS.items():
        table.add_row(name, cell(name, measures[name]), meaning, style="bold" if name == "rcr_loss" else None)
    return table


def savings_sentence(measures: Mapping[str, float], loss: str, money: Prices | None) -> str:
    """Say what the model saves per 1,000 rows, in money or in units of the loss."""
    per_row = saved_per_row(measures)
    saved = 1000 * per_row * (1.0 if money is None else money.per_unit)
    unit = f"units of the {loss} loss" if money is None else "of money"
    better = "accepting" if measures["always_accept"] <= measures["always_reject"] else "rejecting"
    if saved == 0:
        return f"Rejection does not pay on these rows: the model costs as much as {better} all rows."
    if saved < 0:
        return (
            f"Rejection does not pay on these rows: per 1,000 rows the model would cost [bold red]{_amount(-saved)}[/] "
            f"{unit} more than {better} all rows."
        )
    return (
        f"Per 1,000 rows the model would save [bold green]{_amount(saved)}[/] {unit} "
        f"({per_row / better_alternative(measures):.0%}), compared with {better} all rows, the better of the two."
    )


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
