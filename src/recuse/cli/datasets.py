"""The command `recuse datasets`: list the embedded data sets."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from recuse import datasets as embedded
from recuse.usage_errors import one_sentence_errors

__all__ = ["datasets"]

_FIELDS = ("name", "description", "target", "source", "licence", "note", "sha256")


def datasets(
    name: Annotated[str | None, typer.Argument(help="Describe this data set, with its source and licence.")] = None,
) -> None:
    """List the embedded data sets, or describe one of them."""
    with one_sentence_errors():
        if name is None:
            Console().print(_overview())
        else:
            _describe(embedded.load(name))


def _overview() -> Table:
    table = Table("name", "rows", "columns", "target", "costs in the paper", header_style="bold")
    for name in embedded.names():
        data = embedded.load(name)
        costs = " ".join(f"{cost:g}" for cost in data.costs)
        table.add_row(name, str(len(data.X)), str(data.X.shape[1]), data.target, costs)
    return table


def _describe(data: embedded.Dataset) -> None:
    console = Console()
    for field in _FIELDS:
        console.print(f"[bold]{field:12}[/] {getattr(data, field)}", highlight=False)
