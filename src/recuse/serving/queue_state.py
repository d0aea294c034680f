"""Whether the review queue of the service can be written, and messages when that changes."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from recuse.reviews import QueueUnavailable, ReviewQueue

__all__ = ["QueueState"]

_FRESH_SECONDS = 0.5  # a write that is not older need not be repeated: anybody may ask whether the service is ready

_log = logging.getLogger("recuse.serving")


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

    @asynccontextmanager
    async def used(self, *, writes: bool) -> AsyncIterator[None]:
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
            async with self.used(writes=self._problem is not None):
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
