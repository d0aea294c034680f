"""The Typer application that collects the commands, and errors of usage as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from recuse._version import __version__
from recuse.bench.cli import app as bench
from recuse.cli.certify import certify
from recuse.cli.demo import datasets, demo
from recuse.cli.evaluate import evaluate, report
from recuse.cli.fit import fit
from recuse.cli.inspect import export, inspect
from recuse.cli.predict import predict
from recuse.cli.reviews import reviews
from recuse.cli.serve import serve
from recuse.usage_errors import UNUSABLE, flush_output, print_error, sentence_of

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

# typer has its own copy of click or imports it, depending on the version
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class _CommandGroup(TyperGroup):
    """Prints wrong options as one sentence on standard error, and with ``--json`` also as JSON."""

    def main(self, args: Sequence[str] | None = None, *given: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command that the arguments name."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            result = super().main(args, *given, standalone_mode=False, **extra)  # type: ignore[misc]
        except _ClickError as error:
            if not standalone_mode:
                raise
            if "NoArgs" in type(error).__name__:
                error.show()
            else:
                print_error(_sentence(error), as_json="--json" in words)
            sys.exit(error.exit_code)
        except OSError as error:  # help that cannot be printed
            if not standalone_mode or "--debug" in words:
                raise
            print_error(sentence_of(error))
            sys.exit(UNUSABLE)
        if not standalone_mode:
            return result
        if not flush_output():
            print_error("standard output cannot be written")
            sys.exit(UNUSABLE)
        sys.exit(result if isinstance(result, int) else 0)


def _sentence(error: Any) -> str:
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}; see {context.command_path} --help"


# the modules of the commands import other libraries only when a command runs
app = typer.Typer(cls=_CommandGroup, help=_HELP, no_args_is_help=True, pretty_exceptions_show_locals=False)
for command in (fit, predict, evaluate, report, certify, inspect, export, serve, datasets, demo, reviews):
    app.command()(command)
app.add_typer(bench, name="bench")


@app.callback(invoke_without_command=True, help=_HELP)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Handle the option that can be given without a command."""
    if version:
        typer.echo(f"recuse {__version__}")
        raise typer.Exit
