import json
import struct
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recuse.model_file.errors import ModelFileError
from recuse.model_file.tables import pack_table, unpack_table


def packed(described, body=b""):
    text = json.dumps(described).encode()
    return struct.pack("<I", len(text)) + text + body


def column(kind, rows, size, name="a"):
    return {"name": name, "type": kind, "rows": rows, "bytes": size}


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_what_is_packed_is_unpacked(data):
    rows = data.draw(st.integers(0, 6))
    values = {
        "float": st.floats(),
        "integer": st.integers(-(2**63), 2**63 - 1),
        "truth": st.booleans(),
        "text": st.text() | st.none(),
    }
    dtypes = {"float": np.float64, "integer": np.int64, "truth": np.bool_, "text": object}
    table = {
        name: np.array(data.draw(st.lists(values[name], min_size=rows, max_size=rows)), dtype=dtypes[name])
        for name in data.draw(st.permutations(list(values)))
    }
    result = unpack_table(pack_table(table))
    assert list(result) == list(table)
    for name, column in table.items():
        if name == "text":
            assert result[name] == column.tolist()
        else:
            assert result[name].dtype == column.dtype
            np.testing.assert_array_equal(result[name], column)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda body: packed([column("text", 3, 20)], body)))
def test_any_bytes_are_a_table_or_refused(data):
    with suppress(ModelFileError):
        unpack_table(data)


def test_columns_of_frames():
    frame = pd.DataFrame(
        {"a": [1.5, np.nan], "b": ["x", None], "c": pd.array(["y", pd.NA], dtype="string"), "d": [1, 2]}
    )
    result = unpack_table(pack_table({name: frame[name] for name in frame}))
    np.testing.assert_array_equal(result["a"], [1.5, np.nan])
    assert result["b"] == ["x", None]
    assert result["c"] == ["y", None]
    assert result["d"].tolist() == [1, 2]


def test_arrays_can_be_written():
    unpack_table(pack_table({"a": [1.0, 2.0]}))["a"][0] = 5.0


def test_an_empty_table():
    assert unpack_table(pack_table({})) == {}


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"a": [1], "b": [1, 2]}, "same length"),
        ({"a": [[1]]}, "one axis"),
        ({"a": np.array([2**64 - 1], dtype=np.uint64)}, "64 bits"),
        ({"a": [1j]}, "numbers, truth values or text"),
        ({"a": np.array([1, "b"], dtype=object)}, "text"),
    ],
)
def test_columns_that_cannot_be_packed(columns, error):
    with pytest.raises((ValueError, TypeError), match=error):
        pack_table(columns)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "cut off"),
        (struct.pack("<I", 2**31), "cut off"),
        (packed([])[:-1], "cut off"),
        (struct.pack("<I", 1) + b"{", "not valid JSON"),
        (struct.pack("<I", 20_000) + b"[" * 20_000, "not valid JSON"),
        (packed({}), "list"),
        (packed([{}]), "fields"),
        (packed([column("int64", True, 8)], bytes(8)), "fields"),
        (packed([column("object", 1, 8)], bytes(8)), "unknown type"),
        (packed([column("int64", 2, 8)], bytes(8)), "do not fit"),
        (packed([column("int64", -1, -8)]), "do not fit"),
        (packed([column("text", 3, 8)], bytes(8)), "do not fit"),
        (packed([column("int64", 2**60, 2**63)]), "declare"),
        (packed([column("int64", 1, 8)], bytes(9)), "declare"),
        (packed([column("bool", 1, 1)] * 2, bytes(2)), "different"),
        (packed([column("bool", 1, 1), column("bool", 2, 2, "b")], bytes(3)), "same length"),
        (packed([column("bool", 1, 1)], b"\x02"), "truth values"),
        (packed([column("text", 1, 5)], struct.pack("<i", -2) + b"a"), "wrong length"),
        (packed([column("text", 2, 9)], struct.pack("<ii", 2**31 - 1, -1) + b"a"), "wrong length"),
        (packed([column("text", 1, 5)], struct.pack("<i", 1) + b"\xff"), "UTF-8"),
        (packed([column("bool", 1, 1, "\ud800")], b"\0"), "name"),
        (packed([column("text", 2**21, 2**23)], bytes(2**23)), "texts"),
    ],
)
def test_hostile_tables_are_refused(data, error):
    with pytest.raises(ModelFileError, match=error):
        unpack_table(data)


def test_the_module_does_not_import_pandas():
    code = (
        "import sys, types; sys.modules['recuse'] = package = types.ModuleType('recuse'); "
        "package.__path__ = [sys.argv[1]]; import recuse.model_file.tables; assert 'pandas' not in sys.modules"
    )
    import recuse

    subprocess.run([sys.executable, "-c", code, recuse.__path__[0]], check=True)
