"""The command `recuse evaluate`: measure the decisions about rows whose target is known."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli import options
from recuse.cli.costs import CostChoice, parse_cost
from recuse.cli.measures import explained_table, savings_of, savings_sentence
from recuse.cli.output import Output, counted
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel

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
      recuse evaluate cars.recuse labelled.csv --json
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        choice = parse_cost(cost, cost_money)
        _run(model, data, target, choice, encoding, Output(as_json, quiet))


def _run(
    path: Path, data: str, target: list[str] | None, choice: CostChoice | None, encoding: str | None, output: Output
) -> None:
    from recuse import load
    from recuse.cli import served_table
    from recuse.cli.columns import target_of
    from recuse.table_files import source_name

    model = load(path)
    names = _target_names(model, target)
    money = None if choice is None else choice.money
    table = served_table.read_for(model, data, encoding)
    source = source_name(data)
    y = target_of(table, names, source)
    known = y.notna() if y.ndim == 1 else y.notna().all(axis=1)
    if not known.any():
        raise ValueError(f"no row of {source} has a target")
    table, y = table[known], y[known]
    problems = served_table.problems_of(model, table, source)
    cost = served_table.checked_cost(choice, model, table, source)
    used = {*names, *(each for each in (cost, model.cost_) if isinstance(each, str))}
    served_table.print_problems(problems, used, output)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report of the table has these problems
        decision = model.decide(table, cost=cost)
    measures = decision.evaluate(y.to_numpy())
    left_out = int((~known).sum())
    note = f" ({counted(left_out, 'row')} without a target left out)" if left_out else ""
    output.say(f"{counted(len(decision), 'row')} of {options.escaped(source)}{note}, {model.loss_.name} loss")
    output.say(explained_table(measures))
    output.say(savings_sentence(measures, model.loss_.name, money))
    output.finish(
        {
            "rows": len(decision),
            "rows_without_target": left_out,
            "loss": model.loss_.name,
            "measures": measures,
            "saved_per_1000_rows": 1000 * savings_of(measures) * (1.0 if money is None else money.per_unit),
            "saved_unit": f"{model.loss_.name} loss" if money is None else "money",
            "problems": served_table.problem_records(problems),
        }
    )


def _target_names(model: ServedModel, given: list[str] | None) -> list[str]:
    stored: Any = model.info()["targets"]
    if given is None and stored["names"] is None:
        raise UsageError("the model file has no name of the target: give --target")
    names = list(given or stored["names"])
    if len(names) != stored["count"]:
        raise UsageError(f"--target must be given {counted(stored['count'], 'time')}, once for each target")
    return names
