"""The commands `recuse evaluate` and `recuse report`: what a model does to rows whose target is known."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from recuse.cli import options
from recuse.cli.options import option
from recuse.cli.printing import Output, explained_table, saved_facts, savings_sentence, size_of
from recuse.cli.tables import decide, read_decisions, read_labelled
from recuse.usage_errors import UsageError


@options.command
def evaluate(
    printer: Output,
    model: Annotated[
        Path,
        typer.Argument(help="Model file; or, without DATA, a table of recuse predict with the target."),
    ],
    data: Annotated[str | None, typer.Argument(help="Table with the true target: CSV, Parquet, Arrow, or -.")] = None,
    target: options.Target = None,
    loss: Annotated[str | None, option("LOSS", "Loss to measure decisions of a table by; squared by default.")] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    certificate: options.Certificate = None,
    encoding: options.Encoding = None,
) -> None:
    """Measure the decisions about rows whose target is known, of a model or in a table.

    \b
    Examples:
      recuse evaluate cars.recuse labelled.csv
      recuse evaluate cars.recuse labelled.csv --cost 12
      recuse evaluate certified.recuse labelled.csv --certificate 1
      recuse evaluate cars.recuse labelled.csv --json
      recuse evaluate decisions.csv --target mpg
    """  # noqa: D301
    from recuse import load

    given = options.given_cost(cost, cost_money)
    if data is None:
        if given is not None or certificate is not None:
            raise UsageError("--cost, --cost-money and --certificate need a model: a table has a cost of each row")
        if target is None:
            raise UsageError("a table of decisions needs --target, the column of the table with the target")
        table, decision = read_decisions(str(model), target, loss or "squared", encoding)
    else:
        if loss is not None:
            raise UsageError("--loss is for tables of decisions: a model has its loss")
        served = load(model)
        chosen = options.chosen_cost(served, given, certificate)
        table = read_labelled(served, data, chosen, printer, target=target, encoding=encoding)
        decision = decide(served, table, certificate)
    measures, name = decision.evaluate(table.y.to_numpy()), decision.loss.name
    prices = None if given is None else given.prices
    by = "" if certificate is None else f", by certificate {certificate}"
    printer.say(f"{table.describe()}, {name} loss{by}")
    printer.say(explained_table(measures))
    printer.say(savings_sentence(measures, name, prices))
    printer.finish(
        {
            "rows": len(table),
            "rows_without_target": table.left_out,
            "certificate": certificate,
            "loss": name,
            "measures": measures,
            **saved_facts(measures, name, prices),
            "problems": [asdict(problem) for problem in table.problems],
        }
    )


@options.command
def report(
    printer: Output,
    model: options.Model,
    data: options.Labelled,
    path: Annotated[Path, typer.Option("-o", "--output", help="The page.")] = Path("report.html"),
    target: options.Target = None,
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

    check_writable(path)
    given = options.given_cost(cost, cost_money)
    served = load(model)
    chosen, groups = options.chosen_cost(served, given), group or []
    table = read_labelled(served, data, chosen, printer, target=target, used=groups, encoding=encoding)
    compared = table.columns_of_groups(groups)
    known = None
    if training is not None:
        # The page does not use the costs of training rows, whose column may be there or not.
        used = [*groups, *([] if chosen.column is None else [chosen.column])]
        silent, no_cost = Output(as_json=True, silent=True), options.GivenCost(1.0)
        rows = read_labelled(served, training, no_cost, silent, target=target, used=used, encoding=encoding)
        known = (rows.X, rows.y.to_numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the problems of the table have these
        write(
            served,
            table.X,
            table.y.to_numpy(),
            path,
            group=compared,
            cost=table.cost if chosen.column is None else table.cost.to_numpy(),
            training=known,
            money=None if chosen.prices is None else asdict(chosen.prices),
            title=title,
        )
    printer.say(f"{table.describe()}: the page is {escape(str(path))} ({size_of(path)}).")
    size = path.stat().st_size
    printer.finish({"page": str(path), "bytes": size, "rows": len(table), "rows_without_target": table.left_out})
