"""JSON schemas of what requests and answers hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "CELL",
    "CERTIFICATE",
    "COLUMN",
    "COST",
    "DECISION",
    "DESCRIPTION",
    "MAYBE",
    "NUMBER",
    "OUTPUT",
    "ROW",
    "TENSOR",
    "TENSOR_METADATA",
    "TEXT",
    "list_of",
    "object_of",
]

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
MAYBE: dict[str, Any] = {"type": ["number", "null"]}
CELL: dict[str, Any] = {"type": ["number", "string", "boolean", "null"]}
ROW: dict[str, Any] = {"type": "object", "additionalProperties": CELL}
COST: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
        {"type": "null"},
    ],
    "description": "Cost of a rejection, one for all rows or one for each; by default that of the model.",
}


def object_of(properties: Mapping[str, Any], required: list[str] | None = None, **others: Any) -> dict[str, Any]:
    """Return the schema of an object; by default all its properties are required.

    Examples
    --------
    >>> object_of({"live": {"type": "boolean"}})["required"]
    ['live']
    """
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": dict(properties), "required": needed, **others}


def list_of(items: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """Return the schema of a list.

    Examples
    --------
    >>> list_of({"type": "string"})
    {'type': 'array', 'items': {'type': 'string'}}
    """
    return {"type": "array", "items": dict(items), **others}


DECISION = object_of(
    {
        "prediction": {"anyOf": [MAYBE, list_of(MAYBE)], "description": "A list if the model has several targets."},
        "accepted": {"type": "boolean", "description": "Whether to use the prediction; if not, ask a person."},
        "score": MAYBE,
        "cost": NUMBER,
        "expected_loss": MAYBE,
        "expected_saving": {**MAYBE, "description": "What the decision saves against the other one."},
        "problems": list_of(
            object_of({"column": TEXT, "problem": TEXT}),
            description="What is unlike training in the row: missing cells, new categories, numbers outside the range.",
        ),
        "review": {"type": ["string", "null"], "description": "Identifier of the row in the review queue."},
    }
)
COLUMN = object_of(
    {
        "name": TEXT,
        "kind": {"enum": ["number", "date", "category"]},
        "had_missing": {"type": "boolean"},
        "levels": list_of(CELL),
        "low": MAYBE,
        "high": MAYBE,
    },
    ["name", "kind", "had_missing"],
)
CERTIFICATE = {
    "type": ["integer", "null"],
    "description": "Number of the certificate at whose threshold rows are accepted; null without one.",
}
_CERTIFICATES = list_of(
    object_of(
        {
            "number": {"type": "integer", "minimum": 1},
            "statement": TEXT,
            "what": {"enum": ["accepted_loss", "rcr_loss"]},
            **dict.fromkeys(("target", "delta", "threshold"), NUMBER),
            "cost": {"type": ["number", "string", "null"]},
        }
    )
)
DESCRIPTION = object_of(
    {
        "name": TEXT,
        "version": TEXT,
        "estimator": TEXT,
        "cost": {"type": ["number", "string", "null"]},
        "serves_any_cost": {"type": "boolean"},
        "cost_range": {"anyOf": [list_of(NUMBER), {"type": "null"}]},
        "has_expected_loss": {"type": "boolean"},
        "loss": TEXT,
        "targets": list_of(TEXT),
        "columns": list_of(COLUMN),
        "training_rows": {"type": "boolean"},
        "certificates": _CERTIFICATES,
        "certificate": CERTIFICATE,
        "review_queue": {"type": "boolean"},
    }
)
TENSOR = object_of(
    {
        "name": TEXT,
        "shape": list_of({"type": "integer", "minimum": 1}, minItems=1, maxItems=8),
        "datatype": {
            "enum": [
                *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
                *("FP16", "FP32", "FP64", "BYTES"),
            ]
        },
        "parameters": {"type": "object"},
        "data": {"type": "array"},
    },
    ["name", "shape", "datatype"],
)
TENSOR_METADATA = object_of({"name": TEXT, "datatype": TEXT, "shape": list_of({"type": "integer"})})
OUTPUT = object_of(
    {
        "name": TEXT,
        "shape": list_of({"type": "integer"}),
        "datatype": TEXT,
        "parameters": {"type": "object"},
        "data": {"type": "array"},
    },
    ["name", "shape", "datatype"],
)
