"""Errors of the review queue."""

from __future__ import annotations

__all__ = ["QueueUnavailable", "ReviewConflict", "ReviewNotFound"]


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
    recuse.reviews.errors.ReviewNotFound: there is no review 'a1'
    """
