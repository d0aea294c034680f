"""The command `recuse predict`: decide about the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.inputs.costs import parse_cost
from recuse.cli.printing.output import Output, counted, short
from recuse.usage_errors import INTERRUPTED, UNUSABLE, UsageError, one_sentence_errors, print_error

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from recuse.scoring.file_run import Engine, Run
    from recuse.scoring.summary import ScoringSummary

__all__ = ["predict"]

_SHOWN_ROWS = 10


def predict(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    data: Annotated[
        str,
        typer.Argument(help="Table with new rows: CSV, Parquet, Arrow, a folder of Parquet files, or - for stdin."),
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Table or folder, or - for CSV on standard output."),
    ] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    certificate: options.Certificate = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column of the data to write, too; can be repeated.")
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Write all columns of the data, too.")] = False,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; by default one for small files, else all cores.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or dask for a cluster; see --scheduler.")] = "local",
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler, such as tcp://127.0.0.1:8786.")
    ] = None,
    encoding: options.Encoding = None,
    spreadsheet_safe: options.SpreadsheetSafe = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
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
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        to_stdout = output == "-"
        if to_stdout and as_json:
            raise UsageError("--json and -o - both write to standard output: write the decisions to a file")
        if keep and keep_all:
            raise UsageError("--keep and --keep-all cannot both be given")
        choice = parse_cost(cost, cost_money)
        _check_output(output, spreadsheet_safe=spreadsheet_safe)
        workers = _engine_choice(jobs, engine, scheduler, output)
        printer = Output(as_json, quiet, to_stderr=to_stdout)
        kept = _Kept(tuple(keep or ()), keep_all, spreadsheet_safe)
        with _resumable(data, output, as_json=as_json):
            _run(model, data, output, choice, certificate, kept, encoding, workers, printer)


@dataclass(frozen=True)
class _Kept:
    names: tuple[str, ...]
    all: bool
    spreadsheet_safe: bool


@dataclass(frozen=True)
class _Workers:
    jobs: int | None
    engine: Engine
    scheduler: str | None


def _engine_choice(jobs: int | None, engine: str, scheduler: str | None, output: str | None) -> _Workers:
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs must be >= 1, got {jobs}")
    if engine == "local":
        if scheduler is not None:
            raise UsageError("--scheduler needs --engine dask")
        return _Workers(jobs, "local", None)
    if engine != "dask":
        raise UsageError(f"--engine must be local or dask, got {engine!r}")
    if scheduler is None:
        raise UsageError("--engine dask needs --scheduler, such as --scheduler tcp://127.0.0.1:8786")
    if jobs is not None or output in (None, "-"):
        raise UsageError("--engine dask needs -o with a file, and no --jobs: the cluster has its own workers")
    return _Workers(None, "dask", scheduler)


@contextmanager
def _resumable(data: str, output: str | None, *, as_json: bool) -> Iterator[None]:
    """Say after an interruption that the finished parts are kept, if they are."""
    try:
        with _termination_as_interruption():
            yield
    except KeyboardInterrupt as interrupt:
        if data == "-" or output in (None, "-"):
            raise
        print_error("interrupted: the same command continues where this one stopped", as_json=as_json)
        raise typer.Exit(INTERRUPTED) from interrupt


@contextmanager
def _termination_as_interruption() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C, so that temporary files with rows are removed."""
    import signal

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # only the first thread may handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_output(output: str | None, *, spreadsheet_safe: bool) -> None:
    from recuse.files.names import file_format

    kind = "no file"
    if output is not None:
        try:
            kind = "csv" if output.endswith("/") or Path(output).is_dir() else file_format(output)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if spreadsheet_safe and kind != "csv":
        raise UsageError(f"--spreadsheet-safe needs -o with a CSV file, got {output or kind}")


