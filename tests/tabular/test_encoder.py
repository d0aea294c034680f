"""A table with categories and gaps becomes finite features, the same for the same row in any table."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse.tabular.encoder import TableEncoder


def encode(train, new=None):
    return TableEncoder().fit(train).transform(train if new is None else new)


def column(values, **options):
    return pd.DataFrame({"x": pd.Series(values, **options)})


THOUSANDTHS = st.integers(-(10**9), 10**9).map(lambda value: value / 1000)


@given(st.lists(THOUSANDTHS, min_size=2, max_size=30, unique=True))
def test_numbers_are_standardised(values):
    features = encode(np.array(values)[:, None])[:, 0]
    assert features.mean() == pytest.approx(0, abs=1e-6)
    assert features.std() == pytest.approx(1)


@given(st.floats(-1e6, 1e6), st.integers(2, 30), st.lists(THOUSANDTHS, min_size=1))
def test_a_column_constant_in_training_stays_as_it_is_but_for_its_mean(value, n_rows, new):
    features = encode(np.full((n_rows, 1), value), np.array(new)[:, None])[:, 0]
    np.testing.assert_allclose(features, np.array(new) - value, atol=1e-8)


@given(
    st.lists(
        st.tuples(st.floats(-9, 9) | st.none(), st.sampled_from(["eu", "us", "jp", None])), min_size=2, max_size=12
    ).filter(lambda rows: any(a is not None for a, _ in rows) and any(b is not None for _, b in rows)),
    st.data(),
)
def test_a_row_gives_the_same_features_in_any_table(rows, data):
    frame = pd.DataFrame({"a": pd.Series([a for a, _ in rows], dtype=float), "b": [b for _, b in rows]})
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    encoder = TableEncoder().fit(frame)
    whole = encoder.transform(frame)
    np.testing.assert_array_equal(encoder.transform(frame.iloc[chosen]), whole[chosen])
    assert np.isfinite(whole).all()
    assert whole.shape == (len(rows), encoder.n_features)


def test_weights_count_as_copies_in_mean_and_scale():
    weighted = TableEncoder().fit(np.array([[0.0], [1.0]]), np.array([3.0, 1.0])).columns_
    copied = TableEncoder().fit(np.array([[0.0], [0.0], [0.0], [1.0]])).columns_
    assert weighted == copied


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype=object),
        pd.Series(["b", "a", "b"], dtype="string"),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series([True, False, True]),
        pd.Series([True, False, True], dtype="boolean"),
        pd.Series([True, False, True], dtype=object),
        pd.Series([2, 1, 2], dtype="category"),
        pd.Series([(2, 2), (1, 1), (2, 2)]),
    ],
    ids=lambda values: f"{values.dtype}-{values[0]}",
)
def test_every_kind_of_category_becomes_one_output_per_level(values):
    np.testing.assert_array_equal(encode(pd.DataFrame({"x": values})), [[0, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "int8", "float32", "uint16", object])
def test_every_kind_of_number_is_a_number(dtype):
    np.testing.assert_array_equal(encode(column([1, 3], dtype=dtype)), [[-1.0], [1.0]])


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_numbers_that_came_as_objects_are_numbers_with_gaps(gap):
    frame = column([1, gap, 3.0], dtype=object)
    np.testing.assert_array_equal(encode(frame), [[-1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "float64"])
def test_a_gap_among_numbers_takes_the_mean_and_raises_a_flag(dtype):
    np.testing.assert_array_equal(encode(column([1, None, 3], dtype=dtype)), [[-1, 0], [0, 1], [1, 0]])


def test_a_gap_among_numbers_that_had_none_in_training_takes_the_mean():
    np.testing.assert_array_equal(encode(column([1.0, 3.0]), column([np.nan])), [[0.0]])


@pytest.mark.parametrize("dtype", ["str", object, "string", "category"])
def test_a_gap_among_categories_is_a_level_of_its_own(dtype):
    frame = column(["a", None, "b"], dtype=dtype)
    np.testing.assert_array_equal(encode(frame), [[1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_a_gap_among_booleans_is_a_level_of_its_own():
    frame = column([True, None, False], dtype="boolean")
    np.testing.assert_array_equal(encode(frame), [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


def test_a_gap_among_categories_that_had_none_in_training_is_refused():
    with pytest.raises(ValueError, match=r"^column 'x' must have no missing value, as in training, got one at row 1$"):
        encode(column(["a", "b"]), column(["a", None]))


def test_a_declared_level_that_training_did_not_meet_is_known():
    kind = pd.CategoricalDtype(["low", "mid", "high"])
    features = encode(column(["low", "high"], dtype=kind), column(["mid", "high"], dtype=kind))
    np.testing.assert_array_equal(features, [[0, 1, 0], [0, 0, 1]])


def test_declared_levels_keep_their_order_whatever_the_new_table_declares():
    train = column(["b", "a"], dtype=pd.CategoricalDtype(["b", "a"]))
    new = column(["b", "a"], dtype=pd.CategoricalDtype(["a", "b", "c"]))
    np.testing.assert_array_equal(encode(train, new), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(encode(train, column(["b", "a"])), [[1, 0], [0, 1]])


def test_intervals_from_cut_are_categories():
    frame = pd.DataFrame({"age": pd.cut(pd.Series([1.0, 30.0, 60.0]), [0, 18, 40, 99])})
    np.testing.assert_array_equal(encode(frame), np.eye(3))


def test_one_and_its_text_are_different_categories():
    np.testing.assert_array_equal(encode(column([1, "1", "a"], dtype=object)), np.eye(3))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            column(["eu", "mars"]),
            r"^column 'x' must hold a category seen in training, one of \['eu', 'us'\], got 'mars' ",
        ),
        (column([1.0, 2.0]), r"one of \['eu', 'us'\], got 1\.0 at row 0$"),
        (column(["eu", "mars"], index=[7, 8]), r"got 'mars' at row 8$"),
        (column(["eu", "mars"], index=["first", "second"]), r"got 'mars' at row second$"),
    ],
)
def test_an_unknown_category_is_refused_by_column_value_and_row(new, message):
    with pytest.raises(ValueError, match=message):
        encode(column(["us", "eu"]), new)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_an_infinite_number_is_refused_by_column_value_and_row(wrong):
    message = rf"^column 'x' must be finite, got {wrong} at row 1$"
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(column([1.0, wrong]))
    with pytest.raises(ValueError, match=message):
        encode(column([1.0, 2.0]), column([1.0, wrong]))


def test_text_where_training_had_numbers_is_refused():
    with pytest.raises(ValueError, match=r"^column 'x' must hold numbers as in training, got (str|object)$"):
        encode(column([1.0, 2.0]), column(["one", "two"]))


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2024-01-01", "2024-01-02"]),
        pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("UTC"),
        pd.to_timedelta([1, 2], unit="D"),
        pd.period_range("2024-01", periods=2, freq="M"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)],
        [1 + 2j, 3j],
    ],
    ids=lambda values: str(getattr(values, "dtype", type(values[0]))),
)
def test_dates_times_and_complex_numbers_are_refused_with_what_to_do(values):
    rule = r"^column 'x' must hold numbers, text, booleans or categories, got .*; turn dates and times into numbers"
    with pytest.raises(ValueError, match=rule):
        TableEncoder().fit(pd.DataFrame({"x": values}))


@pytest.mark.parametrize("cells", [[[1], [2]], [{"a": 1}, {"b": 2}]])
def test_cells_that_hold_lists_or_dicts_are_refused(cells):
    with pytest.raises(ValueError, match=r"^column 'x' must hold numbers, text or categories, got [\[{]"):
        TableEncoder().fit(pd.DataFrame({"x": cells}))


@pytest.mark.parametrize("dtype", [float, object, "category", "Int64"])
def test_a_column_of_gaps_alone_is_refused(dtype):
    with pytest.raises(ValueError, match=r"^column 'x' must hold at least one value, got only missing ones$"):
        TableEncoder().fit(column([None, None], dtype=dtype))


def test_columns_are_found_by_name_and_a_missing_one_is_named():
    train = pd.DataFrame({"a": [1.0, 3.0], "b": [10.0, 30.0]})
    np.testing.assert_array_equal(encode(train, train[["b", "a"]]), encode(train))
    with pytest.raises(ValueError, match=r"^X must have the column 'b', as in training, got columns \['a'\]$"):
        encode(train, train[["a"]])


def test_columns_are_found_by_position_where_one_of_the_tables_has_no_names():
    train = pd.DataFrame({"a": [1.0, 3.0], "b": [30.0, 10.0]})
    np.testing.assert_array_equal(encode(train, train.to_numpy()), encode(train))
    np.testing.assert_array_equal(encode(train.to_numpy(), train), encode(train))
    with pytest.raises(ValueError, match=r"^X must have 2 columns, as in training, got 1$"):
        encode(train, train.to_numpy()[:, :1])


def test_a_table_without_columns_is_refused():
    with pytest.raises(ValueError, match=r"^X must have at least one column to learn from, got none$"):
        TableEncoder().fit(pd.DataFrame(index=range(3)))
