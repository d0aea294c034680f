"""Leases: rows are given to one reviewer at a time, answered once, and come back if nobody answers."""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
import time
from contextlib import suppress
from typing import Any, get_args

import numpy as np

from recuse import losses
from recuse.reviews.recording import is_name
from recuse.reviews.results import Lease, Order, Progress, ReviewConflict, ReviewNotFound, ReviewOutcome

_NUMBERS = (int, float, np.integer, np.floating)
_MOST_CHARACTERS = 100  # the name of a reviewer has at most as many
_MOST_SECONDS = 86_400.0
# a lease that ends after that was given while the clock was wrong
_HELD = "(held_until > :now AND held_until <= :most)"
_SORTED = {"saving": "priority DESC, number", "age": "number"}


def give(connection: sqlite3.Connection, reviewer: str, order: Order, seconds: float, *, skipped: bool) -> Lease | None:
    """Lease the first free row; the caller holds the transaction, as in all functions of this module."""
    name, now = _checked_name(reviewer), time.time()
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}, got {order!r:.40}")
    _check_seconds(seconds)
    hidden = "" if skipped else "AND NOT EXISTS (SELECT 1 FROM skips WHERE review = number AND reviewer = :name)"
    row = connection.execute(
        f"SELECT * FROM reviews WHERE answer IS NULL AND NOT {_HELD} {hidden} ORDER BY {_SORTED[order]} LIMIT 1",
        {"now": now, "most": now + _MOST_SECONDS, "name": name},
    ).fetchone()
    if row is None:
        return None
    token, expires = secrets.token_urlsafe(18), now + seconds
    connection.execute("INSERT INTO leases VALUES (?, ?, ?)", (token, row["number"], name))
    _hold(connection, row["number"], token, expires)
    model = connection.execute("SELECT * FROM models WHERE number = ?", (row["model"],)).fetchone()
    return Lease(
        *(row["id"], token, expires, seconds, model["name"], model["version"], model["target"]),
        *(json.loads(row["row"]), row["recorded"]),
    )


def renew(connection: sqlite3.Connection, review: str, token: str, seconds: float) -> float:
    """Extend a lease, also one that has ended, if nobody else holds or answered the row."""
    _check_seconds(seconds)
    row, _ = _held(connection, review, token)
    expires = time.time() + seconds
    _hold(connection, row["number"], token, expires)
    return expires


def release(connection: sqlite3.Connection, review: str, token: str, *, skip: bool) -> None:
    """Give a row back."""
    row, reviewer = _held(connection, review, token)
    _hold(connection, row["number"], token, 0.0)
    if skip:
        connection.execute("INSERT OR IGNORE INTO skips VALUES (?, ?)", (row["number"], reviewer))


def answer(connection: sqlite3.Connection, review: str, token: str, value: float) -> ReviewOutcome:
    """Store the answer, unless somebody else holds or answered the row."""
    row = _review(connection, review)
    number = _checked_answer(value)
    if row["answer"] is not None and row["answer_token"] == token and row["answer"] == number:
        return _outcome(row)  # the reviewer did not get the first response
    row, reviewer = _held(connection, review, token)
    (name,) = connection.execute("SELECT loss FROM models WHERE number = ?", (row["model"],)).fetchone()
    with np.errstate(over="ignore"):
        loss = float(losses.get(name)(np.array([row["prediction"] - number]))[0])
    if not np.isfinite(loss):
        raise ValueError(f"an answer must be near enough to have a finite loss, got {value!r:.80}")
    saved = loss - row["cost"] if row["rejected"] else row["cost"] - loss
    connection.execute(
        "UPDATE reviews SET answer = ?, answered = ?, answered_by = ?, answer_token = ?, loss = ?, saved = ?, "
        "held_until = 0 WHERE number = ?",
        (number, time.time(), reviewer, token, loss, saved, row["number"]),
    )
    return _outcome(_review(connection, review))


def progress(connection: sqlite3.Connection, reviewer: str | None) -> Progress:
    """Count the rows of the queue; needs no transaction, and reads indices only."""
    (unanswered,) = connection.execute("SELECT COUNT(*) FROM reviews WHERE answer IS NULL").fetchone()
    now = time.time()
    held = f"SELECT COUNT(*) FROM reviews WHERE answer IS NULL AND held_until > 0 AND {_HELD}"
    (taken,) = connection.execute(held, {"now": now, "most": now + _MOST_SECONDS}).fetchone()
    (answered,) = connection.execute("SELECT COUNT(*) FROM reviews WHERE answer IS NOT NULL").fetchone()
    yours = "SELECT COUNT(*), COALESCE(SUM(saved), 0.0) FROM reviews WHERE answered_by = ? AND answer IS NOT NULL"
    count, saved = connection.execute(yours, (reviewer,)).fetchone()
    skips = "SELECT COUNT(*) FROM skips JOIN reviews ON number = review WHERE reviewer = ? AND answer IS NULL"
    (skipped,) = connection.execute(skips, (reviewer,)).fetchone()
    return Progress(unanswered - taken, taken, answered, count, skipped, saved if math.isfinite(saved) else None)


def _outcome(row: sqlite3.Row) -> ReviewOutcome:
    return ReviewOutcome(
        *(row["id"], row["answer"], row["prediction"], row["loss"], row["cost"]),
        *(bool(row["rejected"]), row["expected_loss"], row["saved"]),
    )


def _hold(connection: sqlite3.Connection, number: int, token: str, until: float) -> None:
    connection.execute("UPDATE reviews SET holder = ?, held_until = ? WHERE number = ?", (token, until, number))


def _review(connection: sqlite3.Connection, review: str) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute("SELECT * FROM reviews WHERE id = ?", (review,)).fetchone()
    if row is None:
        raise ReviewNotFound(f"there is no review {review!r:.80}")
    return row


def _held(connection: sqlite3.Connection, review: str, token: str) -> tuple[sqlite3.Row, str]:
    """Return a row and its reviewer, if the token was given for it and nobody else holds or answered it."""
    row = _review(connection, review)
    key = (token, row["number"])
    lease = connection.execute("SELECT reviewer FROM leases WHERE token = ? AND review = ?", key).fetchone()
    if lease is None:
        raise ReviewConflict(f"the lease was not given for review {review!r:.80}")
    if row["answer"] is not None:
        raise ReviewConflict(f"review {review!r:.80} was answered before")
    now = time.time()
    if row["holder"] != token and now < row["held_until"] <= now + _MOST_SECONDS:
        raise ReviewConflict(f"the lease of review {review!r:.80} has ended, and somebody else holds the row")
    return row, lease["reviewer"]


def _checked_name(reviewer: str) -> str:
    name = reviewer.strip() if isinstance(reviewer, str) else ""
    if not is_name(name, _MOST_CHARACTERS):
        raise ValueError(f"reviewer must be a name of 1 to {_MOST_CHARACTERS} characters, got {reviewer!r:.120}")
    return name


def _check_seconds(seconds: float) -> None:
    if not 0 < seconds <= _MOST_SECONDS:
        raise ValueError(f"a lease must have more than 0 and at most {_MOST_SECONDS:g} seconds, got {seconds:g}")


def _checked_answer(value: Any) -> float:
    if isinstance(value, _NUMBERS) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number of hundreds of digits
            if math.isfinite(value):
                return float(value)
    raise ValueError(f"an answer must be a finite number, got {value!r:.80}")
