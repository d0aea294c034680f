"""The command `recuse evaluate`: measure the decisions about rows whose target is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recuse.cli.inputs import options
from recuse.cli.inputs.costs import CostChoice, parse_cost
from recuse.cli.inputs.labelled import read_labelled
from recuse.cli.printing.measures import explained_table, savings_sentence
from recuse.cli.printing.output import Output
from recuse.inspection.savings import saved_per_row
from recuse.usage_errors import UNUSABLE, one_sentence_errors

__all__ = ["evaluate"]


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    data: Annotated[str, typer.Argument(help="Table with the true targets: CSV, Parquet, Arrow, or -.")],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column with the target, if its name differs from training."),
    ] = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    certificate: options.Certificate = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Measure the decisions about rows whose target is known.

    \b
    Examples:
      recuse evaluate cars.recuse labelled.csv
      recuse evaluate cars.recuse labelled.csv --cost 12
      recuse evaluate certified.recuse labelled.csv --certificate 1
      recuse evaluate cars.recuse labelled.csv --json
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        choice = parse_cost(cost, cost_money)
        _run(model, data, target, choice, certificate, encoding, Output(as_json, quiet))


def _run(
    path: Path,
    data: str,
    target: list[str] | None,
    choice: CostChoice | None,
    certificate: int | None,
    encoding: str | None,
    output: Output,
) -> None:
    from recuse.cli.inputs import served_table
    from recuse.cli.inputs.certified import certified_choice

    model = served_table.load_model(path, choice)
    money = None if choice is None else choice.money
    table = read_labelled(model, data, target, certified_choice(model, certificate, choice), encoding, output)
    decision = served_table.decide(model, table.rows, table.cost, certificate)
    measures = decision.evaluate(table.y.to_numpy())
    by = "" if certificate is None else f", by certificate {certificate}"
    output.say(f"{table.describe()}, {model.loss_.name} loss{by}")
    output.say(explained_table(measures))
    output.say(savings_sentence(measures, model.loss_.name, money))
    output.finish(
        {
            "rows": len(decision),
            "rows_without_target": table.left_out,
            "certificate": certificate,
            "loss": model.loss_.name,
            "measures": measures,
            "saved_per_1000_rows": 1000 * saved_per_row(measures) * (1.0 if money is None else money.per_unit),
            "saved_unit": f"{model.loss_.name} loss" if money is None else "money",
            "problems": served_table.problem_records(table.problems),
        }
    )
