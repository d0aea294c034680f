"""The command `recuse evaluate`: measure the decisions about rows whose target is known."""

from __future__ import annotations

from recuse.cli import options
from recuse.cli.printing import Output, explained_table, saved_facts, savings_sentence
from recuse.cli.tables import decide, problem_records, read_labelled

__all__ = ["evaluate"]


@options.command
def evaluate(
    printer: Output,
    model: options.Model,
    data: options.Labelled,
    target: options.Targets = None,
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    certificate: options.Certificate = None,
    encoding: options.Encoding = None,
) -> None:
    """Measure the decisions about rows whose target is known.

    \b
    Examples:
      recuse evaluate cars.recuse labelled.csv
      recuse evaluate cars.recuse labelled.csv --cost 12
      recuse evaluate certified.recuse labelled.csv --certificate 1
      recuse evaluate cars.recuse labelled.csv --json
    """  # noqa: D301
    from recuse import load

    given = options.given_cost(cost, cost_money)
    served = load(model)
    chosen = options.chosen_cost(served, given, certificate)
    table = read_labelled(served, data, chosen, printer, targets=target, encoding=encoding)
    measures = decide(served, table, certificate).evaluate(table.y.to_numpy())
    loss = served.loss_.name
    by = "" if certificate is None else f", by certificate {certificate}"
    printer.say(f"{table.describe()}, {loss} loss{by}")
    printer.say(explained_table(measures))
    printer.say(savings_sentence(measures, loss, chosen.prices))
    printer.finish(
        {
            "rows": len(table),
            "rows_without_target": table.left_out,
            "certificate": certificate,
            "loss": loss,
            "measures": measures,
            **saved_facts(measures, loss, chosen.prices),
            "problems": problem_records(table.problems),
        }
    )
