"""The OpenAPI description of the service: schemas from the types of its messages, and examples of its first model."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, get_args

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from recuse.model_file.schema import ImageSchema, example_row
from recuse.reviews.results import QueueSummary
from recuse.serving import messages
from recuse.serving.guard import OPEN_PATHS
from recuse.serving.model_store import LoadedModel

_ERRORS = {
    400: "The body cannot be parsed.",
    401: "The key is missing or wrong.",
    403: "The request comes from a page of another site, or its host or key is not that of such a request.",
    404: "There is no such model, version or review.",
    409: "Somebody else has changed it meanwhile.",
    413: "The body is too large, or has too many rows or cells.",
    415: "The body has a content type or encoding that is not supported.",
    422: "The body does not have what the route needs, or rows or costs cannot be decided about.",
    429: "More requests per second than one key or address may send.",
    503: "Too many requests are at work, or the review queue cannot be written.",
    504: "The request took too long.",
}
GUARDED = (401, 403, 413, 415, 429, 503, 504)  # what the limits answer on all routes but those of health
POSTED = (400, 404, 422, *GUARDED)
CHANGED = (409, *POSTED)
_SCHEMAS = "#/components/schemas/"
_TEXT = {"schema": {"type": "string"}}


def operation(
    answer: Any = None,
    *errors: int,
    body: type | None = None,
    query: type | None = None,
    others: dict[int, Any] | None = None,
) -> dict[str, Any]:
    """Return the arguments of a route that describe what it takes and answers.

    Parameters
    ----------
    answer : type, optional
        What the route answers: a type of `messages`, a list of one, or `str` for plain text.
    *errors : int
        Statuses of the errors that it can answer.
    body : type, optional
        The body of a request, a type of `messages`.
    query : type, optional
        Parameters in the address, a type of `messages`; none of them is required.
    others : dict, optional
        Further answers by status, as OpenAPI has them.
    """
    responses: dict[int, Any] = {} if answer is None else {200: {"description": "OK", "content": _content(answer)}}
    responses |= others or {}
    responses |= {
        status: {"description": _ERRORS[status], "content": _content(messages.ErrorAnswer)} for status in errors
    }
    extra: dict[str, Any] = {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": _content(body)}
    if query is not None:
        schemas = TypeAdapter(query).json_schema()["properties"]
        extra["parameters"] = [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]
    return {"responses": responses, "openapi_extra": extra, "response_class": Response}


def _content(kind: Any) -> dict[str, Any]:
    if kind is str:
        return {"text/plain": _TEXT}
    (item,) = get_args(kind) or (kind,)
    schema = {"$ref": _SCHEMAS + item.__name__}
    return {"application/json": {"schema": schema if item is kind else {"type": "array", "items": schema}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an application, with requests that its first model can decide about."""
    described: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    described["components"] = {"schemas": _schemas()}
    for each in (operation for path in described["paths"].values() for operation in path.values()):
        each["summary"] = each.pop("description").rstrip(".")  # the docstring
        if app.state.settings.rate_limit is None:
            each["responses"].pop("429", None)
    if app.state.settings.all_keys:
        _describe_key(described)
    _add_examples(described["paths"], app.state.models.get())
    return described


@cache
def _schemas() -> dict[str, Any]:
    """Return the schemas of all messages by name."""
    kinds = [QueueSummary, messages.ReviewAnswer, *(kind for kind in vars(messages).values() if is_typeddict(kind))]
    adapters: Any = [(kind, "serialization", TypeAdapter(kind)) for kind in kinds]
    schemas: dict[str, Any] = TypeAdapter.json_schemas(adapters, ref_template=_SCHEMAS + "{model}")[1]["$defs"]
    return schemas


def _describe_key(described: dict[str, Any]) -> None:
    """Say how requests send the API key, and which routes need none."""
    described["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    described["security"] = [{"bearer": []}, {"header": []}]
    for path in OPEN_PATHS & described["paths"].keys():
        described["paths"][path]["get"]["security"] = []


def _add_examples(paths: dict[str, Any], loaded: LoadedModel) -> None:
    """Add requests that a model can decide about; there are none for images."""
    if isinstance(loaded.model.schema, ImageSchema):
        return
    row, cost = example_row(loaded.model), _cost(loaded)
    for path, values in _requests(row, cost).items():
        posted = paths[path]["post"]
        posted["requestBody"]["content"]["application/json"]["examples"] = {
            name: {"value": value} for name, value in values.items()
        }
        known = {"name": loaded.name, "model": loaded.name, "version": loaded.version}
        for parameter in posted.get("parameters", []):
            if parameter["name"] in known:
                parameter["example"] = known[parameter["name"]]
    text = ",".join(row) + "\n" + ",".join(json.dumps(cell) for cell in row.values()) + "\n"
    paths["/invocations"]["post"]["requestBody"]["content"]["text/csv"] = {**_TEXT, "example": text}


def _requests(row: dict[str, Any], cost: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Return bodies of requests by path and title."""
    params = {"params": cost} if cost else {}
    infer = {"inputs": [_tensor(*cell) for cell in row.items()], **({"parameters": cost} if cost else {})}
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
    if loaded.model.cost_ is not None or loaded.model.experts:
        return {}
    return {"cost": 1.0 if loaded.model.cost_range_ is None else loaded.model.cost_range_[0]}


def _tensor(name: str, cell: Any) -> dict[str, Any]:
    kinds = {bool: "BOOL", int: "INT64", float: "FP64"}
    return {"name": name, "shape": [1], "datatype": kinds.get(type(cell), "BYTES"), "data": [cell]}
