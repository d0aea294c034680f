"""Leases: one reviewer at a time, rows that come back, and answers that count once."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from recuse.reviews import QueueUnavailable, ReviewConflict, ReviewNotFound
from review_runs import record, rooms


@pytest.fixture
def filled(queue, loaded):
    table = rooms(30, seed=1)
    record(queue, loaded, table)
    return queue


def expire(queue, review):
    with closing(sqlite3.connect(queue.path)) as connection, connection:
        connection.execute("UPDATE reviews SET held_until = 1 WHERE id = ?", (review,))


def leases(queue, reviewer, order="saving"):
    found = []
    while (lease := queue.lease(reviewer, order)) is not None:
        found.append(lease)
    return found


def test_every_row_is_given_to_one_reviewer(filled):
    waiting = filled.progress().waiting
    first, second = filled.lease("Ada"), filled.lease("Ben")
    others = leases(filled, "Ada")
    assert len({lease.id for lease in (first, second, *others)}) == waiting == 2 + len(others)
    assert filled.lease("Ben") is None
    assert filled.progress().held == waiting


def test_rows_come_by_age_or_by_expected_saving(filled):
    recorded = {row["id"]: row for row in filled._connection.execute("SELECT * FROM reviews")}
    by_age = [recorded[lease.id]["number"] for lease in leases(filled, "Ada", "age")]
    assert by_age == sorted(by_age)
    for review in recorded:
        expire(filled, review)
    rows = [recorded[lease.id] for lease in leases(filled, "Ada", "saving")]
    saving = [row["expected_loss"] - row["cost"] for row in rows if row["rejected"]]
    assert saving == sorted(saving, reverse=True)
    with pytest.raises(ValueError, match="order must be one of saving, age, got 'size'"):
        filled.lease("Ada", "size")


def test_a_lease_of_a_wrong_clock_does_not_keep_a_row(filled):
    waiting, lease = filled.progress().waiting, filled.lease("Ada")
    with closing(sqlite3.connect(filled.path)) as connection, connection:  # the clock was a year ahead
        connection.execute("UPDATE reviews SET held_until = held_until + 366 * 86400 WHERE id = ?", (lease.id,))
    assert (filled.progress().waiting, filled.progress().held) == (waiting, 0)
    again = filled.lease("Ben")
    assert again.id == lease.id
    with pytest.raises(ReviewConflict, match="somebody else holds the row"):
        filled.answer(lease.id, lease.token, 1.0)


def test_a_damaged_queue_is_unavailable(filled):
    filled._connection.execute("ALTER TABLE skips RENAME TO lost")
    with pytest.raises(QueueUnavailable, match="the review queue cannot be used: no such table"):
        filled.progress("Ada")


def test_audited_rows_have_priorities_of_rejected_ones(filled):
    rejected, audited = (
        {row[0] for row in filled._connection.execute("SELECT priority FROM reviews WHERE rejected = ?", (kind,))}
        for kind in (1, 0)
    )
    assert audited - {0.0} <= rejected  # 0 if no row was rejected before


def test_a_lease_tells_nothing_about_the_decision(filled):
    fields = set(vars(filled.lease("Ada")))
    assert fields == {*("id", "token", "expires", "seconds", "model", "version", "target", "row", "recorded")}


def test_an_answer_is_compared_with_the_prediction(filled):
    lease = filled.lease("Ada")
    outcome = filled.answer(lease.id, lease.token, 7)
    assert outcome.loss == pytest.approx((outcome.prediction - 7) ** 2)
    assert outcome.saved == pytest.approx((outcome.loss - outcome.cost) * (1 if outcome.rejected else -1))
    counts = filled.progress("Ada")
    assert (counts.answered, counts.answered_by_you, counts.saved) == (1, 1, outcome.saved)
    assert filled.progress("Ben").answered_by_you == 0


def test_an_answer_counts_once_and_may_be_sent_again(filled):
    lease = filled.lease("Ada")
    outcome = filled.answer(lease.id, lease.token, 7.0)
    assert filled.answer(lease.id, lease.token, 7.0) == outcome
    with pytest.raises(ReviewConflict, match="was answered before"):
        filled.answer(lease.id, lease.token, 8.0)
    with pytest.raises(ReviewConflict, match="was answered before"):
        filled.release(lease.id, lease.token)
    assert filled.progress().answered == 1


@pytest.mark.parametrize(
    "value",
    [np.nan, np.inf, "7", None, True, [1.0, 2.0], [], 10**400],
    ids=["nan", "inf", "text", "none", "bool", "two", "no", "large"],
)
def test_an_answer_must_be_a_finite_number(filled, value):
    lease = filled.lease("Ada")
    with pytest.raises(ValueError, match="an answer must be a finite number, got"):
        filled.answer(lease.id, lease.token, value)
    assert filled.progress().answered == 0


def test_the_loss_of_an_answer_must_be_finite(filled):
    lease = filled.lease("Ada")
    with pytest.raises(ValueError, match=r"near enough to have a finite loss, got 1e\+300"):
        filled.answer(lease.id, lease.token, 1e300)
    assert filled.answer(lease.id, lease.token, np.float32(1.5)).answer == 1.5


def test_counting_reads_indices_only(filled):
    for question in ("answer IS NULL", "answer IS NULL AND held_until > 0 AND held_until > 5", "answer IS NOT NULL"):
        plan = filled._connection.execute(f"EXPLAIN QUERY PLAN SELECT COUNT(*) FROM reviews WHERE {question}")
        assert "COVERING INDEX" in plan.fetchone()["detail"]


def test_a_released_or_expired_row_comes_back(filled):
    first = filled.lease("Ada", "age")
    filled.release(first.id, first.token)
    second = filled.lease("Ben", "age")
    assert second.id == first.id
    expire(filled, second.id)
    assert filled.lease("Eve", "age").id == first.id


def test_a_late_answer_counts_unless_somebody_else_has_the_row(filled):
    late = filled.lease("Ada", "age")
    expire(filled, late.id)
    other = filled.lease("Ben", "age")
    assert other.id == late.id
    for call in (filled.renew, filled.release):
        with pytest.raises(ReviewConflict, match="has ended, and somebody else holds the row"):
            call(late.id, late.token)
    with pytest.raises(ReviewConflict, match="has ended, and somebody else holds the row"):
        filled.answer(late.id, late.token, 1.0)
    expire(filled, late.id)
    assert filled.answer(late.id, late.token, 1.0).answer == 1.0
    with pytest.raises(ReviewConflict, match="was answered before"):
        filled.answer(other.id, other.token, 1.0)


def test_a_lease_is_extended(filled):
    lease = filled.lease("Ada", seconds=5)
    assert filled.renew(lease.id, lease.token, seconds=500) > lease.expires + 400
    with pytest.raises(ValueError, match="a lease must have more than 0 and at most 86400 seconds, got 0"):
        filled.renew(lease.id, lease.token, seconds=0)


def test_a_skipped_row_is_left_to_others(filled):
    lease = filled.lease("Ada", "age")
    filled.release(lease.id, lease.token, skip=True)
    assert filled.lease("Ada", "age").id != lease.id
    assert filled.progress("Ada").skipped_by_you == 1
    assert filled.lease("Ada", "age", skipped=True).id == lease.id
    expire(filled, lease.id)
    assert filled.lease("Ben", "age").id == lease.id


def test_foreign_tokens_and_unknown_reviews_are_refused(filled):
    mine, other = filled.lease("Ada"), filled.lease("Ben")
    with pytest.raises(ReviewConflict, match="the lease was not given for review"):
        filled.answer(mine.id, other.token, 1.0)
    with pytest.raises(ReviewNotFound, match="there is no review 'none'"):
        filled.answer("none", mine.token, 1.0)
    with pytest.raises(ValueError, match="reviewer must be a name of 1 to 100 characters, got ' '"):
        filled.lease(" ")
