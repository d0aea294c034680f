"""Descriptions of the routes: what they take, and all that they can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Response

from recuse.serving.openapi.schemas import (
    CELL,
    CERTIFICATE,
    COST,
    DECISION,
    DESCRIPTION,
    OUTPUT,
    ROW,
    TENSOR,
    TENSOR_METADATA,
    TEXT,
    list_of,
    object_of,
)

__all__ = [
    "GUARDED",
    "HEALTH",
    "INFER",
    "INVOCATIONS",
    "LIVE",
    "METRICS",
    "MODEL",
    "MODELS",
    "MODEL_READY",
    "POSTED",
    "PREDICT",
    "READY",
    "SERVER",
    "VERSION",
    "error_answers",
    "json_answer",
    "json_body",
    "operation",
]

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


def error_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of errors by status."""
    schema = object_of({"error": {**TEXT, "description": "One sentence."}})
    return {status: json_answer(_ERRORS[status], schema) for status in statuses}


def json_answer(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of an answer in JSON."""
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}


def operation(summary: str, answer: Mapping[str, Any], *errors: int, **others: Any) -> dict[str, Any]:
    """Return the arguments of a route: its summary, its answers and, as `body`, the content of its request."""
    extra: dict[str, Any] = {}
    if "body" in others:
        extra["requestBody"] = {"required": True, "content": others["body"]}
    if "parameters" in others:
        extra["parameters"] = others["parameters"]
    responses = {200: dict(answer), **error_answers(*errors)}
    return {"summary": summary, "responses": responses, "openapi_extra": extra, "response_class": Response}


def _query(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": dict(schema)}


def json_body(*schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a request whose body is JSON of one of some schemas."""
    schema = dict(schemas[0]) if len(schemas) == 1 else {"anyOf": [dict(each) for each in schemas]}
    return {"application/json": {"schema": schema}}


def _text_answer(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"text/plain": {"schema": TEXT}}}


_OF_MODEL = _query("model", "Name of the model; by default the first.", TEXT)
_EXPLAIN = _query(
    "explain", "Whether to say why: what is new in the row, and its nearest training rows.", {"type": "boolean"}
)
_IDS = {
    "anyOf": [list_of(TEXT), {"type": "null"}],
    "description": "One key for each row; a row that is sent again with its key enters the review queue once.",
}
_RECORD = {"type": "boolean", "default": True, "description": "Whether the rows may go to the review queue."}
_LENIENT = "Whether to ignore unknown columns, and to decide about rows without any known column."
_FLAG = {"type": "boolean", "default": False}
_OPTIONS = {"cost": COST, "ids": _IDS, "record": _RECORD, "lenient": {**_FLAG, "description": _LENIENT}}
_ONE = object_of({"row": ROW, **_OPTIONS}, ["row"], **{"not": {"required": ["rows"]}})
_SEVERAL = object_of({"rows": list_of(ROW, minItems=1), **_OPTIONS}, ["rows"], **{"not": {"required": ["row"]}})

PREDICT = operation(
    "Decide about one row or several",
    json_answer(
        "One decision for each row.",
        object_of({"model": TEXT, "version": TEXT, "certificate": CERTIFICATE, "decisions": list_of(DECISION)}),
    ),
    *POSTED,
    body=json_body(_ONE, _SEVERAL),
    parameters=[_OF_MODEL, _EXPLAIN],
)
MODELS = operation("List the models", json_answer("The models, the default first.", list_of(DESCRIPTION)), *GUARDED)

_PARAMS = {"params": {"anyOf": [object_of({"cost": COST}, [], additionalProperties=False), {"type": "null"}]}}
_CELLS = list_of(list_of(CELL), minItems=1)
_SPLIT = object_of({"columns": list_of(CELL), "data": _CELLS, "index": {"type": "array"}}, ["data"])
INVOCATIONS = operation(
    "Decide about rows in a format of MLflow",
    json_answer(
        "One decision for each row.",
        object_of({"predictions": list_of(DECISION), "certificate": CERTIFICATE}, ["predictions"]),
    ),
    *POSTED,
    body={
        **json_body(
            object_of({"dataframe_split": _SPLIT, **_PARAMS}, ["dataframe_split"]),
            object_of({"dataframe_records": list_of(ROW, minItems=1), **_PARAMS}, ["dataframe_records"]),
            object_of({"instances": {"anyOf": [list_of(ROW, minItems=1), _CELLS]}, **_PARAMS}, ["instances"]),
            object_of(
                {"inputs": {"anyOf": [{"type": "object", "additionalProperties": list_of(CELL)}, _CELLS]}, **_PARAMS},
                ["inputs"],
            ),
        ),
        "text/csv": {"schema": TEXT},
    },
    parameters=[_OF_MODEL, _query("lenient", _LENIENT, _FLAG)],
)
HEALTH = operation("Say that the service is ready", _text_answer("The service is ready."))
VERSION = operation("Return the version of recuse", _text_answer("The version."), *GUARDED)
METRICS = operation("Return metrics for Prometheus", _text_answer("Metrics in the text format."), *GUARDED)

SERVER = operation(
    "Describe the service",
    json_answer(
        "Name, version and extensions.", object_of({"name": TEXT, "version": TEXT, "extensions": list_of(TEXT)})
    ),
    *GUARDED,
)
LIVE = operation("Say that the service is alive", json_answer("It is.", object_of({"live": {"type": "boolean"}})))
_IS_READY = object_of({"ready": {"type": "boolean"}})
READY = operation(
    "Say that all models can decide, and that the review queue can be written",
    json_answer("They can.", _IS_READY),
    503,
)
MODEL_READY = operation(
    "Say that a model can decide",
    json_answer("It can.", object_of({"name": TEXT, "ready": {"type": "boolean"}})),
    *(404, 422, *GUARDED),
)
MODEL = operation(
    "Describe the inputs and outputs of a model",
    json_answer(
        "Tensors by name.",
        object_of(
            {
                "name": TEXT,
                "versions": list_of(TEXT),
                "platform": TEXT,
                "inputs": list_of(TENSOR_METADATA),
                "outputs": list_of(TENSOR_METADATA),
            }
        ),
    ),
    *(404, 422, *GUARDED),
)
_INFERRED = json_answer(
    "The outputs.",
    object_of(
        {
            "model_name": TEXT,
            "model_version": TEXT,
            "id": TEXT,
            "parameters": object_of({"certificate": CERTIFICATE}),
            "outputs": list_of(OUTPUT),
        },
        ["model_name", "model_version", "outputs"],
    ),
)
INFER = operation(
    "Decide about rows in tensors",
    _INFERRED,
    *POSTED,
    body=json_body(
        object_of(
            {
                "id": TEXT,
                "parameters": {"type": "object"},
                "inputs": list_of(TENSOR, minItems=1),
                "outputs": list_of(object_of({"name": TEXT, "parameters": {"type": "object"}}, ["name"])),
            },
            ["inputs"],
        )
    ),
)
