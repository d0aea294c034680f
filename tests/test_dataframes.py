"""Columns of any dataframe library keep their values, and rows are aligned by label."""

import datetime as dt
import sys
from decimal import Decimal
from types import ModuleType

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse.dataframes import aligned, check_target_type, float_array, is_frame, is_pandas, row_name


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_shuffled_labels_bring_every_value_back_to_its_row(values, random):
    labels = pd.Index([f"row {k}" for k in range(len(values))])
    order = random.sample(range(len(values)), len(values))
    shuffled = pd.Series(values, index=labels).iloc[order]
    assert aligned(shuffled, labels, "y").tolist() == values
    assert aligned(shuffled.to_frame(), labels, "y").iloc[:, 0].tolist() == values
    assert aligned(shuffled, None, "y").tolist() == [values[place] for place in order]


def test_values_without_labels_are_taken_by_position():
    labels = pd.Index(["a", "b"])
    assert aligned(["u", "v"], labels, "groups") == ["u", "v"]
    assert aligned(pl.Series([1, 2]), labels, "y").tolist() == [1, 2]
    assert aligned(None, labels, "sample_weight") is None


def test_groups_of_text_are_aligned():
    groups = pd.Series(["u", "v"], index=["b", "a"], dtype="category")
    assert aligned(groups, pd.Index(["a", "b"]), "groups").tolist() == ["v", "u"]


def test_another_length_is_left_to_the_check_of_the_caller():
    short = pd.Series([1.0], index=["a"])
    assert aligned(short, pd.Index(["a", "b"]), "y") is short


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (None, "row 1"),
        (pd.RangeIndex(2), "row 1"),
        (pd.Index([0, 1]), "row 1"),
        (pd.Index([7, 8]), "row 1 (label 8)"),
        (pd.Index(["a", "b"]), "row 1 (label 'b')"),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), "row 1 (label ('b', 2))"),
    ],
)
def test_a_row_is_named_by_position_and_by_a_label_that_differs(index, name):
    assert row_name(1, index) == name


@pytest.mark.parametrize(
    "values",
    [
        [1, None],
        np.array([1, None], dtype=object),
        np.ma.array([1, 99], mask=[False, True]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="int64[pyarrow]"),
        pd.Series([1, pd.NA], dtype=object),
        pl.Series([1, None]),
        pa.chunked_array([[1], [None]]),
        pa.array([1, None]),
    ],
    ids=lambda values: f"{type(values).__module__}-{getattr(values, 'dtype', '')}",
)
def test_numbers_of_any_library_become_floats_with_nan_for_missing_values(values):
    np.testing.assert_array_equal(float_array(values, "y"), [1.0, np.nan])


@pytest.mark.parametrize("y", [[1, 2], [True, False], ["many"], [], np.ones((2, 2)), pd.DataFrame({"a": [1.0]}), None])
def test_other_targets_pass_the_check_of_types(y):
    check_target_type(y)


@pytest.mark.parametrize(
    "y",
    [
        pa.array([dt.date(2024, 1, 1)]),
        pa.chunked_array([[dt.datetime(2024, 1, 1)]]),
        pd.Series(["2024"], dtype="period[Y]"),
    ],
)
def test_dates_are_refused_as_targets(y):
    with pytest.raises(TypeError, match=r"^y must hold numbers, got "):
        check_target_type(y)


CELLS = [
    1, 2.5, True, None, "text", np.float32(1), np.int8(1), np.bool_(True), np.nan, pd.NA, pd.NaT, Decimal(1), 1j,
    np.complex64(1), dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.time(1), dt.timedelta(1), np.datetime64("2024"),
    np.timedelta64(1, "s"), pd.Timestamp("2024"), pd.Timedelta("1D"), pd.Period("2024"),
]  # fmt: skip


@given(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3), st.booleans())
def test_lists_and_arrays_of_objects_are_refused_by_the_type_that_pandas_infers(cells, as_array):
    kind = pd.api.types.infer_dtype(cells, skipna=True)
    refused = {"complex", "date", "datetime", "datetime64", "period", "time", "timedelta", "timedelta64"}
    values = np.empty(len(cells), dtype=object) if as_array else cells
    values[:] = cells
    if kind not in refused:
        check_target_type(values)
        return
    with pytest.raises(TypeError, match=f"^y must hold numbers, got {kind}"):
        check_target_type(values)


def test_pandas_objects_are_told_from_others():
    series = pd.Series([1.0])
    assert [is_pandas(series), is_pandas(series.to_frame()), is_pandas(series.to_numpy())] == [True, True, False]
    assert [is_frame(series), is_frame(series.to_frame()), is_frame(None)] == [False, True, False]


@pytest.mark.parametrize("module", [None, ModuleType("pandas")], ids=["absent", "being imported"])
def test_without_pandas_nothing_is_a_pandas_object(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", module)
    assert not is_pandas([1.0])
    np.testing.assert_array_equal(float_array([1, 2.5], "y"), [1.0, 2.5])
    np.testing.assert_array_equal(float_array(np.array([1, None], dtype=object), "y"), [1.0, np.nan])
