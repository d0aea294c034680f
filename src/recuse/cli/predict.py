"""The command `recuse predict`: decide about the rows of a table."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from recuse.cli import options
from recuse.cli.options import option
from recuse.cli.printing import Output, table_of
from recuse.phrases import counted, short
from recuse.usage_errors import INTERRUPTED, UsageError, print_error

if TYPE_CHECKING:
    import pandas as pd

    from recuse.scoring.plan import ScoringPlan
    from recuse.scoring.summary import ScoringSummary

_SHOWN_ROWS = 10


@options.command
def predict(
    printer: Output,
    model: options.Model,
    data: Annotated[
        str, typer.Argument(help="Table with new rows: CSV, Parquet, Arrow, a folder of Parquet files, or - for stdin.")
    ],
    output: Annotated[
        str | None, option("FILE", "Table or folder, or - for CSV on standard output.", "-o", "--output")
    ] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    certificate: options.Certificate = None,
    keep: Annotated[list[str] | None, option("COLUMN", "Column of the data to write, too; can be repeated.")] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Write all columns of the data, too.")] = False,
    jobs: Annotated[
        int | None, option("N", "Processes; by default one for small files, else all cores.", min=1)
    ] = None,
    scheduler: Annotated[
        str | None, option("ADDRESS", "Decide on a Dask cluster, by its scheduler, such as tcp://127.0.0.1:8786.")
    ] = None,
    encoding: options.Encoding = None,
    spreadsheet_safe: options.SpreadsheetSafe = False,
) -> None:
    """Decide about the rows of a table: the prediction of each, and whether to accept it.

    The columns of the result are prediction, accepted, score, cost and, if the model has one, expected_loss.
    Memory does not grow with the size of the data. The same command continues a run that was interrupted.

    \b
    Examples:
      recuse predict cars.recuse new.csv
      recuse predict cars.recuse new.csv -o decisions.csv --keep id
      recuse predict cars.recuse new.parquet -o decisions.parquet --cost 12
      recuse predict certified.recuse new.csv --certificate 1
      recuse predict cars.recuse - -o - < new.csv | head
      recuse predict cars.recuse 2024/ -o decisions/ --jobs 8
    """  # noqa: D301
    if output == "-" and printer.as_json:
        raise UsageError("--json and -o - both write to standard output: write the decisions to a file")
    if keep and keep_all:
        raise UsageError("--keep and --keep-all cannot both be given")
    if scheduler is not None and (jobs is not None or output in (None, "-")):
        raise UsageError("--scheduler needs -o with a file, and no --jobs: the cluster has its own workers")
    _check_format(output, spreadsheet_safe=spreadsheet_safe)
    given = options.given_cost(cost, cost_money)
    printer.to_stderr = output == "-"
    shown, progress = None, not printer.silent
    with _resumable(data, output, as_json=printer.as_json):
        from recuse.scoring.plan import ModelSource
        from recuse.scoring.run import open_run

        source = ModelSource.of(model)
        options.check_prices(given, source.load())
        wanted: Any = {"certificate": certificate, "keep": keep or (), "keep_all": keep_all, "encoding": encoding}
        wanted |= {"cost": None if given is None else given.value, "spreadsheet_safe": spreadsheet_safe}
        with open_run(source, data, **wanted) as run:
            if output is None:
                summary, shown = run.collect(None if printer.as_json else _SHOWN_ROWS)
            elif output == "-":
                sys.stdout.flush()
                summary = run.write_stream(sys.stdout.buffer, jobs=jobs, progress=progress)
                sys.stdout.flush()  # here an error has a message
            else:
                summary = run.write(output, jobs=jobs, scheduler=scheduler, progress=progress)
    _print(run.plan, summary, shown, output, printer)


def _check_format(output: str | None, *, spreadsheet_safe: bool) -> None:
    """Raise an error for an output without a known ending, or one that is not as the options need it."""
    from recuse.files.names import file_format

    kind = "no file"
    if output is not None:
        try:
            kind = "csv" if output.endswith("/") or Path(output).is_dir() else file_format(output)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if spreadsheet_safe and kind != "csv":
        raise UsageError(f"--spreadsheet-safe needs -o with a CSV file, got {output or kind}")


@contextmanager
def _resumable(data: str, output: str | None, *, as_json: bool) -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C, and say then that the finished parts are kept, if they are."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt  # removes temporary files with rows

    try:
        before: Any = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # only the first thread may handle signals
        before = None
    try:
        yield
    except KeyboardInterrupt as interruption:
        if data == "-" or output in (None, "-"):
            raise
        print_error("interrupted: the same command continues where this one stopped", as_json=as_json)
        raise typer.Exit(INTERRUPTED) from interruption
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _print(
    plan: ScoringPlan, summary: ScoringSummary, shown: pd.DataFrame | None, output: str | None, printer: Output
) -> None:
    """Print what was found."""
    renamed = [name for name, new in zip(plan.keep, plan.kept_as, strict=True) if name != new]
    if renamed:
        names = short(renamed, 10)
        printer.warn(f"columns of the data with the name of a result are written as input_NAME: {names}")
    used = {*plan.keep, *(each for each in (plan.cost, plan.model.load().cost_) if isinstance(each, str))}
    printer.problems(summary.problems, used)
    if summary.formula_cells and not plan.spreadsheet_safe:
        from recuse.files.tables import formula_warning

        printer.warn(formula_warning(summary.formula_cells))
    if shown is not None and not printer.silent:
        printer.say(_first_rows(shown, summary.rows))
    low, high = summary.lowest_cost, summary.highest_cost
    cost = f"cost {low:g}" if low == high else f"costs from {low:g} to {high:g}"
    by = "" if plan.certificate is None else f" by certificate {plan.certificate}"
    if summary.resumed_rows:
        printer.say(f"An earlier run had finished {counted(summary.resumed_rows, 'row')}.")
    printer.say(
        f"{counted(summary.rows, 'row')} at {cost}{by}: [bold green]{summary.accepted:,} accepted[/], "
        f"[bold]{summary.rejected:,} rejected[/] ({summary.rejection_rate:.0%})."
    )
    if output is not None and output != "-":
        printer.say(f"The decisions are in [bold]{escape(output)}[/].")
    printer.finish(
        {
            "rows": summary.rows,
            "accepted": summary.accepted,
            "rejected": summary.rejected,
            "cost": plan.cost,
            "certificate": plan.certificate,
            "output": output,
            "formula_cells": summary.formula_cells,
            "problems": [asdict(problem) for problem in summary.problems],
            **({} if shown is None else {"decisions": shown.to_dict("records")}),
        }
    )


def _first_rows(result: pd.DataFrame, rows: int) -> Any:
    names = [escape(str(name)) for name in result.columns]
    lines = [([_cell(value) for value in row], None) for row in result.head(_SHOWN_ROWS).itertuples(index=False)]
    return table_of(names, lines, numbers=names, title=f"First {len(lines)} of {counted(rows, 'row')}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is True or value is False or type(value).__name__ == "bool":
        return "[green]yes[/]" if value else "[red]no[/]"
    return escape(f"{value!s:.40}")
