"""Requests per second of one caller."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic

__all__ = ["RateLimit"]

_MOST_CALLERS = 10_000  # the one that was silent for longest is forgotten
_BURST_SECONDS = 2.0  # so much of the rate may come at once after a pause


class RateLimit:
    """A bucket of tokens for each caller: a request takes one, and `rate` new ones come every second.

    Parameters
    ----------
    rate : float
        Requests per second.
    clock : callable
        Returns seconds.

    Examples
    --------
    >>> limit = RateLimit(0.5, clock=lambda: 0.0)
    >>> limit.wait_for("shop"), limit.wait_for("shop")
    (0.0, 2.0)
    """

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._size = max(1.0, _BURST_SECONDS * rate)
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: Hashable) -> float:
        """Take a token and return 0, or return the seconds until there is one.

        Parameters
        ----------
        caller : hashable
        """
        now = self._clock()
        tokens, since = self._buckets.pop(caller, (self._size, now))
        tokens = min(self._size, tokens + self._rate * (now - since))
        wait = max(0.0, (1.0 - tokens) / self._rate)
        self._buckets[caller] = (tokens if wait else tokens - 1.0, now)
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        return wait
