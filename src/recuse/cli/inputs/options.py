"""Options that several commands have, and how facts are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

__all__ = [
    "AsJson",
    "Certificate",
    "Cost",
    "CostMoney",
    "Debug",
    "Encoding",
    "Quiet",
    "SpreadsheetSafe",
    "escaped",
    "fact",
    "size_of",
]

Cost = Annotated[
    str | None, typer.Option(metavar="COST", help="Cost of a rejection in units of the loss: a number, or column:NAME.")
]
CostMoney = Annotated[
    str | None,
    typer.Option(help="The cost by prices, such as error=10,error_cost=50,review_cost=18.", metavar="PRICES"),
]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Encoding of CSV files that are not UTF-8, such as latin-1.")
]
Certificate = Annotated[
    int | None, typer.Option(metavar="N", help="Decide by certificate N of the model file, counted from 1.")
]
SpreadsheetSafe = Annotated[
    bool, typer.Option("--spreadsheet-safe", help="Write ' before text of CSV files that spreadsheets would run.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of messages.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no messages, only warnings and errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

_WIDTH = 9


def escaped(text: str) -> str:
    """Return text in which brackets are not markup of Rich."""
    return escape(text)


def fact(name: str, text: str) -> str:
    """Return a line with a name and a fact."""
    return f"[bold]{name:{_WIDTH}}[/] {escape(text)}"


def size_of(path: Path) -> str:
    """Return the size of a file in words."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
