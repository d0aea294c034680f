"""The connections of the service: uvicorn's HTTP protocol with limits of size, time and number."""

from __future__ import annotations

import logging
import math
from asyncio import BaseTransport, TimerHandle
from enum import Enum
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from recuse.serving.messages import DEFAULT_HEADERS, error_response
from recuse.serving.settings import Settings

_HEADER_FRAME = 4  # bytes of ": " and of the line break
_MOST_FRAMING = 10  # bytes around one byte of a chunked body; a chunk of one byte has six
_ANSWER_SECONDS = 2.0  # time to send the answer that a request took too long
_CLOSING_SECONDS = 5.0  # a client may take the rest of an answer so long after the service has closed the connection


class _Stage(Enum):
    """How much of a request has come."""

    WAITING = "nothing"
    HEAD = "a part of the head"
    BODY = "the head"
    COMPLETE = "all"


_WAITING, _HEAD, _BODY, _COMPLETE = _Stage  # names of modules are found faster than members


class LimitedProtocol(HttpToolsProtocol):
    """One connection of uvicorn that is closed if its client sends too much, or takes too long.

    uvicorn limits neither the size of the head nor the time in which a request must come. All limits here are checked
    before the application sees anything of the request. A timer is set once for each connection and moved on when it
    fires, so that a request costs two readings of the loop's clock.

    Parameters
    ----------
    settings : Settings
        Bytes of a head, seconds for a head and for a request, and the number of open connections. At the limit, the
        oldest one without a request at work is closed for a new one.
    **uvicorn
        The arguments of uvicorn's protocol.
    """

    def __init__(self, settings: Settings, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.logger = logging.getLogger(__name__)
        self._settings = settings
        self._message_seconds = settings.timeout + _ANSWER_SECONDS  # for the body, and again for the answer
        self._stage = _WAITING
        self._head_received = self._head_parsed = self._body_parsed = self._body_received = 0
        self._begun = 0  # requests in the bytes that came last
        self._refused = False
        self._lost = False
        self._deadline = math.inf
        self._timer: TimerHandle | None = None
        self.opened = self.loop.time()

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: BaseTransport) -> None:
        """Start to wait for a request, if there is room for the connection."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._expect(self._settings.head_timeout)
        if len(self.connections) > self._settings.max_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, unless it is more than the limits allow."""
        if self._refused or self._lost:
            return
        before, self._begun = self._stage, 0
        if before is _HEAD:
            self._head_received += len(data)  # the parser reports a header when it has all of it
        elif before is _BODY:
            self._body_received += len(data)
        if self._head_received <= self._settings.max_head_bytes:
            super().data_received(data)
        if self._begun == 1 and self._stage is _HEAD and before is not _HEAD and before is not _BODY:
            self._head_received = len(data)  # all of it belongs to this head
        self._check_limits(before)

    def _check_limits(self, before: _Stage) -> None:
        """Close the connection after too many bytes; otherwise set the time for the rest if a new stage was reached."""
        if self._refused or self._head_received > self._settings.max_head_bytes:
            self._refused = True
            self._answer(431, f"the head of a request may have at most {self._settings.max_head_bytes} bytes")
            self._close("head", "a request with too large a head")
        elif self._body_received > self._settings.max_head_bytes + _MOST_FRAMING * self._body_parsed:
            self._close("framing", "a body with too much framing")
        elif self._stage is not before or self._stage is _COMPLETE:
            # the rest of the head, or the body and the answer; after stray bytes, a request
            waits_for_head = self._stage is _HEAD or (self._stage is _COMPLETE and self._answered)
            self._expect(self._settings.head_timeout if waits_for_head else self._message_seconds)

    def on_message_begin(self) -> None:
        """Start a request."""
        self._stage = _HEAD
        self._begun += 1
        self._head_received = self._head_parsed = self._body_parsed = self._body_received = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count and keep a part of the request line."""
        self._head_parsed += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count and keep a header; those after a chunked body are left out."""
        if self._stage is _HEAD and not self._refused:
            self._head_parsed += len(name) + len(value) + _HEADER_FRAME
            if self._head_parsed > self._settings.max_head_bytes:
                self._refused = True
            else:
                super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request to the application."""
        self._stage = _BODY
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count and keep a part of the body."""
        self._body_parsed += len(body)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._stage = _COMPLETE
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Give the next request of a pipeline its own time."""
        if self.pipeline:
            self._deadline = self.loop.time() + self._message_seconds
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer to bytes that are not HTTP, and close the connection."""
        self._answer(400, "the request must be HTTP/1.1")
        self.app_state["refusals"].note("protocol", "closed a connection that sent no HTTP", self.client)
        self.transport.close()

    def _expect(self, seconds: float) -> None:
        """Close the connection after some seconds, unless what is awaited has come."""
        self._deadline = self.loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._lost:
            return
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._check_deadline)
        elif self.transport.is_closing():
            self.transport.abort()  # the client does not take the rest of the answer
        elif self._stage is _HEAD and not self._answered:
            self._expect(self._settings.head_timeout)  # the request before it is at work, so nothing is read
        elif self._stage is not _COMPLETE or not self._answered:  # uvicorn closes connections without a request
            self._time_out()

    def _time_out(self) -> None:
        if self._answered and self._stage in (_WAITING, _HEAD):
            self._answer(408, f"the head of a request must come within {self._settings.head_timeout:g} seconds")
        self._close("unfinished", "a request that was not sent or an answer that was not taken in time")

    def _make_room(self) -> None:
        """Close the oldest connection without a request at work; if there is none, this one."""
        ours = [each for each in self.connections if isinstance(each, LimitedProtocol)]
        idle = [each for each in ours if each._stage is not _COMPLETE or each._answered]
        oldest = min(idle, key=lambda each: each.opened, default=self)
        if oldest is self:
            self._answer(503, f"{len(self.connections) - 1} connections are open: try again soon")
        oldest._close("connections", "a connection, to make room for another")

    def _answer(self, status: int, sentence: str) -> None:
        """Answer with an error before the application has seen a request."""
        response = error_response(status, sentence, {"Connection": "close"})
        head = b"".join(b"%s: %s\r\n" % pair for pair in (*response.raw_headers, *DEFAULT_HEADERS))
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(response.body))

    def _close(self, reason: str, what: str) -> None:
        """Close the connection, and count and log why."""
        self._refused = True
        self.app_state["refusals"].note(reason, f"closed {what}", self.client)
        self.connections.discard(self)
        self.transport.close()
        self._expect(_CLOSING_SECONDS)
