"""The command line: a thin face on the same calls a program would make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from recuse.bench.cli import app as bench

app = typer.Typer(
    help="Regression that knows when to step aside.", no_args_is_help=True, pretty_exceptions_show_locals=False
)


app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        from recuse import __version__

        Console().print(f"recuse {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Regression that knows when to step aside."""


@app.command()
def demo(
    dataset: Annotated[str, typer.Option(help="An embedded data set; see `recuse datasets`.")] = "concrete",
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the picture.")] = Path("demo"),
    members: Annotated[int, typer.Option(help="Members of each ensemble.")] = 4,
    epochs: Annotated[int, typer.Option(help="Epochs of training.")] = 1000,
) -> None:
    """Train on an embedded data set at several costs and show what stepping aside saves."""
    from recuse.cli import demo as demonstration

    try:
        demonstration.run(dataset, output, members=members, epochs=epochs)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="Show all that is known of one of them.")] = None,
) -> None:
    """List the embedded data sets."""
    from recuse import datasets as embedded

    console = Console()
    if name is not None:
        try:
            data = embedded.load(name)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        for field in ("name", "description", "target", "source", "licence", "note", "sha256"):
            console.print(f"[bold]{field:12}[/] {getattr(data, field)}")
        return
    table = Table("name", "rows", "columns", "target", "costs in the paper", header_style="bold")
    for each in embedded.names():
        data = embedded.load(each)
        costs = " ".join(f"{cost:g}" for cost in data.costs)
        table.add_row(each, str(len(data.X)), str(data.X.shape[1]), data.target, costs)
    console.print(table)


if __name__ == "__main__":
    app()
