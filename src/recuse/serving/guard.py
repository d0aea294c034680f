"""Limits of a request round the application: keys, sites, size, time and number at once; errors show no rows."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic, perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recuse.serving.access import Key, RateLimit, digest, host_is_allowed, is_other_site, role_for
from recuse.serving.messages import DEFAULT_HEADERS, RequestError, error_response
from recuse.serving.settings import Settings

HEALTH_PATHS = frozenset({"/health", "/ping", "/v2/health/live", "/v2/health/ready"})
OPEN_PATHS = HEALTH_PATHS | {"/", "/review"}  # they need no key
_CLOSED_BY_CLIENT = 499  # as nginx counts them; nobody receives an answer
_BODIES_AT_ONCE = 4  # bodies of the largest size that may be held together
_LENGTH = re.compile("[0-9]{1,18}")
_QUIET_SECONDS = 10.0  # time between two lines of the log about one reason

_log = logging.getLogger("recuse.serving")


class Refusals:
    """Counts of refusals by reason.

    The first refusal of a reason is logged at once. Further ones are counted for ten seconds, so that an attack cannot
    fill the log.

    Parameters
    ----------
    registry : CollectorRegistry
    clock : callable
        Returns seconds.

    Examples
    --------
    >>> refusals = Refusals(CollectorRegistry())
    >>> refusals.note("key", "refused a request without a valid key", ("127.0.0.1", 4711))
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = monotonic) -> None:
        self._counter = Counter("recuse_refused", "Refused requests and connections.", ["reason"], registry=registry)
        self._clock = clock
        self._quiet_until: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def note(self, reason: str, sentence: str, client: Sequence[object] | None) -> None:
        """Count a refusal, and log it unless one of the same reason was logged a moment ago.

        Parameters
        ----------
        reason : str
            Label of the counter, one of few.
        sentence : str
            What was done, without anything of the request.
        client : tuple of host and port, or None
        """
        self._counter.labels(reason).inc()
        now = self._clock()
        if now < self._quiet_until.get(reason, now):
            self._unsaid[reason] = self._unsaid.get(reason, 0) + 1
            return
        self._quiet_until[reason] = now + _QUIET_SECONDS
        unsaid = self._unsaid.pop(reason, 0)
        more = f", and {unsaid} times since the last such line" if unsaid else ""
        _log.warning("%s from %s%s", sentence, client[0] if client else "an unknown address", more)


