"""A cell is the same input of the graph in every form: a plain value, a text, JSON, and a column of pandas or Arrow."""

import json
import math
import warnings
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recuse.model_file.reading import TableReader
from recuse.model_file.schema import UNKNOWN_TIME, missing_text, unknown_text
from recuse.tabular.codecs import MISSING_TIME, MISSING_WORDS, State, cell_text
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.schema import Kind

TRAINING = pd.DataFrame(
    {
        "weight": [1.0, 2.5, None, 4.0, 3.0, 2.0],
        "count": [1, 2, 3, 4, 5, 6],
        "noisy": ["1.5", "2.5", "n/a", "3.5", "4.5", "5.5"],
        "sold": pd.to_datetime(["2020-01-01", "2021-05-03", "2022-01-01", "2020-03-01", "2020-07-01", "2021-01-01"]),
        "seen": pd.to_datetime(["2020-01-01", "2021-05-03", None, "2020-03-01", "2020-07-01", "2021-01-01"]),
        "town": ["a", "b", None, "a", "", "b"],
        "code": ["1", "2", "07", "1", "none", "b"],
        "doors": [True, False, True, True, False, True],
        "class": pd.Categorical([1, 2, 3, 1, 2, 3]),
        "share": pd.Categorical([0.5, 1.5, 2.5, 0.5, 1.5, 2.5]),
    }
)
TRAINING["seen"] = TRAINING["seen"].dt.tz_localize("Europe/Berlin")

# before version 3, tables of pandas have no dates outside 1677 to 2262
_YEARS = (1, 9999) if int(pd.__version__.split(".")[0]) >= 3 else (1700, 2200)
_FIRST, _LAST = datetime(_YEARS[0], 1, 1), datetime(_YEARS[1], 12, 31)

cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**53 + 1, 2**63 - 1]),
    st.floats(allow_infinity=False),
    st.sampled_from([0.5, 1.0, 2.5, -0.0]),
    st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda text: "inf" not in text.casefold()),
    st.sampled_from(sorted(MISSING_WORDS)),
    st.sampled_from(["a", "b", "c", "1", "01", "1.5", " 2 ", "1e5", "1_000", "N/A", "NaN"]),
    st.sampled_from(["True", "false", "0x10", "٣"]),
    st.dates(_FIRST.date(), _LAST.date()).map(str),
    st.datetimes(_FIRST, _LAST).map(str),
    st.datetimes(_FIRST, _LAST).map(lambda time: time.isoformat()),
    st.sampled_from(
        [
            "2020-01-01", "2020-02-30", "2020-1-1", "2020-01-01T24:00:00", "2020-01-01T10", "2020-01-01T10:30",
            "2020-01-01 10:30:00.5", "2020-01-01T10:30:00Z", "20200101", "2020-01-01T10:30:00+02:00",
            "2020-01-01T10:30:00.1234567", "0000-01-01", "2020-W01-1", "soon",
        ]
    ),
)  # fmt: skip


