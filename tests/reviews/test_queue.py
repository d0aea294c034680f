"""Recording: what is stored, drawn and counted, once for each id, by any number of processes."""

import json
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from recuse import losses
from recuse.decision import Decision
from recuse.reviews import QueueUnavailable, RecordedModel, ReviewConflict, ReviewQueue
from recuse.reviews.database import SCHEMA_VERSION
from recuse.reviews.recording import drawn
from recuse.tabular.schema import Column, Kind, TableSchema
from review_runs import record, rooms


def stored(queue, question, *values):
    with closing(sqlite3.connect(queue.path)) as connection:
        return connection.execute(question, values).fetchall()


def test_rejected_rows_and_a_share_of_the_accepted_ones_are_stored_and_the_others_counted(queue, loaded):
    table = rooms(300, seed=1)
    ids = record(queue, loaded, table)
    decision = loaded.model.decide(table)
    kept = np.array([review is not None for review in ids])
    assert kept[~decision.accepted].all()
    assert 0.3 < kept[decision.accepted].mean() < 0.7
    assert len(set(filter(None, ids))) == kept.sum()
    assert stored(queue, "SELECT SUM(accepted), SUM(rejected), MAX(share) FROM counts") == [
        (decision.accepted.sum(), (~decision.accepted).sum(), 0.5)
    ]
    assert stored(queue, "SELECT DISTINCT rejected, probability FROM reviews ORDER BY 1") == [(0, 0.5), (1, 1.0)]


def test_a_stored_row_has_its_cells_and_its_decision(queue, loaded):
    table = rooms(40, seed=2)
    ids = record(queue, loaded, table)
    decision, expected = loaded.model.decide(table), loaded.model.expected_loss(table)
    place = int(np.argmin(decision.accepted))
    ((row, prediction, score, loss, cost),) = stored(
        queue, "SELECT row, prediction, score, expected_loss, cost FROM reviews WHERE id = ?", ids[place]
    )
    cells = table.drop(columns="price").iloc[place]
    assert json.loads(row) == {name: None if cell != cell else cell for name, cell in cells.items()}
    assert prediction == decision.prediction[place]
    assert (score, loss, cost) == (decision.score[place], expected[place], decision.cost[place])


def test_an_id_makes_a_retry_the_same_request(queue, loaded):
    table = rooms(60, seed=1)
    keys = [f"order {place}" for place in range(60)]
    first = record(queue, loaded, table, keys)
    counts = stored(queue, "SELECT SUM(accepted), SUM(rejected) FROM counts")
    assert record(queue, loaded, table, keys) == first
    assert record(queue, loaded, table[::-1], keys[::-1]) == first[::-1]
    newer = RecordedModel("rooms", "newer", loaded.model)
    assert record(queue, newer, table, keys) == first
    assert stored(queue, "SELECT SUM(accepted), SUM(rejected) FROM counts") == counts
    other = RecordedModel("other", "0a1b", loaded.model)
    assert not set(filter(None, record(queue, other, table, keys))) & set(first)


def test_an_id_with_another_row_is_refused_and_nothing_is_stored(queue, loaded):
    table = rooms(3, seed=1)
    record(queue, loaded, table[:1], ["a"])
    before = stored(queue, "SELECT COUNT(*) FROM reviews"), stored(queue, "SELECT SUM(accepted + rejected) FROM counts")
    with pytest.raises(ReviewConflict, match="an id must belong to one row, got id 'a' with another row than before"):
        record(queue, loaded, table[1:3], ["b", "a"])
    with pytest.raises(ReviewConflict, match="got id 'c' with another row"):
        record(queue, loaded, table[1:3], ["c", "c"])
    after = stored(queue, "SELECT COUNT(*) FROM reviews"), stored(queue, "SELECT SUM(accepted + rejected) FROM counts")
    assert after == before
    with pytest.raises(ValueError, match="ids must have one text for each of 1 rows, got 2"):
        record(queue, loaded, table[:1], ["d", "e"])
    with pytest.raises(ValueError, match="an id must be a text of 1 to 200 characters, got ''"):
        record(queue, loaded, table[:1], [""])


def test_text_that_is_not_unicode_is_stored_in_rows_and_refused_as_id(queue, loaded):
    decision = Decision([1.0], [False], [-0.5], 3.0)
    queue.record(loaded, {"city": "\ud800"}, decision).result()
    assert queue.lease("Ada").row == {"city": "\ud800"}
    with pytest.raises(ValueError, match="an id must be a text of 1 to 200 characters"):
        queue.record(loaded, {"city": "x"}, decision, ids=["\ud800"])


