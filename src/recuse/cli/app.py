"""The Typer application that collects the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from recuse._version import __version__
from recuse.bench.cli import app as bench
from recuse.cli.certify import certify
from recuse.cli.datasets import datasets
from recuse.cli.demo import demo
from recuse.cli.evaluate import evaluate
from recuse.cli.export import export
from recuse.cli.fit import fit
from recuse.cli.group import CommandGroup
from recuse.cli.inspect import inspect
from recuse.cli.predict import predict
from recuse.cli.report import report
from recuse.cli.reviews import reviews
from recuse.cli.serve import serve

__all__ = ["app"]

# \b keeps the line breaks of the paragraph
_HELP = """Regression with cost-based rejection.

\b
Examples:
  recuse fit cars.csv --target mpg --cost 6 -o cars.recuse
  recuse predict cars.recuse new.csv -o decisions.csv
  recuse evaluate cars.recuse labelled.csv
  recuse report cars.recuse labelled.csv -o report.html
  recuse certify cars.recuse fresh.csv --target 5 --bound 400 -o certified.recuse
  recuse inspect cars.recuse
  recuse serve cars.recuse
  recuse demo -o demo
  recuse datasets auto_mpg -o cars.csv

\b
Exit codes:
  0    success
  1    the data or the model cannot be used
  2    wrong usage
  130  interrupted
"""

# the modules of the commands import other libraries only when a command runs
app = typer.Typer(cls=CommandGroup, help=_HELP, no_args_is_help=True, pretty_exceptions_show_locals=False)
for command in (fit, predict, evaluate, report, certify, inspect, export, serve, datasets, demo, reviews):
    app.command()(command)
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recuse {__version__}")
        raise typer.Exit


@app.callback(help=_HELP)
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle the options that precede a command."""
