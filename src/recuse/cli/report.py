"""The command `recuse report`: one page about a model and its decisions."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.inputs.costs import CostChoice, parse_cost
from recuse.cli.inputs.labelled import LabelledTable, read_labelled
from recuse.cli.printing.output import Output, short
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

__all__ = ["report"]


def report(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    data: Annotated[str, typer.Argument(help="Test rows with true targets: CSV, Parquet, Arrow, or -.")],
    path: Annotated[Path, typer.Option("-o", "--output", help="The page.")] = Path("report.html"),
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column with the target, if its name differs from training."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column with groups to compare; may be repeated.")
    ] = None,
    training: Annotated[
        str | None, typer.Option(metavar="DATA", help="Training rows, for similar rows and for drift.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Write one page that shows what a model would save at which cost.

    \b
    Examples:
      recuse report cars.recuse test.csv -o report.html
      recuse report cars.recuse test.csv --group origin --training train.csv
      recuse report cars.recuse test.csv --cost-money error=10,error_cost=50,review_cost=18
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        from recuse.files.atomic import check_writable

        check_writable(path)
        choice = parse_cost(cost, cost_money)
        _run(model, data, path, target, group or [], training, title, choice, encoding, Output(as_json, quiet))


def _run(
    path: Path,
    data: str,
    page: Path,
    target: list[str] | None,
    group: list[str],
    training: str | None,
    title: str | None,
    choice: CostChoice | None,
    encoding: str | None,
    output: Output,
) -> None:
    from recuse.cli.inputs.columns import check_column
    from recuse.cli.inputs.served_table import data_rows, load_model
    from recuse.report import write

    model = load_model(path, choice)
    table = read_labelled(model, data, target, choice, encoding, output, tuple(group))
    for name in group:
        check_column(table.cells, name, "group", table.source)
    known = None
    if training is not None:
        silent = Output(as_json=True)
        no_cost = CostChoice(1.0)  # the page does not use costs of training rows, which may have the column or not
        other = (*group, *(name for name in (choice and choice.column,) if name))
        of_training = read_labelled(model, training, target, no_cost, encoding, silent, other)
        known = (of_training.rows, of_training.y.to_numpy())
    money = None if choice is None or choice.money is None else asdict(choice.money)
    rows = table.rows.set_axis(table.rows.index + 1)  # the page names rows as messages do
    with data_rows(first=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report of the table has these problems
        write(
            model,
            rows,
            table.y.to_numpy(),
            page,
            group=_groups(table, group),
            cost=table.cost if isinstance(table.cost, float) else table.cost.to_numpy(),
            training=known,
            money=money,
            title=title,
        )
    size = page.stat().st_size
    output.say(f"{table.describe()}: the page is {options.escaped(str(page))} ({size / 1e6:.1f} MB).")
    output.finish({"page": str(page), "bytes": size, "rows": len(table.rows), "rows_without_target": table.left_out})


def _groups(table: LabelledTable, names: list[str]) -> Any:
    """Return the groups as names of columns, or as values if the model reads no column of that name."""
    if not names or all(name in table.rows.columns for name in names):
        return names or None
    if len(names) > 1:
        raise UsageError(f"--group must be given once for a model without these names of columns, got {short(names)}")
    return table.cells[names[0]].set_axis(table.rows.index + 1)
