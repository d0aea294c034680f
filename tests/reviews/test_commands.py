"""`recuse reviews` and `recuse fit --with-reviews`."""

import json
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import recuse
from recuse.cli.app import app
from recuse.cli.tables import Roles, add_reviews, training_table
from recuse.reviews import RecordedModel, ReviewQueue
from recuse.reviews.learning import answered_rows, capped, effective_rows
from review_runs import answer_all, record, rooms


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "140"})


def json_of(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def error_of(*arguments, code=1):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    return result.stderr.strip().removeprefix("error: ")


@pytest.fixture(scope="module")
def files(tmp_path_factory, loaded):
    """A table of rooms, and a queue whose rows are answered."""
    place = tmp_path_factory.mktemp("answers")
    rooms(150).to_csv(place / "rooms.csv", index=False)
    with ReviewQueue.open(place / "reviews.sqlite", audit_share=0.2) as queue:
        table = rooms(200, seed=3)
        answer_all(queue, record(queue, loaded, table), table)
    return SimpleNamespace(data=place / "rooms.csv", queue=place / "reviews.sqlite", place=place)


@pytest.fixture
def partly(tmp_path, loaded):
    """A queue with one answered row out of two of each kind."""
    table = rooms(100, seed=3)
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=0.2) as queue:
        record(queue, loaded, table)
        with closing(sqlite3.connect(queue.path)) as connection:
            rejected = [row[0] for row in connection.execute("SELECT id FROM reviews WHERE rejected")]
        held = [queue.lease("Ada") for _ in range(queue.progress().waiting)]
        for lease in held:
            if lease.id not in rejected[::2]:
                queue.answer(lease.id, lease.token, 9.0)
    return queue.path, len(rejected)


def fit(files, *more, queue=None, method="risk"):
    path = files.queue if queue is None else queue
    known = ("--target", "price", "--cost", 3, "--method", method, "--preset", "fast", "--with-reviews", path)
    return ["fit", files.data, *known, "-o", files.place / "new.recuse", *more]


def test_the_weights_are_those_of_the_rows_that_are_represented(files, partly):
    found = answered_rows(files.queue)
    assert set(found.weight[found.rejected]) == {1.0}
    assert set(found.weight[~found.rejected]) == {5.0}
    path, rejected = partly
    found = answered_rows(path)
    share = (rejected - len(range(0, rejected, 2))) / rejected
    assert found.weight[~found.rejected] == pytest.approx(5.0 * share)  # all drawn accepted rows are answered


def test_the_cap_keeps_half_of_the_rows_effective():
    weight = np.concatenate([np.ones(300), np.full(20, 50.0)])
    fitted = capped(weight, np.ones(100))
    assert effective_rows(np.concatenate([fitted, np.ones(100)])) == pytest.approx(210, rel=1e-6)
    assert set(fitted[:300]) == {1.0}
    assert capped(np.array([1.0, 2.0]), np.ones(100)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("method", ["risk", "rcr", "selectivenet"])
def test_a_fit_with_reviews_has_all_rows_and_judges_by_weights(files, method):
    result = json_of(*fit(files, method=method))
    found = answered_rows(files.queue)
    assert result["reviews"]["rejected"] == found.rejected.sum()
    assert result["reviews"]["accepted"] == (~found.rejected).sum()
    assert "weighted by the rows of the table and of the service" in result["evaluated_on"]
    share = 1.0 if method == "risk" else 0.8
    assert result["rows"] == pytest.approx(share * (150 + len(found)), abs=1)
    assert recuse.load(files.place / "new.recuse").decide(rooms(3)).prediction.shape == (3,)


def test_the_answers_follow_the_rows_of_the_table(files):
    frame, roles = pd.read_csv(files.data), Roles("price")
    added = add_reviews(training_table(frame, roles, "rooms.csv"), roles, files.queue, None)
    table, found = added.table, answered_rows(files.queue)
    assert len(table) == 150 + len(found)
    assert table.X.dtypes.equals(frame.drop(columns="price").dtypes)
    assert table.y.to_numpy()[150:] == pytest.approx(found.answers)
    assert table.weights[:150].eq(1).all()
    assert table.judge_weights.to_numpy()[150:] == pytest.approx(found.weight)
    truth = rooms(200, seed=3)
    answered = table.X[150:].assign(price=table.y[150:])
    assert len(answered.merge(truth.drop_duplicates(), on=list(truth.columns))) == len(found)


def test_cells_get_the_types_of_the_table(tmp_path, loaded):
    rows = [
        {"area": 50, "city": 7, "age": "old", "sold": "2024-05-01", "lift": True},
        {"area": 60.5, "city": None, "age": 3, "sold": None, "lift": "False"},
    ]
    with ReviewQueue.open(tmp_path / "reviews.sqlite") as queue:
        decision = recuse.Decision([1.0, 2.0], [False, False], [-1.0, -1.0], 3.0)
        ids = queue.record(loaded, pd.DataFrame(rows, dtype=object), decision).result()
        answer_all(queue, ids, pd.DataFrame({"price": [1.0, 2.0]}))
    frame = pd.DataFrame(
        {
            "area": [1, 2],
            "city": ["7", "8"],
            "age": [1.5, 2.5],
            "sold": pd.to_datetime(["2023-01-01", "2023-01-02"]),
            "lift": ["True", "False"],
            "price": [1.0, 2.0],
        }
    )
    roles = Roles("price")
    X = add_reviews(training_table(frame, roles, "x"), roles, tmp_path / "reviews.sqlite", None).table.X
    new = X[2:].set_index("area")
    assert new.loc[50, "city"] == "7"
    assert new.loc[50, "lift"] == "True"
    assert np.isnan(new.loc[50, "age"])
    assert new.loc[50, "sold"] == pd.Timestamp("2024-05-01")
    assert pd.isna(new.loc[60.5, "city"])
    assert pd.isna(new.loc[60.5, "sold"])


def test_what_does_not_fit_the_table_is_an_error(files, loaded, tmp_path):
    table = pd.read_csv(files.data)
    other = files.place / "wide.csv"
    table.assign(extra=1.5, floor=range(150)).to_csv(other, index=False)
    words = ["fit", other, "--cost", 3, "--with-reviews", files.queue, "-o", tmp_path / "m.recuse"]
    assert error_of(*words, "--target", "price", "--drop", "floor") == (
        f"the rows of {files.queue} have no column 'extra', which the model did not read: leave it out by --drop"
    )
    assert error_of(*words, "--target", "extra", "--drop", "floor") == (
        f"{files.queue} has answers for the target price, got --target extra"
    )
    assert "does not exist: check the path of the review queue" in error_of(*fit(files, queue=tmp_path / "none"))
    ReviewQueue.open(tmp_path / "empty.sqlite").close()
    assert error_of(*fit(files, queue=tmp_path / "empty.sqlite")).endswith("empty.sqlite has no answers yet")
    assert error_of(*fit(files, "--reviews-model", "cars")).endswith("has no answers for model 'cars', only for rooms")
    with_name = ("fit", files.data, "--target", "price", "--cost", 3, "--reviews-model", "cars")
    assert error_of(*with_name, code=2) == "--reviews-model needs --with-reviews"


def test_several_models_need_a_name(loaded, tmp_path):
    table = rooms(20, seed=3)
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=1.0) as queue:
        for name in ("a", "b"):
            model = RecordedModel(name, "1", loaded.model)
            answer_all(queue, record(queue, model, table), table)
    with pytest.raises(ValueError, match="has answers for several models, a, b: name one of them"):
        answered_rows(queue.path)
    assert len(answered_rows(queue.path, "b")) == 20