def _run(
    path: Path,
    data: str,
    output: str | None,
    choice: Any,
    certificate: int | None,
    kept: _Kept,
    encoding: str | None,
    workers: _Workers,
    printer: Output,
) -> None:
    from recuse.cli.inputs import served_table
    from recuse.cli.inputs.certified import certified_choice
    from recuse.cli.inputs.costs import check_money
    from recuse.files.spreadsheets import formula_warning
    from recuse.scoring.plan import ModelSource
    from recuse.scoring.run import open_run

    source = ModelSource.of(path)
    model = source.load()
    check_money(choice, model.loss_.name)
    cost = served_table.chosen_cost(certified_choice(model, certificate, choice), model)
    served_table.check_cost(cost, model)
    with open_run(
        source,
        data,
        cost=cost,
        certificate=certificate,
        keep=kept.names,
        keep_all=kept.all,
        encoding=encoding,
        spreadsheet_safe=kept.spreadsheet_safe,
    ) as run:
        renamed = [name for name, new in zip(run.plan.keep, run.plan.kept_as, strict=True) if name != new]
        if renamed:
            names = short(renamed, 10)
            printer.warn(f"columns of the data with the name of a result are written as input_NAME: {names}")
        summary, shown = _decisions(run, output, workers, printer)
        used = {*run.plan.keep, *(each for each in (cost, model.cost_) if isinstance(each, str))}
    served_table.print_problems(summary.problems, used, printer)
    if summary.formula_cells and not kept.spreadsheet_safe:
        printer.warn(formula_warning(summary.formula_cells))
    if output is None:
        printer.say(_first_rows(shown, summary.rows))
    _summarise(summary, certificate, output, printer)
    printer.finish(
        {
            "rows": summary.rows,
            "accepted": summary.accepted,
            "rejected": summary.rejected,
            "cost": cost,
            "certificate": certificate,
            "output": output,
            "formula_cells": summary.formula_cells,
            "problems": served_table.problem_records(summary.problems),
            **({"decisions": shown.to_dict("records")} if output is None else {}),
        }
    )


def _decisions(run: Run, output: str | None, workers: _Workers, printer: Output) -> tuple[ScoringSummary, pd.DataFrame]:
    """Return the summary and, without an output, the decisions to show: all for JSON, else the first ones."""
    import pandas as pd

    if output is None:
        return run.collect(None if printer.as_json else _SHOWN_ROWS)
    if output == "-":
        import sys

        sys.stdout.flush()
        summary = run.write_stream(sys.stdout.buffer, jobs=workers.jobs, progress=not printer.silent)
        sys.stdout.flush()  # here an error has a message
        return summary, pd.DataFrame()
    summary = run.write(
        output, jobs=workers.jobs, engine=workers.engine, scheduler=workers.scheduler, progress=not printer.silent
    )
    return summary, pd.DataFrame()


def _first_rows(result: pd.DataFrame, rows: int) -> Table:
    from rich.table import Table

    shown = min(rows, _SHOWN_ROWS)
    table = Table(title=f"First {shown} of {counted(rows, 'row')}", title_justify="left", header_style="bold")
    for name in result.columns:
        table.add_column(options.escaped(str(name)), justify="right")
    for row in result.head(_SHOWN_ROWS).itertuples(index=False):
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is True or value is False or type(value).__name__ == "bool":
        return "[green]yes[/]" if value else "[red]no[/]"
    return options.escaped(f"{value!s:.40}")


def _summarise(summary: ScoringSummary, certificate: int | None, output: str | None, printer: Output) -> None:
    low, high = summary.lowest_cost, summary.highest_cost
    cost = f"cost {low:g}" if low == high else f"costs from {low:g} to {high:g}"
    by = "" if certificate is None else f" by certificate {certificate}"
    if summary.resumed_rows:
        printer.say(f"An earlier run had finished {counted(summary.resumed_rows, 'row')}.")
    printer.say(
        f"{counted(summary.rows, 'row')} at {cost}{by}: [bold green]{summary.accepted:,} accepted[/], "
        f"[bold]{summary.rejected:,} rejected[/] ({summary.rejection_rate:.0%})."
    )
    if output is not None and output != "-":
        printer.say(f"The decisions are in [bold]{options.escaped(output)}[/].")
