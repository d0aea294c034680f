"""The routes of the review queue: leases, answers, the summary and the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from recuse.reviews import QueueUnavailable, ReviewConflict, ReviewNotFound, ReviewQueue
from recuse.reviews.queue import LEASE_SECONDS
from recuse.serving.access import Role
from recuse.serving.errors import RequestError, shown
from recuse.serving.inline_page import inline_page
from recuse.serving.openapi import review_operations as operations
from recuse.serving.payloads.parsing import parse_json
from recuse.serving.payloads.records import finite_values, json_response

__all__ = ["router"]

router = APIRouter()

_STATUS: dict[type[Exception], int] = {ReviewNotFound: 404, ReviewConflict: 409, QueueUnavailable: 503}
_KINDS = {str: "a text", bool: "true or false"}


@router.get("/review", include_in_schema=False)
async def review() -> Response:
    """Return the page of the reviewers; it has no rows in it."""
    body, headers = inline_page("review.html", "review.css", "elements.js", "review.js")
    return Response(body, headers=headers, media_type="text/html")


@router.post("/reviews/lease", **operations.LEASE)
async def lease(request: Request) -> Response:
    """Give a row to a reviewer; 204 if no row is waiting."""
    name = _name_of_key(request)
    needed: dict[str, type] = {"reviewer": str} if name is None else {}
    body = await _body(request, needed, {"order": str, "skipped": bool})
    queue, reviewer = _queue(request), name or body["reviewer"]
    order, skipped = body.get("order", "saving"), body.get("skipped", False)
    item = await _call(request, lambda: queue.lease(reviewer, order, skipped=skipped))
    counts = await _call(request, lambda: queue.progress(reviewer.strip()))
    if item is None:
        return Response(status_code=204, headers={"X-Skipped": str(counts.skipped_by_you)})
    values = asdict(item)
    values["lease"] = values.pop("token")
    return json_response(finite_values({**values, "reviewer": reviewer.strip(), "progress": asdict(counts)}))


@router.post("/reviews/{review}/answer", **operations.ANSWER)
async def answer(request: Request, review: str) -> Response:
    """Take an answer; the response shows what the model predicted, and what its decision saved."""
    body = await _body(request, {"lease": str, "value": object}, {"reviewer": str})
    queue, reviewer = _queue(request), _name_of_key(request) or body.get("reviewer", "").strip()
    outcome = await _call(request, lambda: queue.answer(review, body["lease"], body["value"]))
    counts = await _call(request, lambda: queue.progress(reviewer))
    return json_response(finite_values({**asdict(outcome), "progress": asdict(counts)}))


@router.post("/reviews/{review}/release", **operations.RELEASE)
async def release(request: Request, review: str) -> Response:
    """Give a row back; with `skip`, the reviewer does not get it again."""
    body = await _body(request, {"lease": str}, {"skip": bool})
    queue = _queue(request)
    await _call(request, lambda: queue.release(review, body["lease"], skip=body.get("skip", False)))
    return Response(status_code=204)


@router.post("/reviews/{review}/renew", **operations.RENEW)
async def renew(request: Request, review: str) -> Response:
    """Extend a lease."""
    body = await _body(request, {"lease": str}, {})
    queue = _queue(request)
    expires = await _call(request, lambda: queue.renew(review, body["lease"]))
    return json_response({"expires": expires, "seconds": LEASE_SECONDS})


@router.get("/reviews/summary", **operations.SUMMARY)
async def summary(request: Request) -> Response:
    """Return counts and estimates of the losses."""
    return json_response(await _call(request, _queue(request).summary))


def _queue(request: Request) -> ReviewQueue:
    queue: ReviewQueue | None = request.app.state.queue
    if queue is None:
        raise RequestError(503, "the review queue is not open")
    return queue


def _name_of_key(request: Request) -> str | None:
    """Return the name of the reviewer to whom the key of a request belongs, if it belongs to one."""
    key = request.state.key
    return str(key.name) if key is not None and key.role is Role.REVIEW else None


async def _call(request: Request, work: Callable[[], Any]) -> Any:
    """Run a method of the queue in a thread, and answer its errors with one sentence."""
    try:
        async with request.app.state.queue_state.used(writes=False):  # some only read
            return await run_in_threadpool(work)
    except (ValueError, OSError) as error:
        status = 503 if isinstance(error, OSError) else 422
        raise RequestError(_STATUS.get(type(error), status), str(error)) from error


async def _body(request: Request, needed: dict[str, type], optional: dict[str, type]) -> dict[str, Any]:
    """Return the checked body of a request."""
    body = parse_json(await request.body())
    if not isinstance(body, dict):
        raise RequestError(422, f"the body must be an object with {', '.join(needed)}")
    for name, kind in {**needed, **optional}.items():
        if name not in body and name in needed:
            raise RequestError(422, f"the body must have {name!r}")
        if name in body and not isinstance(body[name], kind):
            raise RequestError(422, f"{name} must be {_KINDS[kind]}, got {shown(body[name])}")
    return body
