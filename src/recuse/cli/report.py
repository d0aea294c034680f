"""The command `recuse report`: one page about a model and its decisions."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from recuse.cli import options
from recuse.cli.options import option
from recuse.cli.printing import Output, escape, size_of
from recuse.cli.tables import read_labelled

__all__ = ["report"]


@options.command
def report(
    printer: Output,
    model: options.Model,
    data: options.Labelled,
    path: Annotated[Path, typer.Option("-o", "--output", help="The page.")] = Path("report.html"),
    target: options.Targets = None,
    group: Annotated[list[str] | None, option("COLUMN", "Column with groups to compare; may be repeated.")] = None,
    training: Annotated[str | None, option("DATA", "Training rows, for similar rows and for drift.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    encoding: options.Encoding = None,
) -> None:
    """Write one page that shows what a model would save at which cost.

    \b
    Examples:
      recuse report cars.recuse test.csv -o report.html
      recuse report cars.recuse test.csv --group origin --training train.csv
      recuse report cars.recuse test.csv --cost-money error=10,error_cost=50,review_cost=18
    """  # noqa: D301
    from recuse import load
    from recuse.files.atomic import check_writable
    from recuse.report import write
    from recuse.scoring.data_rows import data_rows

    check_writable(path)
    given = options.given_cost(cost, cost_money)
    served = load(model)
    chosen, groups = options.chosen_cost(served, given), group or []
    table = read_labelled(served, data, chosen, printer, targets=target, used=groups, encoding=encoding)
    compared = table.columns_of_groups(groups)
    known = None
    if training is not None:
        # The page does not use the costs of training rows, whose column may be there or not.
        used = [*groups, *([] if chosen.column is None else [chosen.column])]
        silent, no_cost = Output(as_json=True), options.GivenCost(1.0)
        rows = read_labelled(served, training, no_cost, silent, targets=target, used=used, encoding=encoding)
        known = (rows.X, rows.y.to_numpy())
    labels = table.X.index + 1  # the page names rows as messages do
    with data_rows(first=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the problems of the table have these
        write(
            served,
            table.X.set_axis(labels),
            table.y.to_numpy(),
            path,
            group=None if compared is None else compared.set_axis(labels),
            cost=table.cost if chosen.column is None else table.cost.to_numpy(),
            training=known,
            money=None if chosen.prices is None else asdict(chosen.prices),
            title=title,
        )
    printer.say(f"{table.describe()}: the page is {escape(str(path))} ({size_of(path)}).")
    size = path.stat().st_size
    printer.finish({"page": str(path), "bytes": size, "rows": len(table), "rows_without_target": table.left_out})
