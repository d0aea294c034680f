"""From the body of a request to decisions and back: the steps that all protocols share, and threads for long ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from fastapi import Request, Response
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect

from recuse.decision import Decision
from recuse.serving.errors import RequestError
from recuse.serving.model_store import DecidedRows, LoadedModel

if TYPE_CHECKING:
    from starlette.datastructures import State


__all__ = ["Caller", "DecidedRequest", "DecisionRequest", "decide_body", "find_model", "respond"]

Result = TypeVar("Result")

_INLINE_BYTES = 4096  # smaller bodies take less time than handing them to a thread
_INLINE_OPERATIONS = 5_000_000  # about 5 ms, for which other requests can wait
_INLINE_ROWS = 100
_LARGE_BYTES = 2**20  # larger bodies are read one after the other, since their rows take many times this memory
_BLOCK_ROWS = 2048  # after which work stops if nobody waits for it
_BLOCK_IMAGES = 32
_BLOCK_OPERATIONS = 1_000_000_000  # about a second


@dataclass(frozen=True)
class DecisionRequest:
    """The rows of one request.

    Attributes
    ----------
    loaded : LoadedModel
        The model that decides.
    table : DataFrame, array, or mapping of column names to the values of one row
    cost : float, sequence of float or None
    ids : sequence of str or None
        The caller's keys of the rows.
    record : bool
        Whether the rows may go to the review queue.
    """

    loaded: LoadedModel
    table: Any
    cost: Any = None
    ids: Sequence[str] | None = None
    record: bool = True

    @property
    def count(self) -> int:
        """The number of rows."""
        return 1 if isinstance(self.table, Mapping) else len(self.table)


@dataclass(frozen=True)
class DecidedRequest:
    """The decisions about the rows of one request.

    Attributes
    ----------
    question : DecisionRequest
    outcome : DecidedRows
    reviews : list of (str or None)
        Identifiers of the rows in the review queue.
    """

    question: DecisionRequest
    outcome: DecidedRows
    reviews: list[str | None]

    @property
    def decision(self) -> Decision:
        """The decisions."""
        return self.outcome.decision

    @property
    def expected_loss(self) -> NDArray[np.float64] | None:
        """The expected losses (row,), if the model has them."""
        return self.outcome.expected_loss

    @property
    def problems(self) -> list[list[dict[str, str]]]:
        """What is unlike training in each row; nothing for images."""
        compared = self.outcome.comparison
        return [[] for _ in self.reviews] if compared is None else compared.by_row()


def find_model(state: State, name: str | None, version: str | None = None) -> LoadedModel:
    """Return a model by name; raise a RequestError if there is none of that name and version."""
    try:
        loaded: LoadedModel = state.models.get(name)
    except KeyError:
        raise RequestError(404, f"there is no model {name!r:.80}, only {', '.join(state.models.names)}") from None
    if version is not None and version != loaded.version:
        raise RequestError(404, f"model {loaded.name!r} has version {loaded.version}, not {version!r:.80}")
    return loaded


async def decide_body(request: Request, read: Callable[[bytes], DecisionRequest]) -> DecidedRequest:
    """Decide about the rows of a request, and put them into the review queue if there is one.

    Large bodies are read by a thread, and decisions that may take long are made by one, so that others do not wait.

    Parameters
    ----------
    request : Request
    read : callable
        Reads the body; raises a RequestError if it is wrong.
    """
    state = request.app.state
    body = await request.body()
    if len(body) > _INLINE_BYTES:
        threads = state.threads if len(body) <= _LARGE_BYTES else state.large
        decided = await _run_in_thread(request, threads, partial(_read_and_decide, read, body))
    else:
        question = _read(read, body)
        if question.count * question.loaded.model.operations_per_row <= _INLINE_OPERATIONS:
            decided = _decide(question, Caller())
        else:
            decided = await _run_in_thread(request, state.threads, partial(_decide, question))
    if state.queue is not None and decided.question.record and decided.question.loaded.reads_rows:
        decided.reviews[:] = await _record(state, decided)
    state.metrics.add(decided)
    if len(body) > _LARGE_BYTES:
        state.large.submit(state.metrics.digest)  # before the next large body, since the metrics keep rows until then
    return decided


async def respond(request: Request, decided: DecidedRequest, write: Callable[[DecidedRequest], Response]) -> Response:
    """Return the answer that `write` makes of decisions; about many rows a thread calls it."""
    if len(decided.decision) <= _INLINE_ROWS:
        return write(decided)

    def write_if_awaited(caller: Caller) -> Response:
        caller.check()
        return write(decided)

    return await _run_in_thread(request, request.app.state.threads, write_if_awaited)


async def _record(state: State, decided: DecidedRequest) -> list[str | None]:
    """Return the identifiers of the rows in the queue, which has them on the disk."""
    question = decided.question
    table = [question.table] if isinstance(question.table, Mapping) else question.table
    deciding = _RecordedModel.of(question.loaded)
    try:
        async with state.queue_state.used(writes=True):
            reviews: list[str | None] = await state.queue.record(
                deciding, table, decided.decision, decided.expected_loss, question.ids
            )
    except ValueError as error:
        raise RequestError(422, str(error)) from error
    except OSError as error:
        raise RequestError(503, str(error)) from error
    return reviews


@dataclass(frozen=True)
class _RecordedModel:
    """A model under the version that the review queue keeps, which has the certificate in force."""

    name: str
    version: str
    model: Any

    @classmethod
    def of(cls, loaded: LoadedModel) -> Self:
        by = "" if loaded.certificate is None else f"-certificate-{loaded.certificate.number}"
        return cls(loaded.name, loaded.version + by, loaded.model)


def _read_and_decide(read: Callable[[bytes], DecisionRequest], body: bytes, caller: Caller) -> DecidedRequest:
    caller.check()
    question = _read(read, body)
    caller.check()
    return _decide(question, caller)


def _read(read: Callable[[bytes], DecisionRequest], body: bytes) -> DecisionRequest:
    try:
        return read(body)
    except (OverflowError, ValueError, TypeError) as error:
        raise _refusal(error) from error


def _decide(question: DecisionRequest, caller: Caller) -> DecidedRequest:
    try:
        outcome = _decide_blocks(question, caller)
    except (OverflowError, ValueError, TypeError) as error:
        raise _refusal(error) from error
    return DecidedRequest(question, outcome, [None] * len(outcome.decision))


def _refusal(error: Exception) -> RequestError:
    """Return the answer to an error about the rows of a request."""
    if isinstance(error, OverflowError):  # a whole number of hundreds of digits
        return RequestError(422, "numbers must be below 1.8e308 in size, got a larger one")
    return RequestError(422, str(error))


def _decide_blocks(question: DecisionRequest, caller: Caller) -> DecidedRows:
    """Decide about some rows after the other, as long as somebody waits."""
    loaded, table, cost = question.loaded, question.table, question.cost
    most = _BLOCK_OPERATIONS // loaded.model.operations_per_row
    size = max(1, min(_BLOCK_ROWS if loaded.reads_rows else _BLOCK_IMAGES, most))
    if question.count <= size:
        return loaded.decide(table, cost)
    if isinstance(cost, list) and len(cost) != question.count:
        raise RequestError(
            422, f"cost must be one value or one value for each of {question.count} rows, got {len(cost)}"
        )
    blocks = []
    for start in range(0, question.count, size):
        caller.check()
        rows = slice(start, start + size)
        block = table.iloc[rows] if loaded.reads_rows else table[rows]
        blocks.append(loaded.decide(block, cost[rows] if isinstance(cost, list) else cost))
    return DecidedRows.concatenate(blocks)


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


async def _run_in_thread(request: Request, threads: Executor, work: Callable[[Caller], Result]) -> Result:
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
