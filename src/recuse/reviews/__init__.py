"""The review queue: rows that were left to people, their answers, and what the answers say about the model."""

from recuse.reviews.errors import QueueUnavailable, ReviewConflict, ReviewNotFound
from recuse.reviews.queue import ReviewQueue

__all__ = ["QueueUnavailable", "ReviewConflict", "ReviewNotFound", "ReviewQueue"]
