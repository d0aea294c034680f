"""The command `recuse datasets`: list, describe and write the embedded data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recuse.cli.printing import Output, table_of
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
