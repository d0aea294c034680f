"""The routes of the review queue: leases, answers, the summary and the page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from recuse.reviews import QueueUnavailable, ReviewConflict, ReviewNotFound, ReviewQueue
from recuse.reviews.queue import LEASE_SECONDS
from recuse.serving.bodies import parse_json
from recuse.serving.errors import RequestError
from recuse.serving.inline_page import inline_page

__all__ = ["router"]

router = APIRouter()

_STATUS: dict[type[Exception], int] = {ReviewNotFound: 404, ReviewConflict: 409, QueueUnavailable: 503}


def _described(needed: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Describe the body of a request, for OpenAPI."""
    schema = {"type": "object", "required": list(needed), "properties": {**needed, **(optional or {})}}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_ORDER = {"type": "string", "enum": ["saving", "age"]}
_VALUE = {"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]}


@router.get("/review", response_class=HTMLResponse)
async def review() -> Response:
    """Return the page of the reviewers; it has no rows in it."""
    body, headers = inline_page("review.html", "review.css", "review.js")
    return HTMLResponse(body, headers=headers)


@router.post("/reviews/lease", openapi_extra=_described({"reviewer": _TEXT}, {"order": _ORDER, "skipped": _FLAG}))
async def lease(request: Request) -> Response:
    """Give a row to a reviewer; 204 if no row is waiting."""
    body = await _body(request, {"reviewer": str}, {"order": str, "skipped": bool})
    queue = _queue(request)
    order, skipped = body.get("order", "saving"), body.get("skipped", False)
    item = await _call(lambda: queue.lease(body["reviewer"], order, skipped=skipped))
    counts = await _call(lambda: queue.progress(body["reviewer"].strip()))
    if item is None:
        return Response(status_code=204, headers={"X-Skipped": str(counts.skipped_by_you)})
    values = asdict(item)
    values["lease"] = values.pop("token")
    return _json({**values, "progress": asdict(counts)})


@router.post(
    "/reviews/{review}/answer", openapi_extra=_described({"lease": _TEXT, "value": _VALUE}, {"reviewer": _TEXT})
)
async def answer(request: Request, review: str) -> Response:
    """Take an answer; the response shows what the model predicted, and what its decision saved."""
    body = await _body(request, {"lease": str, "value": object}, {"reviewer": str})
    queue = _queue(request)
    outcome = await _call(lambda: queue.answer(review, body["lease"], body["value"]))
    counts = await _call(lambda: queue.progress(body.get("reviewer", "").strip()))
    return _json({**asdict(outcome), "progress": asdict(counts)})


@router.post("/reviews/{review}/release", openapi_extra=_described({"lease": _TEXT}, {"skip": _FLAG}))
async def release(request: Request, review: str) -> Response:
    """Give a row back; with `skip`, the reviewer does not get it again."""
    body = await _body(request, {"lease": str}, {"skip": bool})
    queue = _queue(request)
    await _call(lambda: queue.release(review, body["lease"], skip=body.get("skip", False)))
    return Response(status_code=204)


@router.post("/reviews/{review}/renew", openapi_extra=_described({"lease": _TEXT}))
async def renew(request: Request, review: str) -> Response:
    """Extend a lease."""
    body = await _body(request, {"lease": str}, {})
    queue = _queue(request)
    expires = await _call(lambda: queue.renew(review, body["lease"]))
    return _json({"expires": expires, "seconds": LEASE_SECONDS})


@router.get("/reviews/summary")
async def summary(request: Request) -> Response:
    """Return counts and estimates of the losses."""
    return _json(await _call(_queue(request).summary))


def _queue(request: Request) -> ReviewQueue:
    queue: ReviewQueue | None = request.app.state.queue
    if queue is None:
        raise RequestError(503, "the review queue is not open")
    return queue


async def _call(work: Callable[[], Any]) -> Any:
    """Run a method of the queue in a thread, and answer its errors with one sentence."""
    try:
        return await run_in_threadpool(work)
    except (ValueError, QueueUnavailable) as error:
        raise RequestError(_STATUS.get(type(error), 422), str(error)) from error


async def _body(request: Request, needed: dict[str, type], optional: dict[str, type]) -> dict[str, Any]:
    """Return the checked body of a request."""
    body = parse_json(await request.body())
    if not isinstance(body, dict):
        raise RequestError(422, f"the body must be an object with {', '.join(needed)}")
    for name, kind in {**needed, **optional}.items():
        if name not in body and name in needed:
            raise RequestError(422, f"the body must have {name!r}")
        if name in body and not isinstance(body[name], kind):
            raise RequestError(422, f"{name} must be of type {kind.__name__}, got {type(body[name]).__name__}")
    return body


def _json(values: Any) -> Response:
    return Response(json.dumps(_finite(values), allow_nan=False), media_type="application/json")


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by None."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
