"""The command `recuse datasets`: list, describe and write the embedded data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recuse.usage_errors import UsageError, one_sentence_errors

if TYPE_CHECKING:
    from rich.table import Table

    from recuse.datasets import Dataset

__all__ = ["datasets"]

_FIELDS = ("name", "description", "target", "source", "licence", "note", "sha256")


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
        from rich.console import Console

        from recuse.datasets.tables import load

        if output is not None and name is None:
            raise UsageError("-o needs the name of a data set, such as: recuse datasets auto_mpg -o cars.csv")
        if name is None:
            Console().print(_overview())
        elif output is None:
            _describe(load(name))
        else:
            _write(load(name), output)


def _overview() -> Table:
    from rich.table import Table

    from recuse.datasets.tables import load, names

    table = Table("name", "rows", "columns", "target", "costs in the paper", header_style="bold")
    for name in names():
        data = load(name)
        costs = " ".join(f"{cost:g}" for cost in data.costs)
        table.add_row(name, str(len(data.X)), str(data.X.shape[1]), data.target, costs)
    return table


def _describe(data: Dataset) -> None:
    from rich.console import Console

    console = Console()
    for field in _FIELDS:
        console.print(f"[bold]{field:12}[/] {getattr(data, field)}", highlight=False)


def _write(data: Dataset, output: str) -> None:
    from recuse.files.tables import write_table

    table = data.X.copy()
    table[data.target] = data.y
    write_table(table, output)
    if output != "-":
        typer.echo(f"Wrote {len(data.X):,} rows to {output}; the target is {data.target}.")
