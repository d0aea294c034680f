"""A cell that training had no example of is encoded as missing and marked as novel, or refused on request."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse.tabular.encoder import TableEncoder

LEVELS = pd.CategoricalDtype(["low", "mid", "high"])


def column(values, **options):
    return pd.DataFrame({"x": pd.Series(values, **options)})


def one_cell(train, cell, **options):
    """Give the features, the novelty and what a missing row encodes to."""
    encoder = TableEncoder().fit(column(train, **options))
    encoded = encoder.encode(column([cell], **options))
    return encoded.features[0], encoded.novelty[0, 0], encoder.missing_row


@pytest.mark.parametrize(
    ("train", "cell", "options"),
    [
        (["a", "b"], "mars", {}),
        (["a", None], "mars", {}),
        (["a", "b"], None, {}),
        (["a", "b"], 1.0, {"dtype": object}),
        (["low", "high"], "mid", {"dtype": LEVELS}),
        (["low", None], "mid", {"dtype": LEVELS}),
        ([True, False], None, {"dtype": "boolean"}),
        ([1.0, 3.0], np.nan, {}),
        ([1, 3], None, {"dtype": "Int64"}),
        (["2024-01-01", "2024-05-05"], None, {}),
        (["2024-01-01", "2024-05-05"], "soon", {}),
    ],
)
def test_an_unseen_category_and_a_new_gap_are_missing_and_novel(train, cell, options):
    features, novelty, missing = one_cell(train, cell, **options)
    np.testing.assert_array_equal(features, missing)
    assert novelty == 1


@pytest.mark.parametrize(
    ("train", "cell", "options"),
    [
        (["a", "b", None], None, {}),
        (["a", "b"], "b", {}),
        (["low", "high"], "high", {"dtype": LEVELS}),
        ([1.0, np.nan, 3.0], np.nan, {}),
        ([1.0, 3.0], 2.0, {}),
        (["2024-01-01", None, "2024-05-05"], None, {}),
    ],
)
def test_what_training_had_is_not_novel(train, cell, options):
    assert one_cell(train, cell, **options)[1] == 0


def test_text_where_training_had_numbers_is_missing_and_novel_with_a_warning():
    encoder = TableEncoder().fit(column([1.0, 3.0]))
    with pytest.warns(UserWarning, match=r"^column 'x' had only numbers in training and now holds 2 texts such as 'on"):
        encoded = encoder.encode(column(["one", "3", "two"]))
    np.testing.assert_array_equal(encoded.features, [[0.0], [1.0], [0.0]])
    np.testing.assert_array_equal(encoded.novelty, [[1.0], [0.0], [1.0]])


@given(st.floats(-1e5, 1e5), st.floats(1, 1e6), st.floats(0, 5))
def test_novelty_rises_to_one_at_half_a_range_beyond_either_end(low, width, beyond):
    encoder = TableEncoder().fit(np.array([[low], [low + width]]))
    for value in (low + width + beyond * width, low - beyond * width):
        encoded = encoder.encode(np.array([[value]]))
        assert encoded.novelty[0, 0] == pytest.approx(min(1, 2 * beyond), abs=1e-4)


def test_numbers_far_outside_are_clipped_half_a_range_beyond():
    encoder = TableEncoder().fit(np.array([[0.0], [2.0]]))
    features = encoder.transform(np.array([[1e300], [-1e300], [3.0], [2.5]]))
    np.testing.assert_array_equal(features[:, 0], [2.0, -2.0, 2.0, 1.5])


def test_another_value_in_a_constant_column_is_novel_but_not_one_that_differs_by_rounding():
    encoder = TableEncoder().fit(np.full((3, 1), 0.1))
    novelty = encoder.encode(np.array([[0.1], [np.float32(0.1)], [0.2], [-1e300]])).novelty[:, 0]
    assert novelty[0] == 0
    assert novelty[1] < 0.1
    assert novelty[2:].tolist() == [1, 1]


def test_an_unlimited_encoder_keeps_values_but_marks_the_same_novelty():
    frame = column(["low", "high"], dtype=LEVELS).assign(size=[0.0, 2.0])
    new = column(["mid", "mid"], dtype=LEVELS).assign(size=[9.0, 1.0])
    kept, limited = (TableEncoder(unseen=unseen).fit(frame).encode(new) for unseen in ("keep", "novel"))
    np.testing.assert_array_equal(kept.features, [[0, 1, 0, 8.0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(limited.features, [[0, 0, 0, 2.0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(kept.novelty, limited.novelty)


@pytest.mark.parametrize(
    ("train", "new", "message"),
    [
        (
            column(["us", "eu"]),
            column(["eu", "mars", "venus"]),
            r"^column 'x' must hold a category seen in training, one of \['eu', 'us'\], got 'mars' at row 1, "
            r"the first of 2 such rows$",
        ),
        (column(["us", "eu"]), column(["eu", "mars"], index=[7, 8]), r"got 'mars' at row 1 \(label 8\)$"),
        (column(["us", "eu"]), column(["eu", "mars"], index=["a", "b"]), r"got 'mars' at row 1 \(label 'b'\)$"),
        (
            column(["us", "eu"]),
            column(["eu", None]),
            r"^column 'x' must have no missing value, as in training, got one at row 1$",
        ),
        (column([1.0, 2.0]), column([np.nan]), r"^column 'x' must have no missing value, .* got one at row 0$"),
        (column(["low", "high"], dtype=LEVELS), column(["mid"]), r"one of \['low', 'high'\], got 'mid' at row 0$"),
        (
            column(["2024-01-01", "2024-02-02"]),
            column(["soon"]),
            r"^column 'x' must hold dates or times as in training, got 'soon' at row 0$",
        ),
    ],
)
def test_unseen_error_names_column_value_count_and_row(train, new, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(unseen="error").fit(train).transform(new)


def test_an_error_shows_ten_levels_at_most():
    codes = [f"code {k:04}" for k in range(2000)]
    encoder = TableEncoder(unseen="error").fit(column(codes * 2))
    with pytest.raises(ValueError, match=r"'code 0009', \.\.\. and 1,990 more\], got 'mars'") as error:
        encoder.transform(column(["mars"]))
    assert str(error.value).count("code") == 10


def test_an_unknown_rule_for_unseen_values_is_refused():
    with pytest.raises(ValueError, match=r"^unseen must be 'novel', 'error' or 'keep', got 'ignore'$"):
        TableEncoder(unseen="ignore").fit(column([1.0, 2.0]))


@given(
    st.lists(
        st.tuples(st.floats(-9, 9) | st.none(), st.sampled_from(["eu", "us", None])), min_size=2, max_size=9
    ).filter(lambda rows: any(a is not None for a, _ in rows) and any(b is not None for _, b in rows)),
    st.lists(st.tuples(st.floats(-99, 99) | st.none(), st.sampled_from(["eu", "jp", None, 3])), min_size=1, max_size=9),
)
def test_every_row_is_finite_has_a_novelty_in_the_unit_interval_and_needs_no_other_row(rows, new):
    def table(cells):
        return pd.DataFrame({"a": pd.Series([a for a, _ in cells], dtype=float), "b": [b for _, b in cells]})

    encoder = TableEncoder().fit(table(rows))
    encoded = encoder.encode(table(new))
    assert encoded.features.shape == (len(new), encoder.n_features)
    assert np.isfinite(encoded.features).all()
    assert ((encoded.novelty >= 0) & (encoded.novelty <= 1)).all()
    assert not encoder.encode(table(rows)).novelty.any()
    for row in range(len(new)):
        alone = encoder.encode(table(new[row : row + 1]))
        np.testing.assert_array_equal(alone.features[0], encoded.features[row])
        np.testing.assert_array_equal(alone.novelty[0], encoded.novelty[row])


def test_slices_and_missing_row_describe_the_features_of_each_column():
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["u", "v", None], "c": [1, 2, 3], "d": ["p", "q", "q"]})
    encoder = TableEncoder().fit(frame)
    assert encoder.slices == [slice(0, 2), slice(2, 5), slice(5, 6), slice(6, 8)]
    np.testing.assert_array_equal(encoder.missing_row, [0, 1, 0, 0, 1, 0, 0, 0])
    gaps = pd.DataFrame({name: [None] for name in frame})
    np.testing.assert_array_equal(encoder.transform(gaps)[0], encoder.missing_row)
