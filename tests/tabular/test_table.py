"""Features of any array or dataframe library become the same table."""

import datetime as dt
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from recuse.tabular.encoder import TableEncoder
from recuse.tabular.rows import as_table

CELLS = {
    "weight": [1.5, None, 3.0, 2.0],
    "doors": [2, 4, 4, None],
    "origin": ["eu", "us", None, "eu"],
    "sport": [True, False, True, False],
    "leased": [True, None, True, False],
    "built": [dt.date(2020, 1, 1), dt.date(2021, 5, 3), None, dt.date(2020, 7, 9)],
    "sold": [dt.datetime(2022, 1, 1, 8), None, dt.datetime(2022, 6, 1, 9), dt.datetime(2023, 1, 1, 10)],
    "driven": [dt.timedelta(hours=1), dt.timedelta(hours=2), None, dt.timedelta(hours=4)],
}
POLARS = pl.DataFrame(CELLS).with_columns(
    kind=pl.Series(["van", "bus", None, "van"], dtype=pl.Categorical),
    grade=pl.Series(["b", "a", "b", None], dtype=pl.Enum(["b", "a", "c"])),
    seen=pl.Series("seen", CELLS["sold"]).dt.replace_time_zone("Europe/Berlin"),
)
PANDAS = pd.DataFrame(CELLS).assign(
    kind=["van", "bus", None, "van"],
    grade=pd.Categorical(["b", "a", "b", None], categories=["b", "a", "c"]),
    seen=pd.Series(pd.to_datetime(CELLS["sold"])).dt.tz_localize("Europe/Berlin"),
)
TABLES = {"polars": POLARS, "pyarrow": POLARS.with_columns(pl.col("grade")).to_arrow()}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_polars_and_pyarrow_tables_encode_like_pandas(table):
    frame = as_table(table)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(PANDAS.columns)
    encoder = TableEncoder().fit(PANDAS)
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(PANDAS))
    same = PANDAS.columns if isinstance(table, pl.DataFrame) else PANDAS.columns.drop("grade")  # arrow: text
    learned = TableEncoder().fit(frame[same])
    np.testing.assert_array_equal(learned.transform(PANDAS[same]), TableEncoder().fit(PANDAS[same]).transform(PANDAS))


def test_polars_tables_need_no_pyarrow():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import polars, recuse.tabular.rows as t\n"
        "print(t.as_table(polars.DataFrame({'a': [1.0, None], 'b': ['x', None]})).shape)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "(2, 2)"


def test_a_lazy_table_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match=r"^a table must be in memory, got .*LazyFrame: collect it first$"):
        as_table(POLARS.lazy())


def test_pandas_tables_are_returned_as_they_are():
    frame = PANDAS.set_axis(list("abcd"))
    assert as_table(frame) is frame


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2.5], [None, 4]],
        np.array([[1, 2.5], [np.nan, 4]]),
        np.array([[1, 2.5], [np.nan, 4]], dtype=np.float32),
        np.array([[1, 2.5], [None, 4]], dtype=object),
        np.array([["1", "2.5"], ["nan", "4"]]),
        np.ma.array([[1, 2.5], [99, 4]], mask=[[False, False], [True, False]]),
    ],
    ids=["list", "float64", "float32", "object", "text", "masked"],
)
def test_numbers_become_a_float_array_with_nan_for_missing_values(X):
    table = as_table(X)
    assert isinstance(table, np.ndarray)
    np.testing.assert_array_equal(table, np.array([[1, 2.5], [np.nan, 4]]))


@pytest.mark.parametrize(
    "X",
    [
        [["eu", 1.5], ["us", 2.0]],
        np.array([["eu", 1.5], ["us", 2.0]], dtype=object),
        np.array([["eu", "1.5"], ["us", "2.0"]]),
    ],
    ids=["list", "object", "text"],
)
def test_text_beside_numbers_becomes_a_frame_with_both(X):
    frame = as_table(X)
    np.testing.assert_array_equal(TableEncoder().fit(frame).transform(frame), [[1, 0, -1], [0, 1, 1]])


def test_object_arrays_may_hold_dates():
    frame = as_table(np.array([[dt.date(2024, 1, 1), 1.0], [dt.date(2024, 5, 1), pd.NA]], dtype=object))
    assert TableEncoder().fit(frame).n_features == 7  # trend, month and weekday; number and flag


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[1.0, np.inf]], ValueError, "Input X contains infinity"),
        ([1.0, 2.0], ValueError, "Expected 2D array, got 1D array instead"),
        (["eu", "us"], ValueError, "Expected 2D array, got 1D array instead"),
        (np.ones((2, 2, 2)), ValueError, "dim 3"),
        (np.ones((0, 2)), ValueError, "0 sample"),
        (np.ones((2, 0)), ValueError, "0 feature"),
        (np.ones((2, 1)) * 1j, ValueError, "Complex data not supported"),
        ([[{"a": 1}, 1.0]], TypeError, "argument must be a string or a real number, not 'dict'"),
        (
            PANDAS.assign(weight=[1.0, 2.0, -np.inf, 3.0]).set_axis(list("abcd")),
            ValueError,
            r"^column 'weight' must be finite, got -inf at row 2 \(label 'c'\)$",
        ),
        (PANDAS[:0], ValueError, r"^X must have at least one row and one column, got 0 in shape \(0, 11\)$"),
        (PANDAS[[]], ValueError, r"^X must have at least one row and one column, got 0 in shape \(4, 0\)$"),
        (PANDAS[["doors", "doors"]], ValueError, r"^column names must be unique, got 'doors' more than once$"),
        (
            pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
            ValueError,
            r"(?s)unique column names, got:.*'a' 2 times",
        ),
    ],
)
def test_what_is_no_table_is_refused(X, error, message):
    with pytest.raises(error, match=message):
        as_table(X)
