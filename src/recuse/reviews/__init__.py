"""The review queue: rows that were left to people, their answers, and what the answers say about the model."""

from recuse.reviews.queue import ReviewQueue
from recuse.reviews.recording import RecordedModel
from recuse.reviews.results import QueueUnavailable, ReviewConflict, ReviewNotFound

__all__ = ["QueueUnavailable", "RecordedModel", "ReviewConflict", "ReviewNotFound", "ReviewQueue"]
