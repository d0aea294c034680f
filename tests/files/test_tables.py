import gzip
import io
import os
import sys

import numpy as np
import pandas as pd
import pytest

from recuse.files.atomic import check_writable, new_file
from recuse.files.tables import read_table, write_table


def read(tmp_path, text, name="rows.csv", **options):
    file = tmp_path / name
    file.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return read_table(str(file), **options)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path, separator):
    table = read(tmp_path, "a,b,c\n1,x,2.5\n2,y,3.5\n".replace(",", separator))
    assert table.to_dict("list") == {"a": [1, 2], "b": ["x", "y"], "c": [2.5, 3.5]}


def test_commas_within_quotes_are_no_separators(tmp_path):
    table = read(tmp_path, 'name;place\n"Smith, J";"Bonn, DE"\n"Doe, A";"Ulm, DE"\n')
    assert list(table) == ["name", "place"]
    assert read(tmp_path, 'name,n\n"Smith; J",1\n"a;b",2\n')["n"].tolist() == [1, 2]


@pytest.mark.parametrize(("first", "second"), [("1,5", "2,25"), ("1.5", "2.25")])
def test_the_decimal_sign_is_found(tmp_path, first, second):
    assert read(tmp_path, f"a;b\n{first};x\n{second};y\n")["a"].tolist() == [1.5, 2.25]


def test_numbers_with_leading_zeros_and_truth_values_stay_text(tmp_path):
    table = read(tmp_path, "zip,n,share,yes,maybe\n01067,1,0.5,True,true\n80331,20,0.25,False,\n")
    assert table["zip"].tolist() == ["01067", "80331"]
    assert (table["n"].tolist(), table["share"].tolist()) == ([1, 20], [0.5, 0.25])
    assert table["yes"].tolist() == ["True", "False"]
    assert table["maybe"].tolist()[0] == "true"
    assert table["maybe"].isna().tolist() == [False, True]


def test_words_for_a_gap_are_those_of_all_readers(tmp_path):
    table = read(tmp_path, "n,city\n1.5,Bonn\n?,nil\n-,Ulm\nN/A,\n2,#NA\n")
    np.testing.assert_array_equal(table["n"], [1.5, np.nan, np.nan, np.nan, 2])
    assert table["city"].isna().tolist() == [False, True, False, True, True]


def test_whole_numbers_too_long_for_64_bits_are_floats(tmp_path):
    assert read(tmp_path, f"n,m\n{2**70},1_000\n2,3\n").to_dict("list") == {
        "n": [float(2**70), 2.0],
        "m": ["1_000", "3"],
    }


def test_text_columns_stay_text(tmp_path):
    table = read(tmp_path, "zip,n\n10115,1\n80331,2\n", text_columns=["zip", "not there"])
    assert table["zip"].tolist() == ["10115", "80331"]


def test_dates_stay_text_and_gaps_are_missing(tmp_path):
    table = read(tmp_path, "day,n\n2024-05-01,n/a\n2024-06-01,3\n")
    assert table["day"].tolist() == ["2024-05-01", "2024-06-01"]
    assert table["n"].isna().tolist() == [True, False]


def test_numbers_are_read_to_the_last_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=200)
    write_table(pd.DataFrame({"a": values}), str(tmp_path / "rows.csv"))
    np.testing.assert_array_equal(read_table(str(tmp_path / "rows.csv"))["a"], values)


