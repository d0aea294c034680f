"""Inputs and outputs of a model as the Open Inference Protocol describes them."""

from __future__ import annotations

from typing import Any

from recuse.model_file.schema import ColumnSchema, ImageSchema
from recuse.serving.model_store import LoadedModel

__all__ = ["describe_tensors", "output_type", "outputs_of"]


def describe_tensors(loaded: LoadedModel) -> dict[str, Any]:
    """Describe the inputs and outputs of a model."""
    return {
        "name": loaded.name,
        "versions": [loaded.version],
        "platform": "recuse",
        "inputs": _inputs(loaded),
        "outputs": outputs_of(loaded),
    }


def output_type(output: str) -> str:
    """Return the datatype of an output.

    Examples
    --------
    >>> output_type("accepted"), output_type("score")
    ('BOOL', 'FP64')
    """
    return {"accepted": "BOOL", "problems": "BYTES"}.get(output, "FP64")


def outputs_of(loaded: LoadedModel) -> list[dict[str, Any]]:
    """Describe the tensors that a model returns."""
    info = loaded.model.info()
    count = info["targets"]["count"]
    names = ["prediction", "accepted", "score", "cost", *(["expected_loss"] if info["has_expected_loss"] else [])]
    if loaded.reads_rows:
        names.append("problems")
    shapes = {"prediction": [-1] if count == 1 else [-1, count]}
    return [{"name": name, "datatype": output_type(name), "shape": shapes.get(name, [-1])} for name in names]


def _inputs(loaded: LoadedModel) -> list[dict[str, Any]]:
    schema = loaded.model.schema
    if isinstance(schema, ImageSchema):
        return [{"name": "image", "datatype": "FP32", "shape": [-1, *schema.shape]}]
    if schema.matrix is not None:
        return [{"name": schema.matrix, "datatype": "FP64", "shape": [-1, len(schema.columns)]}]
    cost = (
        [{"name": loaded.model.cost_, "datatype": "FP64", "shape": [-1]}] if isinstance(loaded.model.cost_, str) else []
    )
    used = [column for column in schema.columns if column.kind != "unused"]
    return [*({"name": str(column.name), "datatype": _input_type(column), "shape": [-1]} for column in used), *cost]


def _input_type(column: ColumnSchema) -> str:
    if column.kind == "number":
        return "FP64"
    kinds = {type(level.value) for level in column.levels}
    return {bool: "BOOL", int: "INT64", float: "FP64"}.get(kinds.pop(), "BYTES") if len(kinds) == 1 else "BYTES"
