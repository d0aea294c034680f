"""The command `recuse certify`: promise a largest loss, from rows that the model was not trained on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli import options
from recuse.cli.costs import CostChoice, parse_cost
from recuse.cli.output import Output, counted
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

if TYPE_CHECKING:
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
    seed: Annotated[int, typer.Option(help="Seed of the order of the rows; set it beforehand.")] = 0,
    allow_training_rows: Annotated[
        bool, typer.Option("--allow-training-rows", help="Accept fresh rows that equal training rows by chance.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Model file to write, with the certificate.")
    ] = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Promise a largest mean loss, at the most accepting threshold for which that is sure.

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
            "random_state": seed,
            "allow_training_rows": allow_training_rows,
        }
        source = _Source(data, target_column, parse_cost(cost, cost_money), encoding)
        _run(model, source, wanted, output, Output(as_json, quiet))


@dataclass(frozen=True)
class _Source:
    """The table of calibration rows, and how to read it."""

    path: str
    targets: list[str] | None
    cost: CostChoice | None
    encoding: str | None


def _run(path: Path, source: _Source, wanted: dict[str, Any], output: Path | None, printer: Output) -> None:
    from recuse import load
    from recuse.atomic_files import check_writable
    from recuse.guarantees import certify as certify_model
    from recuse.model_file import add_certificate

    if output is not None:
        check_writable(output)
    model = load(path)
    X, y, cost = _labelled_rows(model, source, printer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report of the table has these problems
        certificate = certify_model(model, X, y, cost=cost, **wanted)
    printer.say(options.escaped(str(certificate)))
    if output is not None:
        number = add_certificate(path, certificate, output)
        printer.say(f"It is certificate {number} of [bold]{options.escaped(str(output))}[/].")
    written = None if output is None else str(output)
    printer.finish({**certificate.to_dict(), "statement": str(certificate), "output": written})


def _labelled_rows(model: ServedModel, source: _Source, printer: Output) -> tuple[Any, Any, Any]:
    """Return the features, the targets and the cost of the rows with a target."""
    from recuse.cli import served_table
    from recuse.cli.columns import target_of
    from recuse.table_files import source_name

    name = source_name(source.path)
    stored: Any = model.info()["targets"]
    if source.targets is None and stored["names"] is None:
        raise UsageError("the model file has no name of the target: give --target-column")
    names = list(source.targets or stored["names"])
    if len(names) != stored["count"]:
        raise UsageError(f"--target-column must be given {counted(stored['count'], 'time')}, once for each target")
    table = served_table.read_for(model, source.path, source.encoding)
    y = target_of(table, names, name)
    known = y.notna() if y.ndim == 1 else y.notna().all(axis=1)
    if not known.any():
        raise ValueError(f"no row of {name} has a target")
    table, y = table[known], y[known]
    problems = served_table.problems_of(model, table, name)
    cost = served_table.checked_cost(source.cost, model, table, name)
    used = {*names, *(each for each in (cost, model.cost_) if isinstance(each, str))}
    served_table.print_problems(problems, used, printer)
    left_out = int((~known).sum())
    if left_out:
        printer.warn(f"{counted(left_out, 'row')} without a target left out")
    return table, y.to_numpy(), cost
