"""The command `recuse certify`: promise a largest loss, from rows that the model was not trained on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.inputs.costs import CostChoice, parse_cost
from recuse.cli.printing.output import Output, counted
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

if TYPE_CHECKING:
    from recuse.guarantees import Certificate
    from recuse.model_file.served import ServedModel

__all__ = ["certify"]


def certify(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    data: Annotated[str, typer.Argument(help="Rows with targets that the model was not trained on, or -.")],
    target: Annotated[float, typer.Option(metavar="LOSS", help="The largest mean loss to promise.")],
    bound: Annotated[float, typer.Option(metavar="LOSS", help="Losses count as at most this; set it beforehand.")],
    delta: Annotated[float, typer.Option(help="Largest probability of a promise that does not hold.")] = 0.05,
    what: Annotated[
        str, typer.Option(help="accepted_loss: of accepted rows; rcr_loss: with the cost of rejected rows, too.")
    ] = "accepted_loss",
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    cost_bound: Annotated[
        float | None, typer.Option(metavar="COST", help="Largest cost of a row, for rcr_loss with a cost column.")
    ] = None,
    target_column: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column with the target, if its name differs from training."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Rows with equal values count as one draw, such as one patient."),
    ] = None,
    allow_training_rows: Annotated[
        bool, typer.Option("--allow-training-rows", help="Accept fresh rows that equal training rows by chance.")
    ] = False,
    attempts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where attempts are counted, if not in the folder of the model file."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Model file to write, with the certificate.")
    ] = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
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
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        if what not in ("accepted_loss", "rcr_loss"):
            raise UsageError(f"--what must be accepted_loss or rcr_loss, got {what!r}")
        wanted = {
            "target": target,
            "bound": bound,
            "delta": delta,
            "what": what,
            "cost_bound": cost_bound,
            "allow_training_rows": allow_training_rows,
            "attempts": attempts,
        }
        source = _Source(data, target_column, parse_cost(cost, cost_money), groups, encoding)
        _run(model, source, wanted, output, Output(as_json, quiet))


@dataclass(frozen=True)
class _Source:
    """The table of calibration rows, and how to read it."""

    path: str
    targets: list[str] | None
    cost: CostChoice | None
    groups: str | None
    encoding: str | None


def _run(path: Path, source: _Source, wanted: dict[str, Any], output: Path | None, printer: Output) -> None:
    from recuse.cli.inputs.served_table import load_model
    from recuse.files.atomic import check_writable
    from recuse.model_file import add_certificate

    if output is not None:
        check_writable(output)
    model = load_model(path, source.cost)
    X, y, given = _labelled_rows(model, source, printer)
    certificate = _certificate(model, X, y, {**wanted, **given}, printer)
    column = None if source.cost is None else source.cost.column
    if column is not None and certificate.cost_given == "per row":  # a model of an array, which knows no columns
        certificate = replace(certificate, cost=column)
    printer.say(options.escaped(str(certificate)))
    if output is not None:
        number, name = add_certificate(path, certificate, output) + 1, options.escaped(str(output))
        printer.say(f"It is certificate {number} of [bold]{name}[/]. To decide by it:")
        printer.say(f"  recuse predict {name} NEW.csv --certificate {number}")
    written = None if output is None else str(output)
    printer.finish({**certificate.to_dict(), "statement": str(certificate), "output": written})


def _certificate(model: ServedModel, X: Any, y: Any, wanted: dict[str, Any], printer: Output) -> Certificate:
    """Certify the model; of the warnings, those of rows are left out, since the report of the table has them."""
    from recuse.cli.inputs.served_table import data_rows
    from recuse.guarantees import BoundWarning, certify

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("always", BoundWarning)
        with data_rows():
            certificate = certify(model, X, y, **wanted)
    for warning in caught:
        if issubclass(warning.category, BoundWarning):
            printer.warn(str(warning.message))
    return certificate


def _labelled_rows(model: ServedModel, source: _Source, printer: Output) -> tuple[Any, Any, dict[str, Any]]:
    """Return the features and the targets of the rows with a target, and their cost and groups as arguments."""
    from recuse.cli.inputs.columns import check_column
    from recuse.cli.inputs.labelled import read_labelled
    from recuse.files.names import source_name

    column, option = source.groups, "--target-column"
    if column is not None and column in (source.targets or model.info()["targets"]["names"] or ()):
        raise UsageError(f"column {column!r} must have one role, got {option} and --groups")
    used = () if column is None else (column,)
    table = read_labelled(model, source.path, source.targets, source.cost, source.encoding, printer, used, option)
    if table.left_out:
        printer.warn(f"{counted(table.left_out, 'row')} without a target left out")
    cost: Any = None if source.cost is None else source.cost.value
    if isinstance(cost, str) and cost not in table.rows.columns:  # a model of an array reads features only
        cost = table.cost
    if column is None:
        return table.rows, table.y.to_numpy(), {"cost": cost}
    check_column(table.cells, column, "column of groups", source_name(source.path))
    return table.rows, table.y.to_numpy(), {"cost": cost, "groups": table.cells[column].to_numpy()}
