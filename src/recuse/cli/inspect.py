"""The commands `recuse inspect` and `recuse export`: what a model file is, and the graph that it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from recuse.cli import options
from recuse.cli.options import option
from recuse.cli.printing import Output, leaderboard_records, leaderboard_table, size_of, table_of
from recuse.phrases import counted, short

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel
    from recuse.tabular.schema import Column

_SHOWN_LEVELS = 6
_INPUTS = {
    "number": "a number; NaN is a missing value",
    "date": "microseconds since 1970-01-01; -2^63 (NaT) is a missing value",
    "category": "a category as text; {missing} is a missing value",
}
_OUTPUTS = {
    "prediction": "the prediction",
    "expected_loss": "the loss to expect, in the units of the cost",
    "score": "rows with a score above 0 are accepted",
    "accepted": "whether to accept the prediction",
}


@options.command
def inspect(printer: Output, model: options.Model) -> None:
    """Say what a model file is: estimator, cost, columns, training, versions.

    \b
    Examples:
      recuse inspect cars.recuse
      recuse inspect cars.recuse --json
    """  # noqa: D301
    from recuse import load
    from recuse.tabular.schema import TableSchema

    served, digest = load(model), hashlib.sha256(model.read_bytes()).hexdigest()
    records = leaderboard_records(served.leaderboard)
    printer.facts(_facts(model, served, digest))
    if isinstance(served.schema, TableSchema):
        used = [column for column in served.schema.columns if column.kind != "unused"]
        printer.say()
        lines = map(_line, served.schema.columns)
        printer.say(table_of(("column", "kind", "in training"), lines, title=f"Columns ({len(used)} used)"))
    if records:
        printer.say(leaderboard_table(records))
    info = served.info()
    info["training"] = {name: value for name, value in info["training"].items() if name != "leaderboard"}
    facts = {"file": str(model), "bytes": model.stat().st_size, "sha256": digest, **info}
    printer.finish({**facts, "leaderboard": records})


def _facts(path: Path, model: ServedModel, digest: str) -> dict[str, str]:
    info = model.info()
    names, rows = info["targets"]["names"], info["training"]["rows"]
    libraries = ", ".join(f"{name} {version}" for name, version in info["libraries"].items())
    certificates = " ".join(f"({number}) {each}" for number, each in enumerate(model.certificates, start=1))
    return {
        "file": f"{path}, {size_of(path)}, format version {info['format_version']}",
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
        case "experts":
            fees = ", ".join(f"{each.name} for {each.fee}" for each in model.experts)
            return f"fee plus expected {model.loss_.name} loss of the cheapest expert: {fees}"
        case _:
            text = "one for each row, given with the data"
    other = "other costs are possible with --cost" if model.serves_any_cost else "this cost only"
    return f"{text}, in units of the {model.loss_.name} loss; {other}"


def _line(column: Column) -> tuple[list[str], str | None]:
    """Return what the training rows had in a column, as a line of a table."""
    match column.kind:
        case "number":
            text = "no feature" if column.low is None else f"{column.low:g} to {column.high:g}"
        case "date":
            text = f"{_day(column.low)} to {_day(column.high)}"
        case "category":
            names = [level.text for level in column.levels if level.seen]
            text = f"{counted(len(names), 'category', 'categories')}: {short(names, _SHOWN_LEVELS)}"
        case _:
            return [escape(str(column.name)), "not used", escape(column.reason)], "dim"
    gaps = "; also missing values" if column.had_missing else ""
    return [escape(str(column.name)), column.kind, escape(f"{text}{gaps}")], None


def _day(seconds: float | None) -> str:
    import numpy as np

    return str(np.datetime64(int(seconds or 0), "s").astype("datetime64[D]"))


@options.command
def export(
    printer: Output,
    model: options.Model,
    onnx: Annotated[Path, option("FILE", "ONNX file to write.")],
) -> None:
    """Write the bare ONNX graph, which any ONNX Runtime can run, and print its inputs and outputs.

    \b
    Examples:
      recuse export cars.recuse --onnx cars.onnx
      recuse export cars.recuse --onnx cars.onnx --json
    """  # noqa: D301
    from recuse import load
    from recuse.files.atomic import new_file
    from recuse.model_file.session import open_session

    served = load(model)
    with new_file(onnx) as file:
        file.write(served.onnx_graph())
    session = open_session(served.onnx_graph())
    described = {
        "inputs": list(_described(session.get_inputs(), _meanings(served))),
        "outputs": list(_described(session.get_outputs(), _OUTPUTS)),
    }
    for title, records in described.items():
        lines = [
            ((escape(each["name"]), each["type"], " x ".join(map(str, each["shape"])), escape(each["meaning"])), None)
            for each in records
        ]
        printer.say(table_of(("name", "type", "shape", "meaning"), lines, title=title.capitalize()))
    printer.say(f"Saved [bold]{escape(str(onnx))}[/] ({size_of(onnx)}).")
    printer.finish({"onnx": str(onnx), **described})


def _described(values: Any, meanings: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Return the inputs or the outputs of a graph with their meaning."""
    for value in values:
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        shape = ["rows" if not isinstance(size, int) else size for size in value.shape]
        yield {"name": value.name, "type": kind, "shape": shape, "meaning": meanings[value.name]}


def _meanings(model: ServedModel) -> dict[str, str]:
    from recuse.model_file.schema import ImageSchema, input_name, missing_text

    cost = {"cost": f"the cost of rejecting the row, in units of the {model.loss_.name} loss"}
    schema = model.schema
    if isinstance(schema, ImageSchema):
        return {**cost, "image": "images: channels, height, width"}
    if schema.matrix is not None:
        return {**cost, schema.matrix: "all columns as numbers, in the order of training; NaN is a missing value"}
    texts = {input_name(each): _INPUTS[each.kind].format(missing=repr(missing_text(each))) for each in schema.used}
    return {**cost, **texts}
