"""From the body of a request to decisions and back: the steps that all protocols share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from fastapi import Request, Response
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.serving.errors import RequestError
from recuse.serving.model_store import LoadedModel

if TYPE_CHECKING:
    from starlette.datastructures import State

__all__ = ["Decided", "Question", "answer", "find_model"]

_INLINE_BYTES = 4096  # smaller bodies take less time than handing them to a thread

Result = TypeVar("Result")


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
    """

    loaded: LoadedModel
    table: Any
    cost: Any = None
    ids: Sequence[str] | None = None

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


async def answer(request: Request, read: Callable[[bytes], Question], write: Callable[[Decided], Response]) -> Response:
    """Decide about the rows of a request, and put them into the review queue if there is one.

    Large requests are read, decided and written by a thread, so that others do not wait for them.

    Parameters
    ----------
    request : Request
    read : callable
        Reads the body; raises a RequestError if it is wrong.
    write : callable
        Returns the answer.
    """
    state, body = request.app.state, await request.body()
    if len(body) <= _INLINE_BYTES:
        question, decision, expected = _decide(state, read, body)
    else:
        loop = asyncio.get_running_loop()
        question, decision, expected = await loop.run_in_executor(state.threads, _decide, state, read, body)
    reviews: list[str | None] = [None] * len(decision)
    if state.queue is not None:
        reviews = await state.queue.record(question.loaded, _rows(question.table), decision, expected, question.ids)
    decided = Decided(question, decision, expected, reviews)
    state.metrics.add(decided)
    if len(body) <= _INLINE_BYTES:
        return write(decided)
    return await loop.run_in_executor(state.threads, write, decided)


def _decide(
    state: State, read: Callable[[bytes], Question], body: bytes
) -> tuple[Question, Decision, NDArray[np.float64] | None]:
    question = read(body)
    if question.count > state.settings.max_rows:
        raise RequestError(413, f"a request may have at most {state.settings.max_rows} rows, got {question.count}")
    try:
        decision, expected = question.loaded.model.decide_with_expected_loss(question.table, question.cost, warn=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise RequestError(422, str(error)) from error
    return question, decision, expected


def _rows(table: Any) -> Any:
    return [table] if isinstance(table, Mapping) else table