def reader(table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the text in the column noisy
        return TableReader(TableEncoder(**options).fit(table).schema_)


ONE = {name: reader(TRAINING[[name]]) for name in TRAINING}


def outcome(name, table):
    """Return the input and the state of one cell; None if its column is refused for its type."""
    try:
        reading = ONE[name].read(table, warn=False)
    except ValueError as error:
        assert "must hold" in str(error)  # noqa: PT017
        return None
    (values,) = reading.feeds.values()
    return values[0, 0], state_of(name, values[0, 0])


def state_of(name, value):
    """Return the state of the cell that an input of the graph stands for."""
    column = ONE[name].schema.columns[0]
    if value in {Kind.NUMBER: [np.inf], Kind.DATE: [UNKNOWN_TIME]}.get(column.kind, [unknown_text(column)]):
        return State.UNKNOWN
    missing = {Kind.NUMBER: value != value, Kind.DATE: value == MISSING_TIME}
    return State.MISSING if missing.get(column.kind, value == missing_text(column)) else State.KNOWN


def text_of(cell, name):
    """Return the text of a cell in a file."""
    if cell is None or isinstance(cell, str):
        return cell
    return cell_text(cell) if ONE[name].schema.columns[0].kind == Kind.CATEGORY else str(cell)


def forms(cell, name):
    """Return tables of one cell in all forms."""
    text = text_of(cell, name)
    yield "objects", pd.DataFrame({name: pd.Series([cell], dtype=object)})
    yield "series", pd.DataFrame({name: pd.Series([cell])})
    yield "text", {name: text}
    yield "column of text", pd.DataFrame({name: pd.Series([text], dtype="str")})
    yield "Arrow", pa.table({name: [cell]})
    yield "Arrow text", pa.table({name: pa.array([text], pa.string())})
    yield "JSON", {name: json.loads(json.dumps(None if cell != cell else cell))}


@pytest.mark.parametrize("name", TRAINING)
@given(cell=cells)
@example("?")
@example("unknown")
@example(True)
@example(1.0)
@example("true")
@example(2**53 + 1)
@settings(max_examples=100, deadline=None)
def test_a_cell_is_read_alike_in_every_form(name, cell):
    expected = outcome(name, {name: cell})
    for form, table in forms(cell, name):
        found = outcome(name, table)
        if found is None:  # such as a column of numbers where dates were
            assert expected[1] == State.UNKNOWN, form
            continue
        np.testing.assert_equal(found, expected, form)


def test_the_words_for_missing_values_are_missing_in_every_column_that_has_no_such_category():
    for word in [*MISSING_WORDS, "N/A", " nan "]:
        states = {name: outcome(name, {name: word})[1] for name in TRAINING}
        known = {name for name, state in states.items() if state == State.KNOWN}
        assert known <= {"town", "code"}
        assert set(states.values()) <= {State.KNOWN, State.MISSING}
    assert outcome("code", {"code": "none"})[1] == State.KNOWN


@given(st.lists(cells, min_size=2, max_size=6), st.sampled_from(list(TRAINING)))
@settings(max_examples=100, deadline=None)
def test_a_cell_does_not_depend_on_the_others_of_its_column(column, name):
    try:
        together = ONE[name].read(pd.DataFrame({name: pd.Series(column, dtype=object)}), warn=False)
    except ValueError:
        return
    (values,) = together.feeds.values()
    alone = [outcome(name, {name: cell}) for cell in column]
    np.testing.assert_equal(values[:, 0].tolist(), [value for value, _ in alone])
    as_list = ONE[name].read({name: column}, warn=False)
    np.testing.assert_equal(as_list.feeds[name].tolist(), values.tolist())
    assert as_list.comparison.problems() == together.comparison.problems()


def test_times_with_a_zone_are_local_times_beside_others_without():
    mixed = pd.DataFrame({"seen": ["2020-07-01T10:00:00Z", "2020-07-01T10:00:00", "2020-07-01T10:00:00+00:00"]})
    times = ONE["seen"].read(mixed).feeds["seen"][:, 0].view("datetime64[us]")
    assert [str(time)[11:16] for time in times] == ["12:00", "10:00", "12:00"]


ALL = {
    "novel": reader(TRAINING),
    "keep": reader(TRAINING, unseen="keep"),
    "error": reader(TRAINING, unseen="error"),
    "numbers": reader(TRAINING[["weight", "count"]]),
}


def read(reader, table):
    """Return the reading and the warnings, or the type and the text of the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            reading = reader.read(table)
        except Exception as error:
            return type(error).__name__, str(error)
    return reading, sorted({str(each.message) for each in caught})


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_a_mapping_is_read_as_a_table_of_one_row(name, data):
    row = {column: data.draw(cells, label=str(column)) for column in ALL[name].schema.names}
    table = pd.DataFrame({column: pd.Series([cell], dtype=object) for column, cell in row.items()})
    expected, found = read(ALL[name], table), read(ALL[name], row)
    assert found[1] == expected[1]
    if isinstance(expected[0], str):
        assert found == expected
        return
    assert found[0].feeds.keys() == expected[0].feeds.keys()
    for graph_input, values in expected[0].feeds.items():
        assert found[0].feeds[graph_input].dtype == values.dtype
        np.testing.assert_array_equal(found[0].feeds[graph_input], values)
    assert found[0].comparison.by_row() == expected[0].comparison.by_row()
    assert found[0].comparison.problems() == expected[0].comparison.problems()


@given(st.lists(cells, min_size=2, max_size=2))
@settings(max_examples=80, deadline=None)
def test_columns_of_an_array_are_found_by_position(values):
    of_array = reader(TRAINING[["weight", "count"]].fillna(2.0).to_numpy())
    table = pd.DataFrame({"any": [values[0]], "name": [values[1]]}, dtype=object)
    (expected,), (found,) = (of_array.read(each, warn=False).feeds.values() for each in (table, dict(table.iloc[0])))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "X must have at least one row"),
        ({"weight": 1.0}, "X must have the column 'count'"),
        ({"weight": math.inf, "count": 2}, "column 'weight' must be finite, got inf at row 0"),
        ({"weight": 2, "count": "-Infinity"}, "column 'count' must be finite, got -inf at row 0"),
    ],
    ids=["empty", "missing column", "infinite", "infinite text"],
)
def test_rows_that_cannot_be_read_are_refused(row, message):
    with pytest.raises(ValueError, match=message):
        ALL["numbers"].read(row)


def test_mappings_of_columns_are_tables():
    reading = ALL["numbers"].read({"weight": [1.0, 2.0], "count": [2, None]})
    assert reading.feeds["count"].tolist() == [[2.0], [pytest.approx(math.nan, nan_ok=True)]]
    assert [each.problem for each in reading.comparison.problems()] == ["new missing value"]


def test_dates_of_python_are_dates():
    for moment in (date(2020, 5, 6), datetime(2020, 5, 6), np.datetime64("2020-05-06"), pd.Timestamp("2020-05-06")):
        assert outcome("sold", {"sold": moment}) == outcome("sold", {"sold": "2020-05-06"})