def test_byte_order_marks_are_no_part_of_the_first_name(tmp_path):
    assert list(read(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n")) == ["a", "b"]


def test_other_encodings_need_the_option(tmp_path):
    data = "city,n\nBonn,1\nKöln,2\n".encode("latin-1")
    with pytest.raises(
        ValueError, match=r"rows.csv is not UTF-8 \(byte 0xf6 in line 3\): give its .* --encoding latin-1$"
    ):
        read(tmp_path, data)
    assert read(tmp_path, data, encoding="latin-1")["city"].tolist() == ["Bonn", "Köln"]
    wide = "city,n\nKöln,2\n".encode("utf-16")
    with pytest.raises(ValueError, match=r"--encoding utf-16$"):
        read(tmp_path, wide)
    assert read(tmp_path, wide, encoding="utf-16")["city"].tolist() == ["Köln"]
    for encoding in ("klingon", "hex", "rot13"):
        with pytest.raises(ValueError, match=f"encoding must be one of text, such as latin-1, got '{encoding}'"):
            read(tmp_path, data, encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-16", "ascii"])
def test_a_file_of_utf_8_needs_no_encoding(tmp_path, encoding):
    with pytest.raises(ValueError, match=f"with the encoding {encoding}: leave out --encoding, the file is UTF-8$"):
        read(tmp_path, "city,n\nKöln,2\n", encoding=encoding)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows.csv is empty"),
        ("a,b\n", "rows.csv has no rows"),
        ("a,b\n1,2\n1,2,3\n", "rows.csv cannot be read as CSV: line 3 has 3 cells, but the header has 2$"),
        ("a,b\n1,2,3\n1,2,3\n", "rows.csv cannot be read as CSV: line 2 has 3 cells, but the header has 2$"),
        ('a;b\n"1\n";2\n\n1;2;3\n', "rows.csv cannot be read as CSV: line 5 has 3 cells, but the header has 2$"),
        (
            'a,b\n1,2\n1,"2\n',
            "the row of line 3 has a quotation mark that is not closed",
        ),
        (b"PAR1\x00\xff\xfe", "rows.csv is not UTF-8"),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_damaged_binary_files_are_named(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name} cannot be read as a file of (Parquet|Arrow): "):
        read(tmp_path, b"no such thing", name)


def test_damaged_compressed_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"rows\.csv\.gz cannot be read as CSV: "):
        read(tmp_path, b"no such thing", "rows.csv.gz")
    with pytest.raises(ValueError, match=r"rows\.csv\.gz cannot be read as CSV: "):
        read(tmp_path, gzip.compress(b"a,b\n" + b"1,2\n" * 9999)[:-20], "rows.csv.gz")
    data = bytearray(gzip.compress(b"a,b\n" + np.random.default_rng(0).bytes(999).hex().encode("ascii")))
    data[200:260] = bytes(60)
    with pytest.raises(ValueError, match=r"rows\.csv\.gz cannot be read as CSV: Error -3 while decompressing"):
        read(tmp_path, bytes(data), "rows.csv.gz")


def test_folders_missing_files_and_unknown_endings_are_named(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(str(tmp_path / "folder.csv"))
    with pytest.raises(FileNotFoundError, match="does not exist: check the path of the table"):
        read_table(str(tmp_path / "no.csv"))
    with pytest.raises(ValueError, match=r"rows.xlsx must end with one of \.csv"):
        write_table(pd.DataFrame({"a": [1]}), str(tmp_path / "rows.xlsx"))


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "pq", "arrow", "feather", "ipc"])
def test_a_table_is_read_as_it_was_written(tmp_path, ending):
    table = pd.DataFrame({"n": [1, 2], "x": [0.5, np.nan], "name": ["a, b", 'quoted "c"']})
    path = str(tmp_path / f"rows.{ending}")
    write_table(table, path)
    pd.testing.assert_frame_equal(read_table(path), table, check_dtype=False)
    assert [file.name for file in tmp_path.iterdir()] == [f"rows.{ending}"]


def test_equal_tables_give_equal_files(tmp_path):
    for ending in ("csv.gz", "parquet"):
        paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
        for path in paths:
            write_table(pd.DataFrame({"n": [1, 2]}), str(path))
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_error_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("old")
    monkeypatch.setattr(pd.DataFrame, "to_csv", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_table(pd.DataFrame({"n": [1]}), str(path))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]


def test_standard_input_is_csv(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"zip;n\n01067;1,5\n")))
    assert read_table("-").to_dict("list") == {"zip": ["01067"], "n": [1.5]}


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_a_missing_pyarrow_names_the_pip_command(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for action in (read_table, lambda path: write_table(pd.DataFrame({"n": [1]}), path)):
        with pytest.raises(ImportError, match=r"pyarrow is not installed; get it with: pip install 'recuse\[files\]'"):
            action(str(tmp_path / name))


def test_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "rows.arrow"
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather

    feather.write_feather(pyarrow.table([[1], [2]], names=["a", "b"]).rename_columns(["a", "a"]), str(path))
    with pytest.raises(ValueError, match="must have different column names, got 'a' more than once"):
        read_table(str(path))


@pytest.mark.parametrize("text", ["x,x,y\n1,2,3\n", "\n \nx; x;y\n1;2;3\n", b"\xef\xbb\xbfx\tx\n1\t2\n"])
def test_columns_of_one_name_in_csv_files_are_refused(tmp_path, text):
    with pytest.raises(ValueError, match="must have different column names, got 'x' more than once"):
        read(tmp_path, text)


def test_columns_without_a_name_get_numbers(tmp_path):
    assert list(read(tmp_path, ",a,\n1,2,3\n")) == ["Unnamed: 0", "a", "Unnamed: 2"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_devices_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", "/dev/null"):
        for action in (check_writable, lambda path: new_file(path).__enter__()):
            with pytest.raises(OSError, match="is a device or a pipe, which cannot be replaced"):
                action(path)
    assert (tmp_path / "pipe.csv").is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe.csv"]


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_a_replaced_file_keeps_its_mode(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("old")
    path.chmod(0o640)
    write_table(pd.DataFrame({"n": [1]}), str(path))
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("n\n1\n", 0o640)
