"""Arrow columns are read as the pandas columns of the same table."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import recuse
from recuse import RcRRegressor
from saved_estimators import FRAME, ROWS, Y


def saved(tmp_path_factory, frame, y, **options):
    path = tmp_path_factory.mktemp("arrow") / "m.recuse"
    settings = {"n_members": 1, "epochs": 3, "slow_start": 1, "random_state": 0}
    recuse.save(RcRRegressor(6.0, **settings, **options).fit(frame, y), path)
    return recuse.load(path)


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    return saved(tmp_path_factory, FRAME.drop(columns="number"), Y)


def check_same(model, table):
    """Compare the inputs of the graph, and the problems, with those of the pandas table."""
    wanted, found = model.read(table.to_pandas(), warn=False), model.read(table, warn=False)
    for name, values in wanted.feeds.items():
        np.testing.assert_array_equal(found.feeds[name], values)
        assert found.feeds[name].dtype == values.dtype
    assert found.comparison.problems() == wanted.comparison.problems()


def test_a_messy_table_is_read_alike(cars):
    check_same(cars, pa.Table.from_pandas(ROWS, preserve_index=False))


def test_chunks_do_not_matter(cars):
    table = pa.Table.from_pandas(ROWS, preserve_index=False)
    check_same(cars, pa.concat_tables([table[:100], table[100:101], table[101:]]))


KINDS = {
    "float32": (pa.float32(), [1.5, None, 3.25]),
    "int8": (pa.int8(), [1, None, 3]),
    "int64 beyond 2**53": (pa.int64(), [2**53 + 1, None, 3]),
    "uint64": (pa.uint64(), [2**63, 0, 3]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.10"), None, Decimal("3.25")]),
    "truth": (pa.bool_(), [True, None, False]),
    "text": (pa.string(), ["1.5", "n/a", "x"]),
    "NaN": (pa.float64(), [float("nan"), None, 3.0]),
    "nothing": (pa.float64(), [None, None, None]),
    "duration": (pa.duration("ms"), [1500, None, 3000]),
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    frame = pd.DataFrame({"a": np.linspace(0, 5, 60), "b": np.linspace(3, -2, 60)})
    return saved(tmp_path_factory, frame, frame["a"])


@pytest.mark.parametrize("name", KINDS)
def test_numbers_of_every_type_are_read_alike(numbers, name):
    kind, values = KINDS[name]
    check_same(numbers, pa.table({"a": pa.array(values, kind), "b": pa.array([1.0, 2.0, 3.0])}))


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    times = pd.date_range("2024-01-01", periods=60, freq="7h")
    frame = pd.DataFrame({"when": times, "kind": ["a", "b", "c"] * 20, "flag": [True, False] * 30, "code": [1, 2] * 30})
    frame["code"] = frame["code"].astype("category")
    frame.loc[5, "kind"] = None
    return saved(tmp_path_factory, frame, np.arange(60.0))


MOMENT = dt.datetime(2024, 1, 5, 13, 30, 1, 250_000)
TIMES = {
    **{unit: (pa.timestamp(unit), [MOMENT.replace(microsecond=0), None]) for unit in ("s", "ms", "us", "ns")},
    "before 1970": (pa.timestamp("ns"), [dt.datetime(1950, 1, 1, 0, 0, 0, 1), None]),
    "zone": (pa.timestamp("us", "Europe/Berlin"), [MOMENT, None]),
    "date": (pa.date32(), [dt.date(2024, 1, 5), None]),
    "text": (pa.string(), ["2024-01-05", "soon"]),
}
LEVELS = {
    "text": pa.array(["a", None]),
    "new text": pa.array(["zebra", "b"]),
    "large text": pa.array(["a", None], pa.large_string()),
    "dictionary": pa.array(["c", None]).dictionary_encode(),
    "whole numbers": pa.array([1, None]),
    "truth": pa.array([True, None]),
}


def event(**changes):
    table = {"when": pa.array([MOMENT, MOMENT]), "kind": ["a", "b"], "flag": [True, False], "code": [1, 2]}
    return pa.table({**table, **changes})


@pytest.mark.parametrize("name", TIMES)
def test_times_of_every_type_are_read_alike(events, name):
    kind, values = TIMES[name]
    check_same(events, event(when=pa.array(values, kind)))


@pytest.mark.parametrize("column", ["kind", "flag", "code"])
@pytest.mark.parametrize("name", LEVELS)
def test_categories_of_every_type_are_read_alike(events, name, column):
    check_same(events, event(**{column: LEVELS[name]}))


def test_dictionaries_may_have_nulls(events):
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))  # pandas has no such columns
    found, wanted = (events.read(event(kind=each)) for each in (cells, cells.cast(pa.string())))
    np.testing.assert_array_equal(found.feeds["kind"], wanted.feeds["kind"])
    assert found.comparison.problems() == wanted.comparison.problems()


def test_errors_name_the_row_of_the_file(numbers):
    table = pa.table({"a": [1.0, np.inf], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"column 'a' must be finite, got inf at row 1 \(label 101\)"):
        numbers.read(table, index=pd.RangeIndex(100, 102))


@pytest.mark.parametrize("cells", [["a", "zebra"], ["a", None]], ids=["category", "gap"])
def test_new_cells_raise_an_error_if_the_model_says_so(tmp_path_factory, cells):
    frame = pd.DataFrame({"kind": ["a", "b", "c"] * 20, "x": np.arange(60.0)})
    model = saved(tmp_path_factory, frame, frame["x"], unseen="error")
    table = pa.table({"kind": cells, "x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="at row 1") as wanted:
        model.decide(table.to_pandas())
    with pytest.raises(ValueError, match="at row 1") as found:
        model.decide(table)
    assert str(found.value) == str(wanted.value)
