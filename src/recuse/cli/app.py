"""The Typer application that collects the commands."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from recuse._version import __version__
from recuse.bench.cli import app as bench
from recuse.cli.datasets import datasets
from recuse.cli.demo import demo

__all__ = ["app"]

# \b keeps the line breaks of the paragraph
_HELP = """Regression with cost-based rejection.

\b
Examples:
  recuse demo -o demo
  recuse demo --dataset housing --epochs 300
  recuse datasets
  recuse datasets concrete
  recuse bench speed
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, pretty_exceptions_show_locals=False)
app.command()(demo)
app.command()(datasets)
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"recuse {__version__}", highlight=False)
        raise typer.Exit


@app.callback(help=_HELP)
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle the options that precede a command."""
