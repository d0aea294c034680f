"""Descriptions of the routes of the review queue."""

from __future__ import annotations

from typing import Any

from recuse.serving.openapi.operations import GUARDED, POSTED, error_answers, json_answer, json_body, operation
from recuse.serving.openapi.schemas import MAYBE, NUMBER, ROW, TEXT, list_of, object_of

__all__ = ["ANSWER", "LEASE", "RELEASE", "RENEW", "SUMMARY"]

_CHANGES = (409, *POSTED)
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer"}
_SECONDS = {**NUMBER, "description": "Seconds since 1970."}
_REVIEWER = {
    **TEXT,
    "minLength": 1,
    "maxLength": 100,
    "pattern": r"\S",
    "description": "A key of a reviewer is used instead.",
}
_TOKEN = {**TEXT, "description": "The token of the lease."}
_VALUE = {"anyOf": [NUMBER, list_of(NUMBER)], "description": "A list if the model has several targets."}
_PROGRESS = object_of(
    {**dict.fromkeys(("waiting", "held", "answered", "answered_by_you", "skipped_by_you"), _COUNT), "saved": MAYBE}
)
_ESTIMATE = object_of({"value": MAYBE, "low": MAYBE, "high": MAYBE, "answers": _COUNT})


def _body(needed: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return json_body(object_of({**needed, **(optional or {})}, list(needed)))


LEASE = operation(
    "Give a row to a reviewer",
    json_answer(
        "A row, which nobody else gets until the lease ends.",
        object_of(
            {
                "id": TEXT,
                "lease": _TOKEN,
                "expires": _SECONDS,
                "seconds": NUMBER,
                "model": TEXT,
                "version": TEXT,
                "targets": {"anyOf": [list_of(TEXT), {"type": "null"}]},
                "target_count": _COUNT,
                "row": ROW,
                "recorded": _SECONDS,
                "reviewer": TEXT,
                "progress": _PROGRESS,
            }
        ),
    ),
    *_CHANGES,
    body=_body({"reviewer": _REVIEWER}, {"order": {"enum": ["saving", "age"]}, "skipped": _FLAG}),
)
LEASE["responses"][204] = {
    "description": "No row is waiting.",
    "headers": {"X-Skipped": {"description": "Number of waiting rows that the reviewer skipped.", "schema": _COUNT}},
}
ANSWER = operation(
    "Take the answer to a row",
    json_answer(
        "What the model predicted, and what its decision saved.",
        object_of(
            {
                "id": TEXT,
                "answer": list_of(NUMBER),
                "prediction": list_of(NUMBER),
                "loss": NUMBER,
                "cost": NUMBER,
                "rejected": _FLAG,
                "expected_loss": MAYBE,
                "saved": NUMBER,
                "progress": _PROGRESS,
            }
        ),
    ),
    *_CHANGES,
    body=_body({"lease": _TOKEN, "value": _VALUE}, {"reviewer": TEXT}),
)
RELEASE = {
    **operation("Give a row back", {}, *_CHANGES, body=_body({"lease": _TOKEN}, {"skip": _FLAG})),
    "status_code": 204,
    "responses": {204: {"description": "The row waits again."}, **error_answers(*_CHANGES)},
}
RENEW = operation(
    "Extend a lease",
    json_answer("The new end of the lease.", object_of({"expires": _SECONDS, "seconds": NUMBER})),
    *_CHANGES,
    body=_body({"lease": _TOKEN}),
)
SUMMARY = operation(
    "Return counts of the queue and estimates of the losses",
    json_answer(
        "Estimates have 95% intervals.",
        object_of(
            {
                **dict.fromkeys(("waiting", "held", "answered"), _COUNT),
                "models": list_of(
                    object_of(
                        {
                            "name": TEXT,
                            "versions": list_of(TEXT),
                            "loss": TEXT,
                            **dict.fromkeys(("accepted", "rejected"), _COUNT),
                            "audits": object_of({"drawn": _COUNT, "answered": _COUNT}),
                            "rejections": object_of({"recorded": _COUNT, "answered": _COUNT}),
                            "estimates": {"type": "object", "additionalProperties": _ESTIMATE},
                            "notes": list_of(TEXT),
                        }
                    )
                ),
            }
        ),
    ),
    *GUARDED,
)
