"""From the rows of a request to decisions: the steps that all protocols share."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.serving.errors import RequestError
from recuse.serving.model_store import LoadedModel

if TYPE_CHECKING:
    from starlette.datastructures import State

    from recuse.reviews import ReviewQueue

__all__ = ["Decided", "decide_rows", "find_model", "finite", "records_of"]

_INLINE_ROWS = 32  # fewer rows take less time than handing them to a thread


@dataclass(frozen=True)
class Decided:
    """The decisions about the rows of one request.

    Attributes
    ----------
    loaded : LoadedModel
    decision : Decision
    expected_loss : ndarray of shape (n_rows,) or None
    reviews : list of (str or None)
        Identifiers of the rows in the review queue.
    """

    loaded: LoadedModel
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


async def decide_rows(
    state: State, loaded: LoadedModel, table: Any, cost: Any = None, ids: Sequence[str] | None = None
) -> Decided:
    """Decide about the rows of a request, and put rejected ones into the review queue if there is one.

    Parameters
    ----------
    state : State
        The state of the application.
    loaded : LoadedModel
    table : DataFrame, array, or mapping of column names to the values of one row
    cost : float, array-like or None
    ids : sequence of str or None
        The caller's keys of the rows.
    """
    rows = 1 if isinstance(table, Mapping) else len(table)
    if rows > state.settings.max_rows:
        raise RequestError(413, f"a request may have at most {state.settings.max_rows} rows, got {rows}")
    try:
        if rows <= _INLINE_ROWS:
            decision, expected = _decide(loaded, table, cost)
        else:
            loop = asyncio.get_running_loop()
            decision, expected = await loop.run_in_executor(state.threads, _decide, loaded, table, cost)
    except (ValueError, TypeError, OverflowError) as error:
        raise RequestError(422, str(error)) from error
    if state.queue is None:
        return Decided(loaded, decision, expected, [None] * rows)
    return Decided(loaded, decision, expected, await _record(state.queue, loaded, table, decision, expected, ids))


def _decide(loaded: LoadedModel, table: Any, cost: Any) -> tuple[Decision, NDArray[np.float64] | None]:
    return loaded.model.decide_with_expected_loss(table, cost, warn=False)


async def _record(queue: ReviewQueue, loaded: LoadedModel, *decided: Any) -> list[str | None]:
    """Return the identifiers of the rows in the queue, which has them on the disk."""
    try:
        return await queue.record(loaded, *decided)
    except ValueError as error:
        raise RequestError(422, str(error)) from error
    except OSError as error:
        raise RequestError(503, str(error)) from error


def records_of(decided: Decided) -> list[dict[str, Any]]:
    """Return one record for each decision, with values that JSON can hold."""
    decision = decided.decision
    prediction = decision.prediction.tolist()
    if decision.prediction.ndim == 1:
        prediction = [finite(value) for value in prediction]
    else:
        prediction = [[finite(value) for value in values] for values in prediction]
    count = len(prediction)
    expected = [None] * count if decided.expected_loss is None else decided.expected_loss.tolist()
    rows = zip(
        prediction,
        decision.accepted.tolist(),
        decision.score.tolist(),
        decision.cost.tolist(),
        expected,
        decided.reviews,
        strict=True,
    )
    return [
        {
            "prediction": predicted,
            "accepted": accepted,
            "score": finite(score),
            "cost": cost,
            "expected_loss": finite(loss),
            "expected_saving": None if loss is None else finite(abs(loss - cost)),
            "review": review,
        }
        for predicted, accepted, score, cost, loss, review in rows
    ]


def finite(value: float | None) -> float | None:
    """Return a number that JSON has, None for the others.

    Examples
    --------
    >>> finite(2.5), finite(math.inf)
    (2.5, None)
    """
    return value if value is not None and math.isfinite(value) else None