class Guard:
    """Refuses requests beyond the limits, reads bodies, and answers for requests that fail.

    `request.state` has the `key` of a request that is let through, or None if the service has no keys, and its `body`.

    Parameters
    ----------
    app : ASGI application
        Errors of its routes pass through it.
    settings : Settings
    observe : callable
        Is called at the end of each request with the path of its route, the status and the seconds.
    refusals : Refusals
    direct : mapping of (method, path) to endpoint
        Endpoints that are called without the router, which takes longer than a decision about one row.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        observe: Callable[[str, int, float], None],
        refusals: Refusals,
        direct: Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]],
    ) -> None:
        self._app = app
        self._direct = direct
        self._settings = settings
        self._observe = observe
        self._refusals = refusals
        self._keys = {key.digest: key for key in settings.all_keys}
        self._rates = None if settings.rate_limit is None else RateLimit(settings.rate_limit)
        self._at_work = 0
        self._held = 0  # bytes of the bodies of the requests at work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["method"] == "HEAD":  # as GET; the server sends no body
            scope = {**scope, "method": "GET"}
        started, status = perf_counter(), 0  # no answer yet

        async def send_with_defaults(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _with_defaults(message["headers"])}
            await send(message)

        try:
            await self._handle(scope, receive, send_with_defaults)
        except ClientDisconnect:
            status = status or _CLOSED_BY_CLIENT
        except Exception as error:
            answer = self._error_answer(scope, error)
            if not status:
                await answer(scope, receive, send_with_defaults)
        finally:
            self._observe(_route(scope), status, perf_counter() - started)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        self._check_sender(method, headers)
        if path in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["key"] = self._checked_key(path, headers, scope.get("client"))
        self._check_size(headers)
        self._at_work += 1
        size = 0
        try:
            async with asyncio.timeout(self._settings.timeout):
                if method == "POST":
                    state["body"] = await self._body(receive)
                    size = len(state["body"])
                endpoint = self._direct.get((method, path))
                if endpoint is None:
                    await self._app(scope, receive, send)
                else:
                    scope["route"] = path
                    response = await endpoint(Request(scope, receive))
                    await response(scope, receive, send)
        finally:
            self._at_work -= 1
            self._held -= size
            state.pop("body", None)

    async def _body(self, receive: Receive) -> bytes | bytearray:
        """Read the body of a request; raise a RequestError if it, or all at work together, are too large."""
        body, most, more = bytearray(), self._settings.max_bytes, True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part, more = message.get("body", b""), message.get("more_body", False)
                self._held += len(part)
                body += part
                if len(body) > most:
                    raise _too_large(most)
                if self._held > _BODIES_AT_ONCE * most:
                    busy = "the bodies of the requests at work are too large together: try again soon"
                    raise RequestError(503, busy, {"Retry-After": "1"}, reason="busy")
        except BaseException:
            self._held -= len(body)
            raise
        return body

    def _error_answer(self, scope: Scope, error: Exception) -> Response:
        """Return the answer to a request that failed; count refusals, and log failures without rows."""
        match error:
            case RequestError():
                if error.reason is not None:
                    sentence = f"refused a request with {error.status} ({error.reason})"
                    self._refusals.note(error.reason, sentence, scope.get("client"))
                return error_response(error.status, error.sentence, error.headers)
            case TimeoutError():
                return error_response(504, f"the request took longer than {self._settings.timeout:g} seconds")
            case HTTPException():  # no such route, or not with this method
                return error_response(error.status_code, f"{error.detail}: see /docs", dict(error.headers or {}))
        # the message may quote a row
        places = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        _log.error("%s while answering %s\n%s", type(error).__name__, _route(scope), places)
        return error_response(500, "the service failed: its log says where")

    def _check_sender(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise a RequestError for a page of another site, or one that uses another name for this service."""
        allowed = self._settings.allowed_hosts
        if allowed is not None and not host_is_allowed(headers.get("host", ""), allowed):
            rule = "the header Host must name this service: an IP address, localhost or a name of --allowed-hosts"
            raise RequestError(403, f"{rule}, got {headers.get('host', '')!r:.80}", reason="host")
        if is_other_site(method, headers):
            raise RequestError(403, "a page of another site may not send requests to this service", reason="site")

    def _checked_key(self, path: str, headers: Mapping[str, str], client: Any) -> Key | None:
        """Return the key of a request; raise a RequestError if it may not have an answer."""
        key = self._keys.get(digest(_given_key(headers))) if self._keys else None
        if self._rates is not None:
            wait = self._rates.wait_for(client[0] if client and key is None else key)
            if wait:
                sentence = f"at most {self._settings.rate_limit:g} requests per second are answered: try again later"
                raise RequestError(429, sentence, {"Retry-After": str(math.ceil(wait))}, reason="rate")
        if key is None and self._keys:
            rule = "the request needs a key, in the header Authorization: Bearer KEY or X-API-Key: KEY"
            raise RequestError(401, rule, {"WWW-Authenticate": "Bearer"}, reason="key")
        if key is not None and not key.may(role := role_for(path)):
            raise RequestError(403, f"this key has the role {key.role}, and the request needs {role}", reason="role")
        return key

    def _check_size(self, headers: Mapping[str, str]) -> None:
        """Raise a RequestError for a body that is not to be read."""
        if self._at_work >= self._settings.max_requests:
            busy = f"{self._at_work} requests are at work: try again soon"
            raise RequestError(503, busy, {"Retry-After": "1"}, reason="busy")
        if headers.get("content-encoding", "identity") != "identity":
            raise RequestError(415, f"the body must not be compressed, got {headers['content-encoding']!r:.80}")
        length = headers.get("content-length", "0")
        if _LENGTH.fullmatch(length) is None or int(length) > self._settings.max_bytes:
            raise _too_large(self._settings.max_bytes)


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by name in lower case, of several ones of a name the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"the body of a request may have at most {most} bytes", reason="size")


def _with_defaults(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return headers with those that every answer has."""
    given = dict(headers)
    return [*headers, *[pair for pair in DEFAULT_HEADERS if pair[0] not in given]]


def _given_key(headers: Mapping[str, str]) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return given.encode("latin-1")  # the bytes of the header


def _route(scope: Scope) -> str:
    route: Any = scope.get("route", "unknown")
    return route if isinstance(route, str) else str(route.path)
