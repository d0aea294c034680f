"""The command `recuse certify`: promise a largest loss, from rows that the model was not trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from recuse.cli import options
from recuse.cli.options import option
from recuse.cli.printing import Output
from recuse.cli.tables import LabelledTable, read_labelled
from recuse.phrases import counted
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    from recuse.guarantees import Certificate


@options.command
def certify(
    printer: Output,
    model: options.Model,
    data: Annotated[str, typer.Argument(help="Rows with targets that the model was not trained on, or -.")],
    target: Annotated[float, option("LOSS", "The largest mean loss to promise.")],
    bound: Annotated[float, option("LOSS", "Losses count as at most this; set it beforehand.")],
    delta: Annotated[float, typer.Option(help="Largest probability of a promise that does not hold.")] = 0.05,
    what: Annotated[
        str, typer.Option(help="accepted_loss: of accepted rows; rcr_loss: with the cost of rejected rows, too.")
    ] = "accepted_loss",
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    cost_bound: Annotated[
        float | None, option("COST", "Largest cost of a row, for rcr_loss with a cost column.")
    ] = None,
    target_column: options.Target = None,
    groups: Annotated[
        str | None, option("COLUMN", "Rows with equal values count as one draw, such as one patient.")
    ] = None,
    allow_training_rows: Annotated[
        bool, typer.Option("--allow-training-rows", help="Accept fresh rows that equal training rows by chance.")
    ] = False,
    attempts: Annotated[
        Path | None, option("FILE", "Where attempts are counted, if not in the folder of the model file.")
    ] = None,
    output: Annotated[
        Path | None, option("FILE", "Model file to write, with the certificate.", "-o", "--output")
    ] = None,
    encoding: options.Encoding = None,
) -> None:
    """Promise a largest mean loss, at the most accepting threshold for which that is sure.

    Attempts with the same rows are counted in certification-attempts.json, in the folder of the model file, and each
    makes the next one harder. The same question is no other attempt.

    \b
    Examples:
      recuse certify cars.recuse fresh.csv --target 5 --bound 400
      recuse certify cars.recuse fresh.csv --target 5 --bound 400 -o certified.recuse
      recuse certify cars.recuse fresh.csv --target 5 --bound 400 --what rcr_loss --delta 0.01
    """  # noqa: D301
    from recuse import guarantees, load
    from recuse.files.atomic import check_writable

    if what not in ("accepted_loss", "rcr_loss"):
        raise UsageError(f"--what must be accepted_loss or rcr_loss, got {what!r}")
    given = options.given_cost(cost, cost_money)
    if output is not None:
        check_writable(output)
    served = load(model)
    chosen, used = options.chosen_cost(served, given), () if groups is None else (groups,)
    roles: Any = {"target": target_column, "used": used, "options": ("--target-column", "--groups")}
    table = read_labelled(served, data, chosen, printer, encoding=encoding, **roles)
    if table.left_out:
        printer.warn(f"{counted(table.left_out, 'row')} without a target left out")
    of_groups = table.columns_of_groups(used)
    with printer.warnings_as_lines(guarantees.BoundWarning):  # the problems of the table have what others say
        certificate = guarantees.certify(
            served,
            table.X,
            table.y.to_numpy(),
            target=target,
            bound=bound,
            delta=delta,
            what=what,  # type: ignore[arg-type]
            cost=None if given is None else _cost(given, table),
            cost_bound=cost_bound,
            groups=None if of_groups is None else of_groups.iloc[:, 0].to_numpy(),
            allow_training_rows=allow_training_rows,
            attempts=attempts,
        )
    if chosen.column is not None and certificate.cost_given == "per row":  # a model of an array, without names
        certificate = replace(certificate, cost=chosen.column)
    _print(model, certificate, output, printer)


def _cost(given: options.GivenCost, table: LabelledTable) -> Any:
    """Return the cost as `certify` takes it: a model of an array has no column of costs among those it reads."""
    return table.cost if given.column is not None and given.column not in table.X.columns else given.value


def _print(model: Path, certificate: Certificate, output: Path | None, printer: Output) -> None:
    """Print the certificate and, if there is an output, write it into a copy of the model file."""
    from recuse.model_file import add_certificate

    printer.say(escape(str(certificate)))
    if output is not None:
        number, name = add_certificate(model, certificate, output) + 1, escape(str(output))
        printer.say(f"It is certificate {number} of [bold]{name}[/]. To decide by it:")
        printer.say(f"  recuse predict {name} NEW.csv --certificate {number}")
    written = None if output is None else str(output)
    printer.finish({**certificate.to_dict(), "statement": str(certificate), "output": written})
