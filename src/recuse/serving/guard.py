"""Limits of a request, as ASGI middleware: API key, size, time, number at once, and errors without row content."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recuse.serving.errors import RequestError, error_response
from recuse.serving.settings import Settings

__all__ = ["OPEN_PATHS", "Guard"]

OPEN_PATHS = frozenset({"/", "/review", "/health", "/ping", "/v2/health/live", "/v2/health/ready"})
_CLOSED_BY_CLIENT = 499  # as nginx counts them; nobody receives an answer

_log = logging.getLogger("recuse.serving")

Observer = Callable[[str, int, float], None]
Endpoint = Callable[[Request], Awaitable[Response]]


class Guard:
    """Refuses requests beyond the limits, and answers for those that fail.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
    observe : callable
        Is called at the end of each request with the path of its route, the status and the seconds.
    direct : mapping of (method, path) to endpoint
        Endpoints that are called without the router, which takes longer than a decision about one row.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, observe: Observer, direct: Mapping[tuple[str, str], Endpoint]
    ) -> None:
        self._app = app
        self._direct = direct
        self._settings = settings
        self._observe = observe
        self._key = None if settings.api_key is None else _digest(settings.api_key.encode())
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # as GET; the server sends no body
            scope = {**scope, "method": "GET"}
        started, exchange = perf_counter(), _Exchange(scope, receive, send, self._settings.max_bytes)
        try:
            await self._handle(scope, exchange)
        except ClientDisconnect:
            exchange.status = exchange.status or _CLOSED_BY_CLIENT
        except TimeoutError:
            await exchange.answer(504, f"the request took longer than {self._settings.timeout:g} seconds")
        except RequestError as error:
            await exchange.answer(error.status, error.sentence, error.headers)
        except Exception as error:
            _log.error("%s while answering %s\n%s", type(error).__name__, _route(scope), _places(error))
            await exchange.answer(500, "the service failed: its log says where")
        finally:
            self._observe(_route(scope), exchange.status, perf_counter() - started)

    async def _handle(self, scope: Scope, exchange: _Exchange) -> None:
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, exchange.receive, exchange.send)
            return
        self._check(scope["method"], Headers(scope=scope))
        self._at_work += 1
        try:
            async with asyncio.timeout(self._settings.timeout):
                endpoint = self._direct.get((scope["method"], scope["path"]))
                if endpoint is None:
                    await self._app(scope, exchange.receive, exchange.send)
                else:
                    scope["route"] = _Direct(scope["path"])
                    response = await endpoint(Request(scope, exchange.receive))
                    await response(scope, exchange.receive, exchange.send)
        finally:
            self._at_work -= 1

    def _check(self, method: str, headers: Headers) -> None:
        """Raise a RequestError for a request that is not to be read."""
        if method != "GET" and headers.get("sec-fetch-site") == "cross-site":  # browsers say so, and pages cannot
            raise RequestError(403, "a page of another site may not send requests to this service")
        if self._key is not None and not hmac.compare_digest(_digest(_given_key(headers)), self._key):
            rule = "the request needs the API key, in the header Authorization: Bearer KEY or X-API-Key: KEY"
            raise RequestError(401, rule, {"WWW-Authenticate": "Bearer"})
        if self._at_work >= self._settings.max_requests:
            raise RequestError(503, f"{self._at_work} requests are at work: try again soon", {"Retry-After": "1"})
        if headers.get("content-encoding", "identity") != "identity":
            raise RequestError(415, f"the body must not be compressed, got {headers['content-encoding']!r:.80}")
        length = headers.get("content-length", "0")
        if re.fullmatch("[0-9]{1,18}", length) is None or int(length) > self._settings.max_bytes:
            raise _too_large(self._settings.max_bytes)


class _Exchange:
    """The messages of one request: counts the bytes of the body, and notes the status of the answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_bytes: int) -> None:
        self._scope, self._receive, self._send, self._left, self._max = scope, receive, send, max_bytes, max_bytes
        self.status = 0  # no answer yet

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise _too_large(self._max)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def answer(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        """Answer with an error, unless an answer has begun."""
        if not self.status:
            await error_response(status, sentence, headers)(self._scope, self._receive, self.send)


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"the body of a request may have at most {most} bytes")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()  # digests have one length, so the comparison shows none


def _given_key(headers: Headers) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return given.encode("latin-1")  # the bytes of the header


class _Direct(NamedTuple):
    """A route without the router."""

    path: str


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", "unknown")


def _places(error: BaseException) -> str:
    """Return the lines of code of an error without its message, which may quote a row."""
    return "".join(traceback.format_tb(error.__traceback__)).rstrip()
