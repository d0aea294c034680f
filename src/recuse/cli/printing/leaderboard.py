"""The leaderboard of `AutoRejector` in a compact form."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from recuse.cli.printing.measures import cell

__all__ = ["leaderboard_records", "leaderboard_table"]

_PARTS = {"blend": "blend", "regressor": "regressor", "risk": "risk model"}
_CAPTION = "Loss with this model alone, as expected of models fitted to all rows."
_COLUMNS = ("part", "name", "weight", "rcr_loss", "note")


def leaderboard_records(leaderboard: Any) -> list[dict[str, Any]]:
    """Return the lines of a leaderboard, a DataFrame or columns, as plain records; none if there is no leaderboard."""
    if leaderboard is None:
        return []
    columns = [list(leaderboard[name]) for name in _COLUMNS]
    return [dict(zip(_COLUMNS, line, strict=True)) for line in zip(*columns, strict=True)]


def leaderboard_table(records: list[dict[str, Any]]) -> Table:
    """Return a table of the candidates; those with the highest weights come first."""
    notes = any(record["note"] for record in records)
    table = Table("part", "name", title="Models in the blend", caption=_CAPTION, header_style="bold")
    table.title_justify = table.caption_justify = "left"
    table.add_column("weight", justify="right")
    table.add_column("loss", justify="right")
    if notes:
        table.add_column("note")
    for part, title in _PARTS.items():
        lines = [record for record in records if record["part"] == part]
        for record in sorted(lines, key=lambda record: -record["weight"]):
            loss = cell("rcr_loss", float(record["rcr_loss"]))
            style = None if record["weight"] > 0 else "dim"
            note = [record["note"] or ""] if notes else []
            table.add_row(title, record["name"], f"{record['weight']:.0%}", loss, *note, style=style)
    return table
