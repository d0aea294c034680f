"""The command `recuse reviews`: what is in a review queue, and what the answers say about the model."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from recuse.cli import options
from recuse.cli.options import option
from recuse.cli.printing import Output, table_of
from recuse.files.atomic import mode_of
from recuse.files.names import file_format
from recuse.phrases import counted
from recuse.usage_errors import UsageError

_MEASURES = {
    "accepted_loss": "mean loss of accepted rows",
    "rejected_loss": "mean loss of rejected rows, had they been accepted",
    "saved_by_rejecting": "saved by a rejection: loss less cost",
    "rcr_loss": "RcR loss: accepted rows their loss, rejected rows their cost",
    "false_acceptance_rate": "accepted, of rows with a loss of at least the cost",
    "false_rejection_rate": "rejected, of rows with a loss below the cost",
}


@options.command
def reviews(
    printer: Output,
    queue: Annotated[Path, typer.Argument(help="Review queue of recuse serve.")],
    export: Annotated[str | None, option("FILE", "Write the answered rows, with weights: CSV, Parquet, Arrow.")] = None,
    delete_before: Annotated[
        str | None, option("DATE", "Delete all rows recorded before a day, such as 2024-05-01.")
    ] = None,
    version: Annotated[str | None, option("VERSION", "Only rows that this version of a model decided about.")] = None,
    spreadsheet_safe: options.SpreadsheetSafe = False,
) -> None:
    """Say what is in a review queue, and estimate losses from the answers.

    \b
    Examples:
      recuse reviews reviews.sqlite
      recuse reviews reviews.sqlite --export answers.csv
      recuse reviews reviews.sqlite --delete-before 2024-05-01
    """  # noqa: D301
    if export is not None and delete_before is not None:
        raise UsageError("--export and --delete-before cannot both be given: export first")
    if version is not None and delete_before is not None:
        raise UsageError("--version and --delete-before cannot both be given: rows of all versions are deleted")
    if spreadsheet_safe and (export is None or file_format(export) != "csv"):
        raise UsageError(f"--spreadsheet-safe needs --export with a CSV file, got {export or 'no file'}")
    printer.to_stderr = export == "-"
    if delete_before is not None:
        _delete(queue, _day(delete_before), printer)
        return
    exported = None
    if export is not None:
        exported = _export(queue, export, version, printer, spreadsheet_safe=spreadsheet_safe)
    _print(queue, version, export, exported, printer)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--delete-before must be a day such as 2024-05-01, got {text!r:.40}") from error


def _delete(queue: Path, day: date, printer: Output) -> None:
    from recuse.reviews.database import delete_before

    deleted = delete_before(queue, day)
    rows = counted(deleted.answered + deleted.unanswered, "row")
    printer.say(f"Deleted {rows} recorded before {day} (UTC), {deleted.unanswered:,} of them without an answer.")
    printer.finish({"deleted": vars(deleted)})


def _export(queue: Path, path: str, version: str | None, printer: Output, *, spreadsheet_safe: bool) -> int:
    """Write the answered rows with the permissions of the queue; return their number."""
    from recuse.files.tables import formula_cells, formula_warning, without_formulas, write_table
    from recuse.reviews.learning import export_table

    table = export_table(queue, version)
    formulas = formula_cells(table) if file_format(path) == "csv" else 0
    if formulas and not spreadsheet_safe:
        printer.warn(formula_warning(formulas))
    write_table(without_formulas(table) if spreadsheet_safe else table, path, mode=mode_of(queue))
    return len(table)


def _print(queue: Path, version: str | None, export: str | None, exported: int | None, printer: Output) -> None:
    from recuse.reviews.summary import summary_of

    summary = summary_of(queue, version)
    if version is not None and not summary["models"]:
        raise ValueError(f"{queue} has no rows of version {version!r}")
    counts = f"{summary['waiting']:,} waiting, {summary['held']:,} held by reviewers, {summary['answered']:,} answered"
    printer.facts({"queue": str(queue), "rows": counts})
    for model in summary["models"]:
        _print_model(model, printer)
    if exported is not None:
        printer.say(f"\nWrote [bold]{escape(str(export))}[/] ({counted(exported, 'answer')}).")
    printer.finish({"queue": str(queue), **summary, "exported": exported})


def _print_model(model: dict[str, Any], printer: Output) -> None:
    rows = model["accepted"] + model["rejected"]
    share = f" ({model['rejected'] / rows:.1%})" if rows else ""
    audits, rejections = model["audits"], model["rejections"]
    printer.say()
    printer.facts(
        {
            "model": f"{model['name']}, version {', '.join(model['versions'])}, {model['loss']} loss",
            "decided": f"{rows:,} rows, {model['rejected']:,} rejected{share}",
            "rejected": f"{rejections['answered']:,} of {rejections['recorded']:,} answered",
            "accepted": f"{audits['drawn']:,} drawn at random, {audits['answered']:,} answered",
        }
    )
    columns = ("estimate", "value", "95% interval", "answers")
    lines = [(_estimate(name, model["estimates"][name]), None) for name in _MEASURES]
    printer.say(table_of(columns, lines, numbers=columns[1:]))
    for note in model["notes"]:
        printer.say(escape(f"Note: {note}"))


def _estimate(name: str, found: dict[str, Any]) -> list[str]:
    kind = ".1%" if name.endswith("rate") else ".4g"
    value, low, high = ("-" if found[part] is None else f"{found[part]:{kind}}" for part in ("value", "low", "high"))
    return [_MEASURES[name], value, f"{low} to {high}", f"{found['answers']:,}"]
