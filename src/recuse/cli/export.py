"""The command `recuse export`: write the bare ONNX graph of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.inputs import options
from recuse.cli.printing.output import Output
from recuse.usage_errors import UNUSABLE, one_sentence_errors

if TYPE_CHECKING:
    from rich.table import Table

    from recuse.model_file.served import ServedModel

__all__ = ["export"]

_KINDS = {
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


def export(
    model: Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")],
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="ONNX file to write.")],
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Write the bare ONNX graph, which any ONNX Runtime can run, and print its inputs and outputs.

    \b
    Examples:
      recuse export cars.recuse --onnx cars.onnx
      recuse export cars.recuse --onnx cars.onnx --json
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        from recuse import load
        from recuse.files.atomic import new_file

        served, output = load(model), Output(as_json, quiet)
        with new_file(onnx) as file:
            file.write(served.onnx_graph())
        inputs, outputs = _described(served)
        output.say(_table("Inputs", inputs))
        output.say(_table("Outputs", outputs))
        output.say(f"Saved [bold]{options.escaped(str(onnx))}[/] ({options.size_of(onnx)}).")
        output.finish({"onnx": str(onnx), "inputs": inputs, "outputs": outputs})


def _described(model: ServedModel) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the inputs and outputs of the graph with their meaning."""
    from recuse.model_file.session import open_session

    session, meanings = open_session(model.onnx_graph()), _meanings(model)
    inputs = [_record(each, meanings[each.name]) for each in session.get_inputs()]
    return inputs, [_record(each, _OUTPUTS[each.name]) for each in session.get_outputs()]


def _meanings(model: ServedModel) -> dict[str, str]:
    from recuse.model_file.schema import ImageSchema

    cost = {"cost": f"the cost of rejecting the row, in units of the {model.loss_.name} loss"}
    schema = model.schema
    if isinstance(schema, ImageSchema):
        return {**cost, "image": "images: channels, height, width"}
    if schema.matrix is not None:
        return {**cost, schema.matrix: "all columns as numbers, in the order of training; NaN is a missing value"}
    used = [column for column in schema.columns if column.kind != "unused"]
    return {**cost, **{each.input: _KINDS[each.kind].format(missing=repr(each.missing)) for each in used}}


def _record(value: Any, meaning: str) -> dict[str, Any]:
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    shape = ["rows" if not isinstance(size, int) else size for size in value.shape]
    return {"name": value.name, "type": kind, "shape": shape, "meaning": meaning}


def _table(title: str, records: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("name", "type", "shape", "meaning", title=title, title_justify="left", header_style="bold")
    for record in records:
        shape = " x ".join(map(str, record["shape"]))
        table.add_row(options.escaped(record["name"]), record["type"], shape, options.escaped(record["meaning"]))
    return table
