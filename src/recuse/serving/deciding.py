"""From the body of a request to decisions and back: the steps that all protocols share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Request, Response
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.serving.errors import RequestError
from recuse.serving.model_store import LoadedModel

if TYPE_CHECKING:
    from starlette.datastructures import State

_Result = tuple["Question", Decision, NDArray[np.float64] | None]

__all__ = ["Decided", "Question", "decide_body", "find_model", "respond"]

_INLINE_BYTES = 4096  # smaller bodies take less time than handing them to a thread
_INLINE_OPERATIONS = 5_000_000  # about 5 ms, for which other requests can wait
_INLINE_ROWS = 100


@dataclass(frozen=True)
class Question:
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
class Decided:
    """The decisions about the rows of one request.

    Attributes
    ----------
    question : Question
    decision : Decision
    expected_loss : ndarray of shape (n_rows,) or None
    reviews : list of (str or None)
        Identifiers of the rows in the review queue.
    """

    question: Question
    decision: Decision
    expected_loss: NDArray[np.float64] | None
    reviews: list[str | None]


def find_model(state: State, name: str | None, version: str | None = None) -> LoadedModel:
    """Return a model by name; raise a RequestError if there is none of that name and version."""
    try:
        loaded: LoadedModel = state.models.get(name)
    except KeyError:
        raise RequestError(404, f"there is no model {name!r:.80}, only {', '.join(state.models.names)}") from None
    if version is not None and version != loaded.version:
        raise RequestError(404, f"model {loaded.name!r} has version {loaded.version}, not {version!r:.80}")
    return loaded


async def decide_body(request: Request, read: Callable[[bytes], Question]) -> Decided:
    """Decide about the rows of a request, and put them into the review queue if there is one.

    Large bodies are read by a thread, and decisions that may take long are made by one, so that others do not wait.

    Parameters
    ----------
    request : Request
    read : callable
        Reads the body; raises a RequestError if it is wrong.
    """
    state, body = request.app.state, await request.body()
    loop = asyncio.get_running_loop()
    if len(body) > _INLINE_BYTES:
        question, decision, expected = await loop.run_in_executor(state.threads, _read_and_decide, state, read, body)
    else:
        question = _read(state, read, body)
        if question.count * question.loaded.model.operations_per_row <= _INLINE_OPERATIONS:
            _, decision, expected = _decide(question)
        else:
            _, decision, expected = await loop.run_in_executor(state.threads, _decide, question)
    reviews: list[str | None] = [None] * len(decision)
    if state.queue is not None and question.record and question.loaded.reads_rows:
        reviews = await _record(state.queue, question, decision, expected)
    decided = Decided(question, decision, expected, reviews)
    state.metrics.add(decided)
    return decided


async def respond(request: Request, decided: Decided, write: Callable[[Decided], Response]) -> Response:
    """Return the answer that `write` makes of decisions; about many rows a thread calls it."""
    if len(decided.decision) <= _INLINE_ROWS:
        return write(decided)
    threads = request.app.state.threads
    return await asyncio.get_running_loop().run_in_executor(threads, write, decided)


async def _record(queue: Any, question: Question, decision: Decision, expected: Any) -> list[str | None]:
    """Return the identifiers of the rows in the queue, which has them on the disk."""
    table = [question.table] if isinstance(question.table, Mapping) else question.table
    try:
        reviews: list[str | None] = await queue.record(question.loaded, table, decision, expected, question.ids)
    except ValueError as error:
        raise RequestError(422, str(error)) from error
    except OSError as error:
        raise RequestError(503, str(error)) from error
    return reviews


def _read_and_decide(state: State, read: Callable[[bytes], Question], body: bytes) -> _Result:
    return _decide(_read(state, read, body))


def _read(state: State, read: Callable[[bytes], Question], body: bytes) -> Question:
    with _refusals():
        question = read(body)
    most = state.settings.max_rows
    if question.count > most:
        raise RequestError(413, f"a request may have at most {most} rows, got {question.count}")
    return question


def _decide(question: Question) -> _Result:
    with _refusals():
        decision, expected = question.loaded.model.decide_with_expected_loss(question.table, question.cost, warn=False)
    return question, decision, expected


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn errors about the rows of a request into answers."""
    try:
        yield
    except OverflowError as error:  # a whole number of hundreds of digits
        raise RequestError(422, "numbers must be below 1.8e308 in size, got a larger one") from error
    except (ValueError, TypeError) as error:
        raise RequestError(422, str(error)) from error
