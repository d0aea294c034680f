"""Hashes of rows: the same for all kinds of tables, and copies are told from rows that are equal by chance."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from recuse.row_hashes import Singles
from recuse.tabular.fingerprint import TrainingRows
from recuse.tabular.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore:column 'id' is not used")


def mixed(n_rows=60, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": random.normal(size=n_rows).round(3),
            "floor": random.integers(0, 5, n_rows),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 400, n_rows), unit="D"),
            "city": random.choice(["Bonn", "Ulm", "Köln"], n_rows),
            "id": [f"{seed}-{row}" for row in range(n_rows)],
        }
    )
    frame.loc[::9, "size"] = np.nan
    frame.loc[4::9, "city"] = None
    return frame, random.normal(size=n_rows)


def learned(X, y):
    return TrainingRows.learn(Rows.canonical(X, y, np.ones(len(y))))


FRAME, Y = mixed()


@pytest.mark.parametrize(
    "convert",
    [
        lambda frame: frame.iloc[:, ::-1],
        lambda frame: pl.from_pandas(frame),
        lambda frame: frame.assign(sold=frame["sold"].dt.strftime("%Y-%m-%d"), floor=frame["floor"].astype(float)),
        lambda frame: frame.astype({"city": "category", "floor": "Int64"}),
        lambda frame: frame.drop(columns="id").assign(other=1.0),
        lambda frame: frame.to_numpy(dtype=object),
    ],
    ids=["other order", "polars", "text and floats", "other types", "other columns", "array"],
)
def test_the_same_rows_have_the_same_hashes_in_any_table(convert):
    known = learned(FRAME, Y)
    assert known.schema.names == ["size", "floor", "sold", "city"]
    np.testing.assert_array_equal(known.overlap(convert(FRAME), Y).parts.rows, known.overlap(FRAME, Y).parts.rows)
    assert known.overlap(convert(FRAME), Y).copies.all()


@pytest.mark.parametrize("name", ["size", "floor", "sold", "city"])
def test_a_change_of_any_cell_changes_the_hash(name):
    known = learned(FRAME, Y)
    changed = FRAME.assign(**{name: np.roll(FRAME[name].to_numpy(), 1)})
    same = (changed[name] == FRAME[name]) | (changed[name].isna() & FRAME[name].isna())
    np.testing.assert_array_equal(known.overlap(changed, Y).copies, same)
    assert not known.overlap(FRAME, Y + 1).copies.any()


def test_negative_zero_is_zero_and_columns_have_an_order():
    known = learned(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
    assert known.overlap([[-0.0, 1.0]], [-0.0]).copies.all()
    one, two = known.overlap([[0.0, 1.0], [1.0, 0.0]], np.zeros(2)).parts.rows
    assert one != two


def test_copies_are_kept_once_and_counted():
    X, y = np.array([[1.0], [1.0], [2.0]]), np.array([5.0, 5.0, 6.0])
    known = learned(X, y)
    assert (len(known.hashes), known.count, int(known.repeated.sum())) == (2, 3, 1)
    more = known.with_rows(Rows.canonical(np.array([[2.0], [3.0]]), np.array([6.0, 7.0]), np.ones(2)))
    assert (len(more.hashes), more.count, int(more.repeated.sum())) == (3, 5, 2)
    assert np.all(np.diff(more.hashes.astype(object)) > 0)


def test_copies_of_continuous_rows_are_not_plausible():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(500, 3)), random.normal(size=500)
    fresh = random.normal(size=(100, 3))
    fresh[:5] = X[:5]
    overlap = learned(X, y).overlap(fresh, np.append(y[:5], random.normal(size=95)))
    assert int(overlap.copies.sum()) == 5
    assert overlap.probability < 0.001


def test_copies_in_a_small_discrete_table_are_plausible():
    random = np.random.default_rng(0)
    X, y = random.integers(0, 3, (500, 2)).astype(float), random.integers(0, 4, 500).astype(float)
    fresh, truth = random.integers(0, 3, (200, 2)).astype(float), random.integers(0, 4, 200).astype(float)
    overlap = learned(X, y).overlap(fresh, truth)
    assert overlap.copies.mean() > 0.9
    assert overlap.probability > 0.01


def test_numbers_of_single_precision_and_whole_floats_are_alike():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=40), "code": pd.Categorical(random.integers(0, 4, 40))})
    y = random.normal(size=40)
    other = frame.astype({"size": np.float32}).assign(code=pd.Categorical(frame["code"].astype(float)))
    assert learned(frame, y).overlap(other, y).copies.all()
    assert learned(other, y).overlap(frame, y.astype(np.float32)).copies.all()
    numbers = random.normal(size=(40, 2))
    assert learned(numbers, y).overlap(numbers.astype(np.float32), y).copies.all()
    assert learned(numbers * 1e60, y).overlap(numbers * 1e60, y).copies.all()
    assert not learned(numbers * 1e60, y).overlap(numbers * 2e60, y).copies.any()


def test_parts_of_rows_are_hashed_and_counted_too():
    X, y = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]]), np.array([5.0, 6.0, 5.0])
    known = learned(X, y)
    assert known.singles == Singles(count=3, rows=3, features=1, even=1, odd=3)
    more = known.with_rows(Rows.canonical(X[:1], y[:1], np.ones(1)))
    assert more.singles == Singles(count=4, rows=2, features=1, even=1, odd=2)
