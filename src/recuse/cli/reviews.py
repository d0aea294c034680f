"""The command `recuse reviews`: what is in a review queue, and what the answers say about the model."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.printing.output import Output, counted
from recuse.files.atomic import mode_of
from recuse.files.names import file_format
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["reviews"]

_MEASURES = {
    "accepted_loss": "mean loss of accepted rows",
    "rejected_loss": "mean loss of rejected rows, had they been accepted",
    "saved_by_rejecting": "saved by a rejection: loss less cost",
    "rcr_loss": "RcR loss: accepted rows their loss, rejected rows their cost",
    "false_acceptance_rate": "accepted, of rows with a loss of at least the cost",
    "false_rejection_rate": "rejected, of rows with a loss below the cost",
}


def reviews(
    queue: Annotated[Path, typer.Argument(help="Review queue of recuse serve.")],
    export: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the answered rows, with weights: CSV, Parquet, Arrow.")
    ] = None,
    delete_before: Annotated[
        str | None, typer.Option(metavar="DATE", help="Delete all rows recorded before a day, such as 2024-05-01.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Only rows that this version of a model decided about.")
    ] = None,
    spreadsheet_safe: options.SpreadsheetSafe = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Say what is in a review queue, and estimate losses from the answers.

    \b
    Examples:
      recuse reviews reviews.sqlite
      recuse reviews reviews.sqlite --export answers.csv
      recuse reviews reviews.sqlite --delete-before 2024-05-01
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        if export is not None and delete_before is not None:
            raise UsageError("--export and --delete-before cannot both be given: export first")
        if version is not None and delete_before is not None:
            raise UsageError("--version and --delete-before cannot both be given: rows of all versions are deleted")
        if spreadsheet_safe and (export is None or file_format(export) != "csv"):
            raise UsageError(f"--spreadsheet-safe needs --export with a CSV file, got {export or 'no file'}")
        output = Output(as_json, quiet, to_stderr=export == "-")
        if delete_before is not None:
            _delete(queue, _day(delete_before), output)
            return
        exported = None
        if export is not None:
            exported = _export(queue, export, version, output, spreadsheet_safe=spreadsheet_safe)
        _print(queue, version, export, exported, output)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--delete-before must be a day such as 2024-05-01, got {text!r:.40}") from error


def _delete(queue: Path, day: date, output: Output) -> None:
    from recuse.reviews.retention import delete_before

    deleted = delete_before(queue, day)
    rows = counted(deleted.answered + deleted.unanswered, "row")
    output.say(f"Deleted {rows} recorded before {day} (UTC), {deleted.unanswered:,} of them without an answer.")
    output.finish({"deleted": vars(deleted)})


def _export(queue: Path, path: str, version: str | None, output: Output, *, spreadsheet_safe: bool) -> int:
    """Write the answered rows with the permissions of the queue; return their number."""
    from recuse.files.spreadsheets import formula_cells, formula_warning, without_formulas
    from recuse.files.tables import write_table
    from recuse.reviews.learning import export_table

    table = export_table(queue, version)
    formulas = formula_cells(table) if file_format(path) == "csv" else 0
    if formulas and not spreadsheet_safe:
        output.warn(formula_warning(formulas))
    write_table(without_formulas(table) if spreadsheet_safe else table, path, mode=mode_of(queue))
    return len(table)


def _print(queue: Path, version: str | None, export: str | None, exported: int | None, output: Output) -> None:
    from recuse.reviews.summary import summary_of

    summary = summary_of(queue, version)
    if version is not None and not summary["models"]:
        raise ValueError(f"{queue} has no rows of version {version!r}")
    output.say(options.fact("queue", str(queue)))
    counts = f"{summary['waiting']:,} waiting, {summary['held']:,} held by reviewers, {summary['answered']:,} answered"
    output.say(options.fact("rows", counts))
    for model in summary["models"]:
        _print_model(model, output)
    if exported is not None:
        output.say(f"\nWrote [bold]{options.escaped(str(export))}[/] ({counted(exported, 'answer')}).")
    output.finish({"queue": str(queue), **summary, "exported": exported})


def _print_model(model: dict[str, Any], output: Output) -> None:
    rows = model["accepted"] + model["rejected"]
    share = f" ({model['rejected'] / rows:.1%})" if rows else ""
    audits, rejections = model["audits"], model["rejections"]
    output.say()
    output.say(options.fact("model", f"{model['name']}, version {', '.join(model['versions'])}, {model['loss']} loss"))
    output.say(options.fact("decided", f"{rows:,} rows, {model['rejected']:,} rejected{share}"))
    output.say(options.fact("rejected", f"{rejections['answered']:,} of {rejections['recorded']:,} answered"))
    output.say(options.fact("accepted", f"{audits['drawn']:,} drawn at random, {audits['answered']:,} answered"))
    output.say(_estimates(model["estimates"]))
    for note in model["notes"]:
        output.say(options.escaped(f"Note: {note}"))


def _estimates(estimates: dict[str, dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("estimate", "value", "95% interval", "answers", header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, words in _MEASURES.items():
        found = estimates[name]
        as_rate = name.endswith("rate")
        value, low, high = (_number(found[part], as_rate) for part in ("value", "low", "high"))
        table.add_row(words, value, f"{low} to {high}", f"{found['answers']:,}")
    return table


def _number(value: float | None, as_rate: bool) -> str:
    return "-" if value is None else f"{value:.1%}" if as_rate else f"{value:.4g}"
