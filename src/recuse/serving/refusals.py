"""Requests and connections that the service refuses: counted for Prometheus, and logged without what they hold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic

from prometheus_client import CollectorRegistry, Counter

from recuse.serving.errors import RequestError

__all__ = ["Refusals"]

_SECONDS = 10.0  # between two lines of the log about one reason

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

    def note_error(self, error: RequestError, client: Sequence[object] | None) -> None:
        """Count and log the error of a limit; mistakes in the content of a request have no reason."""
        if error.reason is not None:
            self.note(error.reason, f"refused a request with {error.status} ({error.reason})", client)

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
        self._quiet_until[reason] = now + _SECONDS
        unsaid = self._unsaid.pop(reason, 0)
        more = f", and {unsaid} times since the last such line" if unsaid else ""
        _log.warning("%s from %s%s", sentence, client[0] if client else "an unknown address", more)
