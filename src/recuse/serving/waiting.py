"""Work of a thread for one request, which stops once nobody waits for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

__all__ = ["Caller", "run_in_thread"]

Result = TypeVar("Result")


class Caller:
    """Whether somebody still waits for the answer to a request; work asks between its steps.

    Examples
    --------
    >>> caller = Caller()
    >>> caller.check()
    >>> caller.gone = True
    >>> caller.check()
    Traceback (most recent call last):
    starlette.requests.ClientDisconnect
    """

    def __init__(self) -> None:
        self.gone = False

    def check(self) -> None:
        """Raise a ClientDisconnect if nobody waits any more."""
        if self.gone:
            raise ClientDisconnect


async def run_in_thread(request: Request, threads: Executor, work: Callable[[Caller], Result]) -> Result:
    """Return the result of work; tell it when the request has timed out or its connection is closed.

    Parameters
    ----------
    request : Request
        Its body must have been read.
    threads : Executor
    work : callable
        Is called with a `Caller`.
    """
    caller = Caller()
    working = asyncio.wrap_future(threads.submit(work, caller))
    closing = asyncio.ensure_future(_closed(request))
    try:
        await asyncio.wait((working, closing), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        caller.gone = True
        working.cancel()
        closing.cancel()
        del working  # it has the error, which has this frame: a circle that would keep the body until a collection


async def _closed(request: Request) -> None:
    """Return when the connection of a request is closed."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
