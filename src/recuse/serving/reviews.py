"""The routes of the review queue, and whether it can be written."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, get_type_hints

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from recuse.reviews import QueueUnavailable, ReviewConflict, ReviewNotFound, ReviewQueue
from recuse.reviews.queue import LEASE_SECONDS
from recuse.reviews.results import QueueSummary
from recuse.serving import messages
from recuse.serving.access import Role
from recuse.serving.bodies import parse_json
from recuse.serving.messages import RequestError, json_response, shown
from recuse.serving.openapi import CHANGED, GUARDED, operation
from recuse.serving.pages import inline_page

_FRESH_SECONDS = 0.5  # a write that is not older need not be repeated: anybody may ask whether the service is ready
_STATUS: dict[type[Exception], int] = {ReviewNotFound: 404, ReviewConflict: 409, QueueUnavailable: 503}
_KINDS: dict[Any, str] = {str: "a text", bool: "true or false"}
# The event loop reads the bodies of the queue's routes, so they are short; an answer is one number.
_MOST_BYTES = 2**16
_SKIPPED = {"description": "Number of waiting rows that the reviewer skipped.", "schema": {"type": "integer"}}
_NO_ROW = {"description": "No row is waiting.", "headers": {"X-Skipped": _SKIPPED}}

_log = logging.getLogger("recuse.serving")

router = APIRouter()


class QueueState:
    """The state of the review queue: what its last use has shown.

    Parameters
    ----------
    queue : ReviewQueue
    """

    def __init__(self, queue: ReviewQueue) -> None:
        self._queue = queue
        self._problem: str | None = None
        self._written = -_FRESH_SECONDS

    @contextmanager
    def used(self, *, writes: bool) -> Iterator[None]:
        """Note whether a use of the queue fails because of its file, and if it writes, whether it succeeds."""
        try:
            yield
        except QueueUnavailable as error:
            self._note(str(error))
            raise
        if writes:
            self._note(None)

    async def is_ready(self) -> bool:
        """Return whether the queue can be written, after a look at its file and a write that changes nothing."""
        try:
            with self.used(writes=self._problem is not None):
                self._queue.check_file()
                if self._problem is not None or time.monotonic() - self._written > _FRESH_SECONDS:
                    await self._queue.check_write()
                    self._written = time.monotonic()
        except QueueUnavailable:
            return False
        return True

    def _note(self, problem: str | None) -> None:
        """Log a change of the state, once."""
        if problem is not None and self._problem is None:
            _log.error("%s; rows for review get status 503, and the service is not ready", problem)
        if problem is None and self._problem is not None:
            _log.warning("the review queue can be used again")
        self._problem = problem


@router.get("/review", include_in_schema=False)
async def review() -> Response:
    """Return the page of the reviewers; it has no rows in it."""
    return inline_page("review.html", "review.css", "elements.js", "review.js")


@router.post(
    "/reviews/lease", **operation(messages.LeaseAnswer, *CHANGED, body=messages.LeaseRequest, others={204: _NO_ROW})
)
async def lease(request: Request) -> Response:
    """Give a row to a reviewer; 204 if no row is waiting."""
    name = _name_of_key(request)
    body = await _body(request, messages.LeaseRequest, {} if name is None else {"reviewer": name})
    reviewer, order, skipped = body["reviewer"].strip(), body.get("order", "saving"), body.get("skipped", False)
    item = await _call(request, lambda queue: queue.lease(body["reviewer"], order, skipped=skipped))
    counts = await _call(request, lambda queue: queue.progress(reviewer))
    if item is None:
        return Response(status_code=204, headers={"X-Skipped": str(counts.skipped_by_you)})
    values = {**asdict(item), "reviewer": reviewer, "progress": asdict(counts)}
    values["lease"] = values.pop("token")
    return json_response(values)


@router.post("/reviews/{review}/answer", **operation(messages.ReviewAnswer, *CHANGED, body=messages.ReviewRequest))
async def answer(request: Request, review: str) -> Response:
    """Take an answer; the response shows what the model predicted, and what its decision saved."""
    body = await _body(request, messages.ReviewRequest)
    reviewer = _name_of_key(request) or body.get("reviewer", "").strip()
    outcome = await _call(request, lambda queue: queue.answer(review, body["lease"], body["value"]))
    counts = await _call(request, lambda queue: queue.progress(reviewer))
    return json_response(asdict(messages.ReviewAnswer(**vars(outcome), progress=counts)))


@router.post(
    "/reviews/{review}/release",
    status_code=204,
    **operation(None, *CHANGED, body=messages.ReleaseRequest, others={204: {"description": "The row waits again."}}),
)
async def release(request: Request, review: str) -> Response:
    """Give a row back; with `skip`, the reviewer does not get it again."""
    body = await _body(request, messages.ReleaseRequest)
    await _call(request, lambda queue: queue.release(review, body["lease"], skip=body.get("skip", False)))
    return Response(status_code=204)


@router.post("/reviews/{review}/renew", **operation(messages.RenewAnswer, *CHANGED, body=messages.RenewRequest))
async def renew(request: Request, review: str) -> Response:
    """Extend a lease."""
    body = await _body(request, messages.RenewRequest)
    expires = await _call(request, lambda queue: queue.renew(review, body["lease"]))
    return json_response(messages.RenewAnswer(expires=expires, seconds=LEASE_SECONDS))


@router.get("/reviews/summary", **operation(QueueSummary, *GUARDED))
async def summary(request: Request) -> Response:
    """Return counts of the queue and estimates of the losses."""
    return json_response(await _call(request, ReviewQueue.summary))


def _name_of_key(request: Request) -> str | None:
    """Return the name of the reviewer to whom the key of a request belongs, if it belongs to one."""
    key = request.state.key
    return str(key.name) if key is not None and key.role is Role.REVIEW else None


async def _call(request: Request, work: Callable[[ReviewQueue], Any]) -> Any:
    """Run a method of the queue in a thread, and answer its errors with one sentence."""
    queue: ReviewQueue | None = request.app.state.queue
    if queue is None:
        raise RequestError(503, "the review queue is not open")
    try:
        with request.app.state.queue_state.used(writes=False):  # some only read
            return await run_in_threadpool(work, queue)
    except (ValueError, OSError) as error:
        status = 503 if isinstance(error, OSError) else 422
        raise RequestError(_STATUS.get(type(error), status), str(error)) from error


async def _body(request: Request, kind: Any, known: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the body of a request if it has the texts and truth values of its type; `known` ones replace its own."""
    hints = get_type_hints(kind)
    needed = [name for name in hints if name in kind.__required_keys__]
    text = request.state.body
    if len(text) > _MOST_BYTES:
        raise RequestError(413, f"the body may have at most {_MOST_BYTES} bytes, got {len(text)}", reason="size")
    body = parse_json(text)
    if not isinstance(body, dict):
        raise RequestError(422, f"the body must be an object with {', '.join(needed)}")
    body |= known or {}
    for name, hint in hints.items():
        if name not in body and name in needed:
            raise RequestError(422, f"the body must have {name!r}")
        if name in body and hint in _KINDS and not isinstance(body[name], hint):
            raise RequestError(422, f"{name} must be {_KINDS[hint]}, got {shown(body[name])}")
    return body
