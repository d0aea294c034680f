"""The command `recuse inspect`: say what a model file is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.printing.leaderboard import leaderboard_records, leaderboard_table
from recuse.cli.printing.output import Output, counted, short
from recuse.usage_errors import UNUSABLE, one_sentence_errors

if TYPE_CHECKING:
    from rich.table import Table

    from recuse.model_file.schema import ColumnSchema, TableSchema
    from recuse.model_file.served import ServedModel

__all__ = ["inspect"]

_SHOWN_LEVELS = 6


def inspect(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Say what a model file is: estimator, cost, columns, training, versions.

    \b
    Examples:
      recuse inspect cars.recuse
      recuse inspect cars.recuse --json
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        from recuse import load

        served, output = load(model), Output(as_json)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        _print(model, served, digest, output)
        records = leaderboard_records(served.leaderboard)
        facts = {"file": str(model), "bytes": model.stat().st_size, "sha256": digest, **served.info()}
        output.finish({**facts, "leaderboard": records})


def _print(path: Path, model: ServedModel, digest: str, output: Output) -> None:
    from recuse.model_file.schema import TableSchema

    for name, text in _facts(path, model, digest).items():
        output.say(options.fact(name, text))
    if isinstance(model.schema, TableSchema):
        output.say()
        output.say(_columns(model.schema))
    records = leaderboard_records(model.leaderboard)
    if records:
        output.say(leaderboard_table(records))


def _facts(path: Path, model: ServedModel, digest: str) -> dict[str, str]:
    info = model.info()
    names, rows = info["targets"]["names"], info["training"]["rows"]
    libraries = ", ".join(f"{name} {version}" for name, version in info["libraries"].items())
    certificates = " ".join(f"({number}) {each}" for number, each in enumerate(model.certificates, start=1))
    return {
        "file": f"{path}, {options.size_of(path)}, format version {info['format_version']}",
        "model": f"{model.estimator}, {model.loss_.name} loss",
        "target": short(list(names)) if names else counted(info["targets"]["count"], "target") + " without a name",
        "cost": _cost(model),
        **({} if (shape := info["schema"].get("shape")) is None else {"images": " x ".join(map(str, shape))}),
        "score": f"{info['score_unit']}; rows with a score above {info['threshold']:g} are accepted",
        "training": counted(rows, "row") if rows is not None else "number of rows not stored",
        **({"certified": certificates} if certificates else {}),
        "versions": f"recuse {info['recuse']}, {libraries}",
        "sha256": digest,
    }


def _cost(model: ServedModel) -> str:
    info: Any = model.info()["cost"]
    match info["kind"]:
        case "number":
            text = f"{info['value']:g}"
        case "column":
            text = f"column {info['value']} of the data"
        case "range":
            text = f"any from {info['range'][0]:g} to {info['range'][1]:g}"
        case _:
            text = "one for each row, given with the data"
    other = "other costs are possible with --cost" if model.serves_any_cost else "this cost only"
    return f"{text}, in units of the {model.loss_.name} loss; {other}"


def _columns(schema: TableSchema) -> Table:
    from rich.table import Table

    used = [column for column in schema.columns if column.kind != "unused"]
    title = f"Columns ({len(used)} used)"
    table = Table("column", "kind", "in training", title=title, title_justify="left", header_style="bold")
    for column in schema.columns:
        kind = "not used" if column.kind == "unused" else column.kind
        style = "dim" if column.kind == "unused" else None
        table.add_row(options.escaped(str(column.name)), kind, options.escaped(_values(column)), style=style)
    return table


def _values(column: ColumnSchema) -> str:
    """Return what the training rows had in a column."""
    match column.kind:
        case "number":
            text = f"{column.low:g} to {column.high:g}"
        case "date":
            text = f"{_day(column.low)} to {_day(column.high)}"
        case "category":
            names = [level.text for level in column.levels if level.seen]
            text = f"{counted(len(names), 'category', 'categories')}: {short(names, _SHOWN_LEVELS)}"
        case _:
            return column.reason
    return f"{text}; also missing values" if column.had_missing else text


def _day(seconds: float | None) -> str:
    import numpy as np

    return str(np.datetime64(int(seconds or 0), "s").astype("datetime64[D]"))
