"""The command `recuse predict`: decide about the rows of a table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.inputs.costs import parse_cost
from recuse.cli.printing.output import Output, counted, short
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from recuse.decision import Decision
    from recuse.model_file.served import ServedModel

__all__ = ["predict"]

_SHOWN_ROWS = 10


def predict(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    data: Annotated[str, typer.Argument(help="Table with new rows: CSV, Parquet, Arrow, or - for standard input.")],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Table to write, or - for CSV on standard output."),
    ] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    certificate: options.Certificate = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column of the data to write, too; can be repeated.")
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Write all columns of the data, too.")] = False,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Decide about the rows of a table: the prediction of each, and whether to accept it.

    The columns of the result are prediction, accepted, score, cost and, if the model has one, expected_loss.

    \b
    Examples:
      recuse predict cars.recuse new.csv
      recuse predict cars.recuse new.csv -o decisions.csv --keep id
      recuse predict cars.recuse new.parquet -o decisions.parquet --cost 12
      recuse predict certified.recuse new.csv --certificate 1
      recuse predict cars.recuse - -o - < new.csv | head
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        to_stdout = output == "-"
        if to_stdout and as_json:
            raise UsageError("--json and -o - both write to standard output: write the decisions to a file")
        if keep and keep_all:
            raise UsageError("--keep and --keep-all cannot both be given")
        choice = parse_cost(cost, cost_money)
        _check_output(output)
        printer = Output(as_json, quiet, to_stderr=to_stdout)
        _run(model, data, output, choice, certificate, keep, keep_all, encoding, printer)


def _check_output(output: str | None) -> None:
    from recuse.files.atomic import check_writable
    from recuse.files.names import file_format

    if output is None or output == "-":
        return
    try:
        file_format(output)
    except ValueError as error:
        raise UsageError(str(error)) from error
    check_writable(output)


def _run(
    path: Path,
    data: str,
    output: str | None,
    choice: Any,
    certificate: int | None,
    keep: list[str] | None,
    keep_all: bool,
    encoding: str | None,
    printer: Output,
) -> None:
    from recuse.cli.inputs import served_table
    from recuse.cli.inputs.certified import certified_choice
    from recuse.cli.inputs.columns import check_column
    from recuse.files.names import source_name
    from recuse.files.tables import write_table

    model, source = served_table.load_model(path, choice), source_name(data)
    cost = served_table.chosen_cost(certified_choice(model, certificate, choice), model)
    table = served_table.read_for(model, data, encoding)
    kept = list(table.columns) if keep_all else list(dict.fromkeys(keep or []))
    for name in kept:
        check_column(table, name, "column to keep", source)
    row_cost = served_table.row_costs(cost, model, table, source)
    costs = {each for each in (cost, model.cost_) if isinstance(each, str)}
    rows = served_table.rows_for(model, table, costs)
    problems = served_table.problems_of(model, rows, source)
    served_table.print_problems(problems, {*kept, *costs}, printer)
    decision, decisions = _decide(model, rows, row_cost, certificate)
    result = _with_kept(table[kept], decisions, printer)
    if output is not None:
        write_table(result, output)
    else:
        printer.say(_first_rows(result))
    _summarise(decision, certificate, output, printer)
    printer.finish(
        {
            "rows": len(decision),
            "accepted": int(decision.accepted.sum()),
            "rejected": int((~decision.accepted).sum()),
            "cost": cost,
            "certificate": certificate,
            "output": output,
            "problems": served_table.problem_records(problems),
            **({"decisions": result.to_dict("records")} if output is None else {}),
        }
    )


def _decide(
    model: ServedModel, rows: pd.DataFrame, cost: Any, certificate: int | None
) -> tuple[Decision, pd.DataFrame]:
    """Return the decisions, and as a table with the expected loss if the model has one."""
    from recuse.cli.inputs import served_table

    decision = served_table.decide(model, rows, cost, certificate)
    frame = decision.to_frame()
    if model.info()["has_expected_loss"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the report of the table has these problems
            frame["expected_loss"] = model.expected_loss(rows)
    return decision, frame


def _with_kept(kept: pd.DataFrame, decisions: pd.DataFrame, printer: Output) -> pd.DataFrame:
    """Put the kept columns before the decisions; a name that both have gets a prefix that makes it new."""
    import pandas as pd

    taken = [name for name in kept.columns if name in decisions.columns]
    if taken:
        printer.warn(f"columns of the data with the name of a result are written as input_NAME: {short(taken, 10)}")
    used, renamed = {*kept.columns, *decisions.columns}, {}
    for name in taken:
        renamed[name] = f"input_{name}"
        while renamed[name] in used:
            renamed[name] = f"input_{renamed[name]}"
        used.add(renamed[name])
    return pd.concat([kept.rename(columns=renamed), decisions], axis=1)


def _first_rows(result: pd.DataFrame) -> Table:
    from rich.table import Table

    shown = min(len(result), _SHOWN_ROWS)
    table = Table(title=f"First {shown} of {counted(len(result), 'row')}", title_justify="left", header_style="bold")
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


def _summarise(decision: Decision, certificate: int | None, output: str | None, printer: Output) -> None:
    rejected = int((~decision.accepted).sum())
    low, high = float(decision.cost.min()), float(decision.cost.max())
    cost = f"cost {low:g}" if low == high else f"costs from {low:g} to {high:g}"
    accepted, by = len(decision) - rejected, "" if certificate is None else f" by certificate {certificate}"
    printer.say(
        f"{counted(len(decision), 'row')} at {cost}{by}: [bold green]{accepted:,} accepted[/], "
        f"[bold]{rejected:,} rejected[/] ({decision.rejection_rate:.0%})."
    )
    if output is not None and output != "-":
        printer.say(f"The decisions are in [bold]{options.escaped(output)}[/].")
