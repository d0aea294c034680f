"""Errors of the review queue."""

from __future__ import annotations

__all__ = ["QueueUnavailable", "ReviewConflict", "ReviewNotFound"]


class QueueUnavailable(OSError):
    """The queue cannot be read or written now, for example because the disk is full."""


class ReviewConflict(ValueError):
    """A request that contradicts the queue: an id with another row, a row that somebody else holds or answered."""


class ReviewNotFound(ValueError):
    """A review that is not in the queue."""
