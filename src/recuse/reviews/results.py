"""What a review queue returns and raises: leases, outcomes of answers, progress, summaries and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Order = Literal["saving", "age"]


@dataclass(frozen=True)
class Lease:
    """A row that a reviewer holds; it does not tell what the model predicted, or whether it rejected the row.

    Attributes
    ----------
    id, token : str
        Of the review and of the lease.
    expires : float
        Seconds since 1970.
    seconds : float
        Length of the lease.
    model, version : str
    target : str or None
        Name of the target, if the model knows it.
    row : dict
    recorded : float
        Seconds since 1970.
    """

    id: str
    token: str
    expires: float
    seconds: float
    model: str
    version: str
    target: str | None
    row: dict[str, Any]
    recorded: float


@dataclass(frozen=True)
class ReviewOutcome:
    """What the answer of a reviewer says about the model.

    Attributes
    ----------
    id : str
    answer, prediction, loss, cost : float
        Answer of the reviewer; prediction of the model and its loss; cost of the rejection.
    rejected : bool
        Whether the model left the row to people; otherwise the row was drawn from the accepted ones.
    expected_loss : float or None
    saved : float
        What the decision of the model saved against the other one; negative if the other one was better.
    """

    id: str
    answer: float
    prediction: float
    loss: float
    cost: float
    rejected: bool
    expected_loss: float | None
    saved: float


@dataclass(frozen=True)
class Progress:
    """Numbers of rows that wait for a reviewer, are held, and are answered, and the sum of `ReviewOutcome.saved`."""

    waiting: int
    held: int
    answered: int
    answered_by_you: int
    skipped_by_you: int
    saved: float | None  # None beyond the range of floats


@dataclass(frozen=True)
class Audits:
    """Numbers of accepted rows that were drawn for review, and of those with an answer."""

    drawn: int
    answered: int


@dataclass(frozen=True)
class Rejections:
    """Numbers of rejected rows, and of those with an answer."""

    recorded: int
    answered: int


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval, None where there is none, and the number of answers that it is made of."""

    value: float | None
    low: float | None
    high: float | None
    answers: int


@dataclass(frozen=True)
class ModelSummary:
    """What is in a queue of one model, and what the answers say about it.

    Attributes
    ----------
    name : str
    versions : list of str
    loss : str or None
        Name of the loss; several names if the versions differ.
    accepted, rejected : int
        Numbers of decided rows.
    audits : Audits
    rejections : Rejections
    estimates : dict of str to Interval
        Measures of `recuse.metrics.evaluate`, estimated from the answers.
    notes : list of str
        What the estimates assume.
    """

    name: str
    versions: list[str]
    loss: str | None
    accepted: int
    rejected: int
    audits: Audits
    rejections: Rejections
    estimates: dict[str, Interval]
    notes: list[str]


@dataclass(frozen=True)
class QueueSummary:
    """Numbers of rows that wait, are held and are answered, and the summary of each model."""

    waiting: int
    held: int
    answered: int
    models: list[ModelSummary]


class QueueUnavailable(OSError):
    """The queue cannot be read or written now, for example because the disk is full.

    Examples
    --------
    >>> try:
    ...     raise QueueUnavailable("the review queue is closed")
    ... except OSError as error:
    ...     print(error)
    the review queue is closed
    """


class ReviewConflict(ValueError):
    """A request that contradicts the queue: an id with another row, a row that somebody else holds or answered.

    Examples
    --------
    >>> try:
    ...     raise ReviewConflict("review 'a1' was answered before")
    ... except ValueError as error:
    ...     print(error)
    review 'a1' was answered before
    """


class ReviewNotFound(ValueError):
    """A review that is not in the queue.

    Examples
    --------
    >>> import tempfile
    >>> from recuse.reviews import ReviewQueue
    >>> with tempfile.TemporaryDirectory() as folder, ReviewQueue.open(f"{folder}/reviews.sqlite") as queue:
    ...     queue.answer("a1", "token", 1.5)
    Traceback (most recent call last):
    recuse.reviews.results.ReviewNotFound: there is no review 'a1'
    """
