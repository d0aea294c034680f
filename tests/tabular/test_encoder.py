"""A table with categories and missing values becomes finite features, the same for the same row in any table."""

import dataclasses
import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse import datasets
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
def test_a_column_constant_in_training_stays_near_zero_whatever_comes(value, n_rows, new):
    features = encode(np.full((n_rows, 1), value), np.array([value, *new])[:, None])[:, 0]
    assert features[0] == pytest.approx(0, abs=1e-8)
    assert np.abs(features).max() <= 1.01e-6 * abs(value) + 1e-8


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


def test_declared_levels_keep_their_order_whatever_the_new_table_declares():
    train = column(["b", "a"], dtype=pd.CategoricalDtype(["b", "a"]))
    new = column(["b", "a"], dtype=pd.CategoricalDtype(["a", "b", "c"]))
    np.testing.assert_array_equal(encode(train, new), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(encode(train, column(["b", "a"])), [[1, 0], [0, 1]])


def test_intervals_from_cut_are_categories():
    frame = pd.DataFrame({"age": pd.cut(pd.Series([1.0, 30.0, 60.0]), [0, 18, 40, 99])})
    np.testing.assert_array_equal(encode(frame), np.eye(3))


def test_one_and_its_text_are_one_category_as_they_are_in_a_file():
    features = encode(column([1, "a", "b", "c", "d", "1", 1.0], dtype=object))
    np.testing.assert_array_equal(features, np.eye(5)[[0, 1, 2, 3, 4, 0, 0]])


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_an_infinite_number_is_refused_by_column_value_and_row(wrong):
    message = rf"^column 'x' must be finite, got {wrong} at row 1$"
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(column([1.0, wrong]))
    with pytest.raises(ValueError, match=message):
        encode(column([1.0, 2.0]), column([1.0, wrong]))


def test_dates_where_training_had_numbers_are_refused():
    with pytest.raises(ValueError, match=r"^column 'x' must hold numbers as in training, got datetime64"):
        encode(column([1.0, 2.0]), column(pd.to_datetime(["2024-01-01"])))


@pytest.mark.parametrize("values", [[1 + 2j, 3j], pd.Series([1 + 2j, 3j], dtype=object)])
def test_complex_numbers_are_refused_with_what_to_do(values):
    rule = r"^column 'x' must hold numbers, .*, got complex numbers; split them into two columns of real numbers$"
    with pytest.raises(ValueError, match=rule):
        TableEncoder().fit(pd.DataFrame({"x": values}))


@pytest.mark.parametrize("cells", [[[1], [2]], [{"a": 1}, {"b": 2}]])
def test_cells_that_hold_lists_or_dicts_are_refused(cells):
    with pytest.raises(ValueError, match=r"^column 'x' must hold numbers, text, dates or categories, got [\[{]"):
        TableEncoder().fit(pd.DataFrame({"x": cells}))


@pytest.mark.parametrize("dtype", [float, object, "category", "Int64"])
def test_a_column_without_any_value_is_dropped_with_a_warning(dtype):
    frame = column([None, None], dtype=dtype).assign(y=[1.0, 3.0])
    with pytest.warns(UserWarning, match=r"^column 'x' is not used: all its values are missing$"):
        encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(encoder.transform(frame.assign(x=[5.0, np.nan])), [[-1.0], [1.0]])


def test_a_table_of_dropped_columns_alone_is_refused():
    with (
        pytest.warns(UserWarning, match="not used"),
        pytest.raises(ValueError, match=r"^X must have at least one column to learn from, got none, 1 dropped$"),
    ):
        TableEncoder().fit(column([np.nan, np.nan]))


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


@pytest.mark.parametrize("dtype", ["int64[pyarrow]", "double[pyarrow]", pd.ArrowDtype(pa.decimal128(5, 2))], ids=str)
def test_arrow_numbers_encode_like_floats(dtype):
    cells = [Decimal("1.00"), Decimal("3.00"), None] if "decimal" in str(dtype) else [1, 3, None]
    np.testing.assert_array_equal(encode(column(cells, dtype=dtype)), encode(column([1.0, 3.0, np.nan])))


@pytest.mark.parametrize("dtype", ["string[pyarrow]", pd.ArrowDtype(pa.string()), "large_string[pyarrow]"])
def test_arrow_text_encodes_like_text(dtype):
    cells = ["b", None, "a"]
    np.testing.assert_array_equal(encode(column(cells, dtype=dtype)), encode(column(cells)))


def test_arrow_booleans_and_dictionaries_encode_like_those_of_pandas():
    cells = pd.Series([True, None, False])
    booleans = column(cells, dtype="bool[pyarrow]")
    np.testing.assert_array_equal(encode(booleans), encode(column(cells, dtype="boolean")))
    text = pa.array(["b", "a", "b"]).dictionary_encode()
    dictionary = pd.DataFrame({"x": pd.Series(text, dtype=pd.ArrowDtype(text.type))})
    np.testing.assert_array_equal(encode(dictionary), [[0, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize(
    "values",
    [
        [Decimal("1.5"), Decimal("2.5")],
        [Decimal("1.5"), 2.5],
        ["1.5", "2.5"],
        pd.to_timedelta([1.5, 2.5], unit="s"),
        pd.Series(pd.to_timedelta([1.5, 2.5], unit="s"), dtype=object),
        pd.Series(pd.to_timedelta([1.5, 2.5], unit="s"), dtype="duration[us][pyarrow]"),
        [dt.time(0, 0, 1, 500_000), dt.time(0, 0, 2, 500_000)],
    ],
    ids=lambda values: f"{getattr(values, 'dtype', '')}{type(values[0]).__name__}",
)
def test_decimals_texts_of_decimals_durations_and_times_of_day_are_numbers(values):
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.Series(values)}))
    (learned,) = encoder.columns_
    assert (learned.mean, learned.scale) == (2.0, 0.5)


@pytest.mark.parametrize(
    "values",
    [[1.0, "n/a", 3.0], ["1.0", "n/a", "3.0"], ["1", "?", "3"], pd.Series(["1", "unknown", "3"], dtype="string")],
    ids=str,
)
def test_texts_among_numbers_are_missing_values_with_one_warning(values):
    frame = pd.DataFrame({"x": values})
    with pytest.warns(UserWarning, match=r"^column 'x' holds numbers and 1 texts such as '.*': they count as") as seen:
        encoder = TableEncoder().fit(frame)
    assert len(seen) == 1
    np.testing.assert_array_equal(encoder.transform(frame), [[-1, 0], [0, 1], [1, 0]])
    assert not encoder.encode(frame).novelty.any()


@pytest.mark.parametrize("values", [["1", "2", "2"], ["01", "02", "n/a"], ["8", "10", "S"], ["007", "n/a", "008"]])
def test_text_that_may_be_codes_stays_a_category(values):
    (learned,) = TableEncoder().fit(pd.DataFrame({"x": values})).columns_
    assert {level.text for level in learned.column.levels} == set(values)


def frame_of_levels(counts):
    return column([level for level, count in counts.items() for _ in range(count)])


def test_rare_levels_of_a_column_with_many_share_one_feature():
    frame = frame_of_levels({**{f"rare {k:02}": 2 for k in range(30)}, **{f"common {k:02}": 9 for k in range(40)}})
    encoder = TableEncoder().fit(frame)
    (learned,) = encoder.columns_
    assert encoder.n_features == 50
    assert learned.pooled == tuple(f"rare {k:02}" for k in range(9, 30))
    encoded = encoder.encode(column(["rare 29", "rare 09", "rare 00", "new"]))
    np.testing.assert_array_equal(encoded.features[0], encoded.features[1])
    assert encoded.features[:3].argmax(axis=1).tolist() == [49, 49, 40]
    assert encoded.features.sum(axis=1).tolist() == [1, 1, 1, 0]
    assert encoded.novelty[:, 0].tolist() == [0, 0, 0, 1]


def test_fifty_levels_have_a_feature_each_and_weights_count_as_rows():
    assert TableEncoder().fit(frame_of_levels({str(k): 2 for k in range(50)})).n_features == 50
    frame = frame_of_levels({f"level {k:02}": 2 for k in range(51)})
    heavy = np.where(frame["x"].isin(["level 50", "level 49"]), 3.0, 1.0)
    (learned,) = TableEncoder().fit(frame, heavy).columns_
    assert learned.pooled == ("level 47", "level 48")


def test_a_category_of_many_levels_keeps_those_of_the_training_rows():
    kind = pd.CategoricalDtype([f"level {k}" for k in range(100)])
    few = TableEncoder().fit(column(["level 7", "level 3"], dtype=kind))
    assert [level.text for level in few.schema_.columns[0].levels] == ["level 3", "level 7"]
    many = TableEncoder().fit(column(kind.categories.repeat(2), dtype=kind))
    assert many.n_features == 50


def test_text_that_names_rows_is_dropped_with_a_warning():
    frame = column([f"invoice {k}" for k in range(60)]).assign(y=np.arange(60.0))
    with pytest.warns(UserWarning, match=r"^column 'x' is not used: 60 different texts in 60 rows identify rows$"):
        encoder = TableEncoder().fit(frame)
    assert encoder.transform(frame).shape == (60, 1)
    assert encoder.slices == [slice(0, 0), slice(0, 1)]
    assert encoder.encode(frame.assign(x="invoice 99")).novelty[:, 0].max() == 0


def test_what_is_learned_is_plain_data():
    frame = pd.DataFrame(
        {
            "number": [1.0, np.nan, 3.0],
            "text": ["a", "b", None],
            "kind": pd.Categorical(["u", "v", "v"], categories=["u", "v", "w"]),
            "day": pd.to_datetime(["2024-01-01", "2024-02-03", None]).tz_localize("UTC"),
        }
    )
    encoder = TableEncoder().fit(frame)
    learned = [dataclasses.asdict(each) for each in encoder.columns_]
    assert json.loads(json.dumps(learned))


def test_numbers_whose_squares_overflow_are_standardised_too():
    np.testing.assert_allclose(encode(np.array([[0.0], [1e300]])), [[-1.0], [1.0]])


def as_published(train, X):
    """Standardise numbers and give each declared level a feature, by a plain loop."""
    features = []
    for name in train:
        if isinstance(train[name].dtype, pd.CategoricalDtype):
            features += [(X[name] == level).to_numpy(float) for level in train[name].cat.categories]
        else:
            values = train[name].to_numpy()
            mean = np.average(values, weights=np.ones(len(values)))
            scale = np.average((values - mean) ** 2, weights=np.ones(len(values))) ** 0.5
            features.append((X[name].to_numpy() - mean) / scale)
    return np.column_stack(features)


@pytest.mark.parametrize("name", ["abalone", "airfoil", "auto_mpg", "housing", "concrete"])
def test_the_tables_of_the_paper_are_encoded_as_published(name):
    data = datasets.load(name)
    for repeat in (0, 3, 5):  # 3 and 5 have outliers and absent levels outside the training rows
        (train, _), *others = datasets.split(data, repeat)
        encoder = TableEncoder(unseen="keep").fit(train)
        for X in (train, *(part[0] for part in others)):
            np.testing.assert_array_equal(encoder.transform(X), as_published(train, X))
        np.testing.assert_array_equal(TableEncoder().fit(train).transform(train), as_published(train, train))


def test_a_date_column_without_any_date_is_missing():
    encoder = TableEncoder().fit(pd.DataFrame({"when": pd.date_range("2024-01-01", periods=9)}))
    encoded = encoder.encode(pd.DataFrame({"when": pd.Series([None, None], dtype=object)}))
    assert encoded.novelty.tolist() == [[1.0], [1.0]]