def test_a_conflict_fails_its_own_request_only(queue, loaded):
    table = rooms(30, seed=1)
    decision, rows = loaded.model.decide(table), table.drop(columns="price")
    record(queue, loaded, table[:1], ["0"])

    futures = [
        queue.record(loaded, rows[place : place + 1], decision[place], None, ["0" if place == 5 else str(place)])
        for place in range(30)
    ]
    found = [future.exception() for future in futures]
    assert [place for place, result in enumerate(found) if isinstance(result, Exception)] == [5]
    assert stored(queue, "SELECT SUM(accepted + rejected) FROM counts") == [(29,)]


@pytest.mark.parametrize(
    "table",
    [{"area": [1, 2]}, pd.DataFrame({"area": [1, 2]}), np.array([[1], [2]])],
    ids=["mapping of columns", "frame", "array"],
)
def test_rows_of_any_table_are_plain_values(queue, loaded, table):
    decision = Decision([1.0, 2.0], [False, False], [-0.5, -1.0], 3.0)
    model = SimpleNamespace(
        info=loaded.model.info, schema=TableSchema((Column("area", Kind.NUMBER),)), loss_=losses.get("squared")
    )
    ids = queue.record(RecordedModel("areas", "1", model), table, decision).result()
    lease = queue.lease("Ada", order="age")
    assert (lease.id, lease.row) == (ids[0], {"area": 1})
    outcome = queue.answer(lease.id, lease.token, 2.0)
    assert (outcome.expected_loss, outcome.loss, outcome.saved) == (None, 1.0, -2.0)


@pytest.mark.parametrize("name", ["prediction", "score"])
def test_numbers_that_are_not_finite_are_refused(queue, loaded, name):
    table = rooms(40, seed=1).drop(columns="price")
    decision = loaded.model.decide(table)
    place = int(np.flatnonzero(~decision.accepted)[0])
    values = {part: getattr(decision, part).copy() for part in ("prediction", "accepted", "score", "cost")}
    values[name][place] = np.nan
    decision = Decision(**values)
    with pytest.raises(ValueError, match=f"must have a finite {name}, row {place} has none"):
        queue.record(loaded, table, decision)


def test_a_model_that_accepts_everything_can_be_audited(queue, loaded):
    accepting = Decision(np.zeros(40), np.ones(40, bool), np.full(40, np.inf), np.ones(40))
    assert any(queue.record(loaded, rooms(40), accepting).result())


def test_images_are_refused(queue, loaded):
    decision = Decision([1.0], [False], [-0.5], 3.0)
    with pytest.raises(ValueError, match=r"holds rows of tables, got an array of shape \(1, 3, 4, 4\)"):
        queue.record(loaded, np.zeros((1, 3, 4, 4)), decision)


def test_rows_are_drawn_with_the_probability():
    assert drawn(100_000, 0.02).mean() == pytest.approx(0.02, abs=0.003)
    assert not drawn(100, 0.0).any()
    assert drawn(100, 1.0).all()


def test_the_file_is_for_its_owner_only_and_opens_again(tmp_path, loaded):
    path = tmp_path / "reviews.sqlite"
    with ReviewQueue.open(path) as queue:
        record(queue, loaded, rooms(50, seed=1))
        waiting = queue.progress().waiting
        files = list(tmp_path.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files if file.exists()} == {0o600}
    with ReviewQueue.open(path) as queue:
        assert queue.progress().waiting == waiting > 0
        assert queue._connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert queue._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_other_files_and_other_versions_are_refused(tmp_path):
    (tmp_path / "text").write_text("name,price\n" * 100)
    with pytest.raises(ValueError, match="text is not a review queue: file is not a database"):
        ReviewQueue.open(tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE t (a)")
    with pytest.raises(ValueError, match="other is not a review queue: it is a database of another program"):
        ReviewQueue.open(tmp_path / "other")
    ReviewQueue.open(tmp_path / "newer").close()
    with closing(sqlite3.connect(tmp_path / "newer")) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(ValueError, match=f"newer must have schema version {SCHEMA_VERSION}, got 9: update recuse"):
        ReviewQueue.open(tmp_path / "newer")
    with pytest.raises(ValueError, match=r"audit_share must be from 0 to 1, got 1\.5"):
        ReviewQueue.open(tmp_path / "new", audit_share=1.5)


def test_a_closed_queue_says_so(queue, loaded):
    queue.close()
    with pytest.raises(QueueUnavailable, match="the review queue is closed"):
        record(queue, loaded, rooms(3))


ANSWERING = """
import sys
from recuse.reviews import ReviewQueue
with ReviewQueue.open(sys.argv[1]) as queue:
    while (lease := queue.lease("process")) is not None:
        queue.answer(lease.id, lease.token, 1.0)
        print(lease.id)
"""


def test_two_processes_never_get_the_same_row(queue, loaded):
    ids = set(filter(None, record(queue, loaded, rooms(60, seed=1))))
    command = [sys.executable, "-c", ANSWERING, str(queue.path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(found[0] + found[1]) == sorted(ids)
