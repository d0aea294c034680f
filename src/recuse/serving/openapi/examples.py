"""Examples of requests, made from the columns of the models that are served."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from recuse.model_file.schema import ColumnSchema, ImageSchema
from recuse.serving.guard import OPEN_PATHS
from recuse.serving.model_store import LoadedModel

__all__ = ["describe_with_examples", "example_row"]


def describe_with_examples(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an application, with requests that its first model can decide about."""
    described: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    if app.state.settings.all_keys:
        _describe_key(described)
    if app.state.settings.rate_limit is None:
        for operation in (each for path in described["paths"].values() for each in path.values()):
            operation["responses"].pop("429", None)
    loaded = app.state.models.get()
    row = example_row(loaded)
    if not row:
        return described
    for path, values in _requests(row, _cost(loaded)).items():
        posted = described["paths"][path]["post"]
        content = posted["requestBody"]["content"]
        content["application/json"]["examples"] = {name: {"value": value} for name, value in values.items()}
        for parameter in posted.get("parameters", []):
            known = {"name": loaded.name, "model": loaded.name, "version": loaded.version}
            if parameter["name"] in known:
                parameter["example"] = known[parameter["name"]]
    text = ",".join(map(str, row)) + "\n" + ",".join(json.dumps(cell) for cell in row.values()) + "\n"
    described["paths"]["/invocations"]["post"]["requestBody"]["content"]["text/csv"]["example"] = text
    return described


def _describe_key(described: dict[str, Any]) -> None:
    """Say how requests send the API key, and which routes need none."""
    described.setdefault("components", {})["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    described["security"] = [{"bearer": []}, {"header": []}]
    for path in OPEN_PATHS & described["paths"].keys():
        described["paths"][path]["get"]["security"] = []


def _requests(row: dict[str, Any], cost: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Return bodies of requests by path and title."""
    params = {"params": cost} if cost else {}
    infer = {"inputs": _tensors(row), **({"parameters": cost} if cost else {})}
    return {
        "/predict": {
            "one row": {"row": row, **cost},
            "two rows": {"rows": [row, row], "ids": ["order 1", "order 2"], **cost},
        },
        "/invocations": {
            "dataframe_records": {"dataframe_records": [row], **params},
            "dataframe_split": {"dataframe_split": {"columns": list(row), "data": [list(row.values())]}, **params},
            "inputs": {"inputs": {name: [cell] for name, cell in row.items()}, **params},
        },
        "/v2/models/{name}/infer": {"one row": infer},
        "/v2/models/{name}/versions/{version}/infer": {"one row": infer},
    }


def _cost(loaded: LoadedModel) -> dict[str, float]:
    """Return a cost for a model that has none of its own."""
    if loaded.model.cost_ is not None:
        return {}
    return {"cost": 1.0 if loaded.model.cost_range_ is None else loaded.model.cost_range_[0]}


def example_row(loaded: LoadedModel) -> dict[str, Any]:
    """Return a row that a model can decide about, by the names of its columns in JSON; none for images."""
    schema = loaded.model.schema
    if isinstance(schema, ImageSchema):
        return {}
    row = {str(column.name): _example_cell(column) for column in schema.columns if column.kind != "unused"}
    return {**row, **({loaded.model.cost_: 1.0} if isinstance(loaded.model.cost_, str) else {})}


def _example_cell(column: ColumnSchema) -> Any:
    if column.kind == "category":
        return next((level.value for level in column.levels if level.seen and level.value is not None), None)
    if column.kind == "date":
        import numpy as np

        return str(np.datetime64(int(column.low or 0), "s"))
    middle = ((column.low or 0.0) + (column.high or 0.0)) / 2
    return float(f"{middle:.4g}")


def _tensors(row: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {bool: "BOOL", int: "INT64", float: "FP64"}
    return [
        {"name": name, "shape": [1], "datatype": kinds.get(type(cell), "BYTES"), "data": [cell]}
        for name, cell in row.items()
    ]
