"""From the body of a request to its answer: the steps that all protocols share, and threads for long ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from recuse.reviews.recording import RecordedModel
from recuse.serving.bodies import RequestRows
from recuse.serving.messages import DecisionRecord, RequestError
from recuse.serving.model_store import DecidedRows, LoadedModel

if TYPE_CHECKING:
    from starlette.datastructures import State

Result = TypeVar("Result")

# Smaller bodies take less time than handing them to a thread, unless they may have many misspelt names.
_INLINE_BYTES, _INLINE_COLUMNS = 4096, 200
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
    rows : RequestRows
    cost : float, list of float or None
    ids : sequence of str or None
        The caller's keys of the rows.
    record : bool
        Whether the rows may go to the review queue.
    """

    loaded: LoadedModel
    rows: RequestRows
    cost: Any = None
    ids: Sequence[str] | None = None
    record: bool = True

    @property
    def is_cheap(self) -> bool:
        """Whether other requests can wait for the decisions."""
        operations = self.rows.count * self.loaded.model.operations_per_row
        return self.rows.count <= _INLINE_ROWS and operations <= _INLINE_OPERATIONS


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
    def problems(self) -> list[list[dict[str, str]]]:
        """What is unlike training in each row; nothing for images."""
        compared = self.outcome.comparison
        return [[] for _ in self.reviews] if compared is None else compared.by_row()

    def records(self) -> list[DecisionRecord]:
        """Return one record for each decision."""
        decision, expected = self.outcome.decision, self.outcome.expected_loss
        nothing = [None] * len(self.reviews)
        results = (decision.prediction, decision.accepted, decision.score, decision.cost, expected, decision.takes)
        columns: list[Any] = [nothing if cells is None else cells.tolist() for cells in results]
        return [
            {
                "prediction": prediction,
                "accepted": accepted,
                "score": score,
                "cost": cost,
                "expected_loss": loss,
                "expected_saving": None if loss is None else cost - loss if accepted else loss - cost,
                "takes": takes,
                "problems": problems,
                "review": review,
            }
            for prediction, accepted, score, cost, loss, takes, problems, review in zip(
                *columns, self.problems, self.reviews, strict=True
            )
        ]


def find_model(state: State, name: str | None, version: str | None = None) -> LoadedModel:
    """Return a model by name; raise a RequestError if there is none of that name and version."""
    try:
        loaded: LoadedModel = state.models.get(name)
    except KeyError:
        raise RequestError(404, f"there is no model {name!r:.80}, only {', '.join(state.models.names)}") from None
    if version is not None and version != loaded.version:
        raise RequestError(404, f"model {loaded.name!r} has version {loaded.version}, not {version!r:.80}")
    return loaded


async def answer_rows(
    request: Request,
    loaded: LoadedModel,
    read: Callable[[bytes], DecisionRequest],
    write: Callable[[DecidedRequest], Response],
    *,
    is_quick: bool = True,
) -> Response:
    """Decide about the rows of a request, put them into the review queue if there is one, and answer.

    Small bodies are decided at once. Other ones are read, decided and answered by a thread, so that others do not wait.

    Parameters
    ----------
    request : Request
    loaded : LoadedModel
    read : callable
        Reads the body; raises an error about it if it is wrong.
    write : callable
        Returns the answer.
    is_quick : bool, default=True
        Whether other requests can wait for `write`.
    """
    state, bodies = request.app.state, [request.scope["state"].pop("body")]
    size = len(bodies[0])
    work = partial(_answer, state, lambda: read(bodies.pop()), write)
    if is_quick and size <= _INLINE_BYTES and len(loaded.column_names) <= _INLINE_COLUMNS:
        question = _or_refusal(read, bodies[0])
        if question.is_cheap:
            outcome = _or_refusal(_decide, question, Caller())
            if _has_queue(state, question):
                with _recording(state):
                    reviews = await asyncio.wrap_future(_record(state, question, outcome))
            else:
                reviews = [None] * question.rows.count
            return _written(state, DecidedRequest(question, outcome, reviews), write)
        work = partial(_answer, state, lambda: question, write)
    return await _run_in_thread(request, state.large if size > _LARGE_BYTES else state.threads, work)


def _answer(
    state: State,
    read: Callable[[], DecisionRequest],
    write: Callable[[DecidedRequest], Response],
    caller: Caller,
) -> Response:
    """Do all steps of a request in a thread, as long as somebody waits."""
    caller.check()
    question = _or_refusal(read)
    caller.check()
    outcome = _or_refusal(_decide, question, caller)
    reviews: list[str | None] = [None] * question.rows.count
    if _has_queue(state, question):
        with _recording(state):
            reviews = _record(state, question, outcome).result()
    caller.check()
    answer = _written(state, DecidedRequest(question, outcome, reviews), write)
    if question.rows.count == 1:
        state.metrics.digest()  # which forgets the cells of the row; they may be large
    return answer


def _written(state: State, decided: DecidedRequest, write: Callable[[DecidedRequest], Response]) -> Response:
    state.metrics.add(decided.question.loaded, decided.outcome)
    return write(decided)


def _or_refusal(step: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a step, or raise a RequestError for an error about the rows of the request."""
    try:
        return step(*arguments)
    except OverflowError as error:  # a whole number of hundreds of digits
        raise RequestError(422, "numbers must be below 1.8e308 in size, got a larger one") from error
    except (ValueError, TypeError) as error:
        raise RequestError(422, str(error)) from error


def _decide(question: DecisionRequest, caller: Caller) -> DecidedRows:
    """Decide about some rows after the other, as long as somebody waits."""
    loaded, rows, cost = question.loaded, question.rows, question.cost
    most = _BLOCK_OPERATIONS // loaded.model.operations_per_row
    size = max(1, min(_BLOCK_ROWS if loaded.reads_rows else _BLOCK_IMAGES, most))
    if rows.count <= size:
        return loaded.decide(rows.table, cost)
    if isinstance(cost, list) and len(cost) != rows.count:
        raise RequestError(422, f"cost must be one value or one value for each of {rows.count} rows, got {len(cost)}")
    blocks = []
    for start in range(0, rows.count, size):
        caller.check()
        block = slice(start, start + size)
        blocks.append(loaded.decide(rows.block(block), cost[block] if isinstance(cost, list) else cost))
    return DecidedRows.concatenate(blocks)


def _has_queue(state: State, question: DecisionRequest) -> bool:
    return state.queue is not None and question.record and question.loaded.reads_rows


def _record(state: State, question: DecisionRequest, outcome: DecidedRows) -> Future[list[str | None]]:
    """Put rows into the queue; the identifiers are there when the rows are on the disk."""
    loaded = question.loaded
    certified = "" if loaded.certificate_number is None else f"-certificate-{loaded.certificate_number}"
    deciding = RecordedModel(loaded.name, loaded.version + certified, loaded.model)
    recorded: Future[list[str | None]] = state.queue.record(
        deciding, question.rows.table, outcome.decision, outcome.expected_loss, question.ids
    )
    return recorded


@contextmanager
def _recording(state: State) -> Iterator[None]:
    """Answer errors of the queue with one sentence."""
    try:
        with state.queue_state.used(writes=True):
            yield
    except ValueError as error:
        raise RequestError(422, str(error)) from error
    except OSError as error:
        raise RequestError(503, str(error)) from error


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


async def _run_in_thread(request: Request, threads: Executor, work: Callable[[Caller], Response]) -> Response:
    """Return the result of work; tell it when the request has timed out or its connection is closed."""
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
