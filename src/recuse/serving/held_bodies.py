"""The bodies of all requests that a process holds, and how much memory they may take together."""

from __future__ import annotations

from fastapi import Request

from recuse.serving.errors import RequestError

__all__ = ["HeldBodies"]

_LARGEST_AT_ONCE = 4  # bodies of the largest size


class HeldBodies:
    """Reads the bodies of requests, and counts those that are in memory.

    Parameters
    ----------
    max_bytes : int
        Size of the largest body. All together may have four times this size.

    Attributes
    ----------
    size : int
        Bytes of the bodies that are read or decided now.
    """

    def __init__(self, max_bytes: int) -> None:
        self._most, self.size = _LARGEST_AT_ONCE * max_bytes, 0

    async def read(self, request: Request) -> bytes:
        """Return the body of a request, which counts until `release`; raise a RequestError if that is too much."""
        chunks: list[bytes] = []
        try:
            async for chunk in request.stream():
                chunks.append(chunk)
                self.size += len(chunk)
                if self.size > self._most:
                    rule = f"the bodies of all requests may have at most {self._most} bytes together: try again soon"
                    raise RequestError(503, rule, {"Retry-After": "1"})
        except BaseException:
            self.size -= sum(map(len, chunks))
            raise
        return b"".join(chunks)

    def release(self, body: bytes) -> None:
        """Forget a body."""
        self.size -= len(body)