def test_answers_without_audits_give_a_warning(files, loaded, tmp_path):
    table = rooms(60, seed=3)
    with ReviewQueue.open(tmp_path / "reviews.sqlite") as queue:
        answer_all(queue, record(queue, loaded, table), table)
    result = json_of(*fit(files, queue=queue.path))
    assert any("no accepted row has an answer" in warning for warning in result["warnings"])


def test_the_summary_is_printed(files):
    result = run("reviews", files.queue)
    assert result.exit_code == 0, result.output
    for words in ("0 waiting, 0 held by reviewers", "rooms, version 0a1b, squared loss", "mean loss of accepted rows"):
        assert words in result.stdout
    summary = json_of("reviews", files.queue)
    assert summary["models"][0]["estimates"]["accepted_loss"]["answers"] > 0
    assert error_of("reviews", files.queue, "--version", "none").endswith("has no rows of version 'none'")
    export = error_of("reviews", files.queue, "--version", "none", "--export", "-")
    assert export.endswith("has no answers of version 'none' yet")
    deletion = ("--version", "0a1b", "--delete-before", "2024-05-01")
    assert "cannot both be given" in error_of("reviews", files.queue, *deletion, code=2)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_answers_are_exported_with_their_weights(files, tmp_path, ending):
    path = tmp_path / f"answers.{ending}"
    result = json_of("reviews", files.queue, "--export", path)
    table = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    found = answered_rows(files.queue)
    assert result["exported"] == len(table) == len(found)
    assert table["review.answer"].to_numpy() == pytest.approx(found.answers)
    assert (table["review.weight"] == np.where(table["review.rejected"], 1.0, 5.0)).all()
    assert {"area", "city", "age"} <= set(table.columns)


def test_old_rows_are_deleted_with_their_counts(loaded, tmp_path):
    path = tmp_path / "reviews.sqlite"
    with ReviewQueue.open(path, audit_share=0.5) as queue:
        record(queue, loaded, rooms(20, seed=1), [f"old {place}" for place in range(20)])
        with closing(sqlite3.connect(path)) as connection, connection:
            for name in ("reviews", "callers"):
                connection.execute(f"UPDATE {name} SET recorded = recorded - 40 * 86400")
            connection.execute("UPDATE counts SET day = '2001-01-01'")
            connection.execute('UPDATE reviews SET row = \'{"area": "SECRET CELL"}\'')
        old = queue.progress().waiting
        new = record(queue, loaded, rooms(20, seed=2))
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 5 * 86400))
    deleted = json_of("reviews", path, "--delete-before", day)["deleted"]
    assert deleted == {"answered": 0, "unanswered": old}
    with ReviewQueue.open(path) as queue:
        (model,) = queue.summary()["models"]
        assert queue.progress().waiting == sum(review is not None for review in new)
    assert model["accepted"] + model["rejected"] == 20
    assert not any(b"SECRET CELL" in file.read_bytes() for file in tmp_path.iterdir())
    assert "must be a day such as 2024-05-01, got 'May'" in error_of("reviews", path, "--delete-before", "May", code=2)
