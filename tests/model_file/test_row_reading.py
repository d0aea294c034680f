"""A row given as a mapping is read as the same row in a DataFrame: the inputs of the graph, or the error."""

import re
import warnings
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recuse.model_file.reading import TableReader
from recuse.model_file.schema import schema_of
from recuse.tabular.encoder import TableEncoder

TRAINING = pd.DataFrame(
    {
        "weight": [1.0, 2.5, None, 4.0, 3.0, 2.0],
        "count": [1, 2, 3, 4, 5, 6],
        "noisy": ["1.5", "2.5", "n/a", "3.5", "4.5", "5.5"],
        "sold": pd.to_datetime(["2020-01-01", "2021-05-03", "2022-01-01", "2020-03-01", "2020-07-01", "2021-01-01"]),
        "town": ["a", "b", None, "a", "", "b"],
        "doors": [True, False, True, True, False, True],
        "class": pd.Categorical([1, 2, 3, 1, 2, 3]),
        "share": pd.Categorical([0.5, 1.5, 2.5, 0.5, 1.5, 2.5]),
    }
)
ZONED = TRAINING.assign(sold=TRAINING["sold"].dt.tz_localize("Europe/Berlin"))

# before version 3, tables of pandas have no dates outside 1677 to 2262
_YEARS = (1, 9999) if int(pd.__version__.split(".")[0]) >= 3 else (1700, 2200)
_FIRST, _LAST = datetime(_YEARS[0], 1, 1), datetime(_YEARS[1], 12, 31)
_FAR = ["0001-01-01", "9999-12-31T23:59:59.999999"] if _YEARS[0] == 1 else []

cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-5, 5),
    st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, -(10**30)]),
    st.floats(),
    st.sampled_from([0.5, 1.0, 2.5, -0.0]),
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.sampled_from(["a", "b", "c", "", "1", "1.5", " 2 ", "1e5", "1_000", "n/a", "nan", "inf", "True", "0x10", "٣"]),
    st.dates(_FIRST.date(), _LAST.date()).map(str),
    st.datetimes(_FIRST, _LAST).map(str),
    st.datetimes(_FIRST, _LAST).map(lambda time: time.isoformat()),
    st.sampled_from(
        [
            *_FAR, "2020-01-01", "2020-02-30", "2020-1-1", "2020-01-01T24:00:00",
            "2020-01-01T10", "2020-01-01T10:30", "2020-01-01 10:30:00.5", "2020-01-01T10:30:00Z", "20200101",
            "2020-01-01T10:30:00+02:00", "2020-01-01T10:30:00.1234567", "0000-01-01", "2020-W01-1", "soon",
        ]
    ),
)  # fmt: skip


_NUMPY_INT = re.compile(r"np\.int64\((\d+)\)")  # the name of a column of an array, in a table


def reader(table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the text in the column noisy
        return TableReader(schema_of(TableEncoder(**options).fit(table)))


READERS = {
    "novel": reader(TRAINING),
    "zoned": reader(ZONED),
    "keep": reader(TRAINING, unseen="keep"),
    "error": reader(TRAINING, unseen="error"),
    "numbers": reader(TRAINING[["weight", "count"]]),
}


def outcome(read, *arguments):
    """Return the inputs and the warnings, or the type and the text of the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            feeds = read(*arguments)
        except Exception as error:
            return type(error).__name__, _NUMPY_INT.sub(r"\1", str(error))
    return feeds, sorted({_NUMPY_INT.sub(r"\1", str(each.message)) for each in caught})


def by_row(reader, row):
    feeds = reader.read_row(row)
    return reader.read(row) if feeds is None else feeds


def assert_same(reader, row):
    expected = outcome(lambda: reader.read(pd.DataFrame({name: [cell] for name, cell in row.items()})))
    found = outcome(by_row, reader, row)
    assert found[1] == expected[1]
    if isinstance(expected[0], str):
        assert found == expected
        return
    assert list(found[0]) == list(expected[0])
    for name, values in expected[0].items():
        assert found[0][name].dtype == values.dtype, name
        assert found[0][name].shape == values.shape, name
        np.testing.assert_array_equal(found[0][name], values)  # NaN equals NaN


@pytest.mark.parametrize("name", READERS)
@given(st.data())
@settings(max_examples=80)
def test_a_mapping_is_read_as_a_table_of_one_row(name, data):
    used = READERS[name].schema.names
    assert_same(READERS[name], {column: data.draw(cells, label=str(column)) for column in used})


@given(cells, st.sampled_from(list(TRAINING.columns)))
@example(10**30, "weight")
@example("\ud800", "town")
@settings(max_examples=200)
def test_one_odd_cell_in_a_usual_row(cell, column):
    row = {"weight": 2, "count": 3, "noisy": "2.5", "sold": "2020-05-06T07:08:09", "town": "a", "doors": True}
    assert_same(READERS["novel"], {**row, "class": 2, "share": 0.5, column: cell})


@given(st.lists(cells, min_size=2, max_size=2))
@settings(max_examples=80)
def test_columns_of_an_array_are_found_by_position(values):
    of_array = reader(TRAINING[["weight", "count"]].fillna(2.0).to_numpy())
    assert_same(of_array, {"any": values[0], "name": values[1]})


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"weight": 1.0},
        {"weight": 1.0, "count": [1, 2]},
        {"weight": [1.0], "count": [2]},
        {"weight": {}, "count": 2},
    ],
    ids=["empty", "missing column", "mixed lengths", "columns", "object"],
)
def test_other_mappings_are_left_to_tables(row):
    assert READERS["numbers"].read_row(row) is None


def test_the_usual_cells_need_no_table():
    row = {"weight": 2, "count": None, "noisy": 2.5, "sold": "2020-05-06", "town": "x", "doors": True, "class": 2}
    used = READERS["novel"]
    assert used.read_row({**row, "share": 0.5, "other": 1}) is not None
    assert used._rows.read({**row, "share": 0.5}, warn=False)["sold"][0, 0] == np.datetime64("2020-05-06", "us").astype(
        int
    )
