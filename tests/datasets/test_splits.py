"""Splits: every row is in exactly one part, and the seed determines which."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse import datasets

SIZES = {
    "abalone": [2506, 835, 836],
    "airfoil": [901, 300, 302],
    "auto_mpg": [235, 78, 79],
    "housing": [303, 101, 102],
    "concrete": [618, 206, 206],
}


def numbered(n_rows):
    """A table of arrays in which feature and target are the row's number."""
    return SimpleNamespace(X=np.arange(n_rows).reshape(-1, 1), y=np.arange(n_rows))


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    parts = datasets.split(datasets.load(name), 0)
    assert [len(X) for X, _ in parts] == [len(y) for _, y in parts] == SIZES[name]


@given(n_rows=st.integers(5, 400), repeat=st.integers(0, 2**32))
def test_every_row_lands_in_exactly_one_part(n_rows, repeat):
    parts = datasets.split(numbered(n_rows), repeat)
    assert sorted(np.concatenate([y for _, y in parts])) == list(range(n_rows))
    assert [len(y) for _, y in parts[:2]] == [int(np.floor(n_rows * 6 / 10)), int(np.floor(n_rows * 2 / 10))]


def test_rows_keep_their_label_type_and_target():
    data = datasets.load("auto_mpg")
    for X, y in datasets.split(data, 3):
        pd.testing.assert_frame_equal(X, data.X.loc[X.index])
        pd.testing.assert_series_equal(y, data.y.loc[X.index])


def test_arrays_stay_arrays_and_rows_stay_together():
    for X, y in datasets.split(numbered(20), 0):
        assert isinstance(X, np.ndarray)
        np.testing.assert_array_equal(X[:, 0], y)


def test_same_repeat_same_rows_other_repeat_other_rows():
    data = datasets.load("housing")
    first, again, other = (datasets.split(data, repeat) for repeat in (1, 1, 2))
    for (X, y), (X_again, y_again) in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(X, X_again)
        pd.testing.assert_series_equal(y, y_again)
    assert set(first[2][0].index) != set(other[2][0].index)


def test_rows_of_a_repeat_are_pinned():
    train, validation, test = datasets.split(numbered(10), 0)
    order = np.random.default_rng(0).permutation(10)
    np.testing.assert_array_equal(np.concatenate([train[1], validation[1], test[1]]), order)


def test_the_table_is_left_as_it_was():
    data = datasets.load("housing")
    (X, _), _, _ = datasets.split(data, 0)
    X.iloc[:, 0] = -1.0
    pd.testing.assert_frame_equal(data.X, datasets.load("housing").X)


def test_numpy_integer_is_a_repeat():
    first, second = (datasets.split(numbered(10), repeat)[0][1] for repeat in (4, np.int64(4)))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("repeat", [-1, 0.5, 1.0, "0", None, True])
def test_bad_repeat(repeat):
    with pytest.raises(ValueError, match=f"repeat must be an integer >= 0, got {repeat!r}"):
        datasets.split(numbered(10), repeat)


def test_unequal_lengths():
    table = SimpleNamespace(X=np.zeros((6, 2)), y=np.zeros(7))
    with pytest.raises(ValueError, match="X and y must have equal length, got 6 and 7"):
        datasets.split(table, 0)


@pytest.mark.parametrize("n_rows", [0, 4])
def test_too_few_rows(n_rows):
    with pytest.raises(ValueError, match=f"at least 5 rows.*got {n_rows}"):
        datasets.split(numbered(n_rows), 0)
