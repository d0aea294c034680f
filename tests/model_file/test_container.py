import json
import os
import stat
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_files import fuzz
from recuse.model_file import container
from recuse.model_file.container import (
    GRAPH,
    HEADER,
    MAX_ENTRIES,
    OUT_OF_FOLD,
    TRAINING_HASHES,
    TRAINING_REPEATED,
    pack_array,
    read_container,
    unpack_array,
    write_container,
)
from recuse.model_file.errors import ModelFileError

NAMES = (GRAPH, OUT_OF_FOLD, TRAINING_HASHES, TRAINING_REPEATED)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.recuse"


@pytest.fixture
def written(path):
    write_container(
        path, {"target": "price", "names": ["a", "ü"]}, {GRAPH: b"graph" * 100, OUT_OF_FOLD: os.urandom(99)}
    )
    return path


@settings(max_examples=25, deadline=None)
@given(
    header=st.dictionaries(st.text().filter(lambda key: key != "format"), json_values, max_size=4),
    entries=st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=300), max_size=4),
)
def test_what_is_written_is_read_also_by_zipfile(tmp_path_factory, header, entries):
    path = tmp_path_factory.mktemp("container") / "model.recuse"
    write_container(path, header, entries)
    assert read_container(path)[:2] == (header, entries)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist() if name != HEADER} == entries
        assert json.loads(archive.read(HEADER)) == {"format": 1, **header}


def test_equal_models_give_equal_files(tmp_path):
    for name in ("a", "b"):
        write_container(tmp_path / name, {"x": 1.5}, {GRAPH: b"abc" * 1000})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_only_entries_that_shrink_are_deflated(path):
    noise = os.urandom(10_000)
    write_container(path, {}, {GRAPH: bytes(100_000), OUT_OF_FOLD: noise})
    assert len(noise) < path.stat().st_size < 12_000


def test_every_damaged_byte_is_found(written):
    data = written.read_bytes()
    for place in range(len(data)):
        written.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(ModelFileError, match=r"^model\.recuse "):
            read_container(written)


def test_every_byte_of_the_structure_is_checked_also_with_a_fitting_checksum(path):
    write_container(path, {}, {GRAPH: b""})
    data = path.read_bytes()
    for place in range(len(data) - fuzz.DIGITS):
        path.write_bytes(fuzz.forged(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]))
        with pytest.raises(ModelFileError, match=r"^model\.recuse "):
            read_container(path)


@pytest.mark.parametrize("length", [0, 1, 8, 40, 87, 88, 200, -1, -64, -65, -86])
def test_a_cut_file_is_found(written, length):
    written.write_bytes(written.read_bytes()[:length])
    with pytest.raises(ModelFileError, match=r"cut off|is empty|not a model file"):
        read_container(written)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda data: data.replace(b"\n", b"\r\n"), "is damaged"),
        (lambda data: data.decode("utf-8", "replace").encode(), "copy the file again"),
        (lambda data: data + b"\n", "cut off or changed"),
        (lambda data: b"PK\x03\x04" + bytes(100), "another ZIP archive"),
        (lambda data: b"\x80\x04\x95" + data, "a pickle, which could run code"),
        (lambda data: b"\x08\x0a\x12\x06recuse:", "ONNX"),
        (lambda data: b"\x1f\x8b" + data, "compressed"),
        (lambda data: b"<!DOCTYPE html><html>", "web page"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (lambda data: b"mpg,weight\n18,3504\n", r"starts with b'mpg,weight"),
        (lambda data: b"", "is empty"),
    ],
)
def test_damaged_and_foreign_files_get_a_hint(written, change, hint):
    write_container(written, {"lines": "a"}, {GRAPH: b"\n" * 3})
    written.write_bytes(change(written.read_bytes()))
    with pytest.raises(ModelFileError, match=hint):
        read_container(written)


def test_a_newer_version_says_to_upgrade_whatever_follows_its_header(path):
    path.write_bytes(fuzz.container({"format": 2, "recuse": "9.1.0"}, {"another entry": b"", GRAPH: b""}))
    with pytest.raises(ModelFileError, match=r"newer recuse \(9\.1\.0\).*pip install --upgrade recuse"):
        read_container(path)


REASONS = {
    "bomb that declares little": "has another graph.onnx than it declares",
    "bomb that declares much": r"declares entries of 4294967295 bytes, more than 268435456",
    "bomb that declares too much": "declares entries",
    "bomb as header": "does not start with header.json of at most",
    "wrong CRC": "another graph.onnx than it declares",
    "unknown compression": "not laid out",
    "encrypted": "not laid out",
    "no entries": "does not start with header.json",
    "only a graph": "does not start with header.json",
    "entry twice": "has the entries",
    "other order": "has the entries",
    "many entries": "has the entries",
    "path as name": "has the entries",
    "absolute path as name": "has the entries",
    "bytes before": "does not start with",
    "bytes between": "not laid out|another",
    "bytes after": "not laid out|cut off",
    "second archive after": "has the entries|not laid out",
    "by zipfile, no checksum": "is damaged",
    "nested header": "nested",
    "header nested a little too deeply": "nested more than 32 times",
    "many empty lists": "more than 16777216 bytes or 1000000 values",
    "key twice": "a key twice",
    "no version": "without the version",
    "version zero": "without the version",
}
HOSTILE = fuzz.hostile_containers(*fuzz.models()[0])
ARRAYS = [name for name in HOSTILE if name.startswith("array: ")]
GRAPHS = ["bomb that declares the truth", *(name for name in HOSTILE if name.startswith("many") and "in few" in name)]


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in (*ARRAYS, *GRAPHS)])
def test_hostile_files_with_forged_checksums_are_refused(path, name):
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ModelFileError, match=rf"^model\.recuse .*(?:{REASONS.get(name, '')})"):
        read_container(path)


@pytest.mark.parametrize("name", ARRAYS)
def test_hostile_arrays_are_refused(path, name):
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ModelFileError, match=rf"^{TRAINING_HASHES} "):
        unpack_array(TRAINING_HASHES, read_container(path)[1][TRAINING_HASHES])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (OUT_OF_FOLD, np.array([[1.5, np.nan], [np.inf, -0.0], [3.0, 4.0]])),
        (OUT_OF_FOLD, np.zeros((0, 4))),
        (OUT_OF_FOLD, np.arange(6.0).reshape(2, 3).T),
        (TRAINING_HASHES, np.array([2**64 - 1, 0], dtype=np.uint64)),
        (TRAINING_HASHES, np.array([], dtype=np.uint64)),
        (TRAINING_REPEATED, np.array([True, False])),
    ],
)
def test_arrays_are_read_as_they_were_packed_and_can_be_written(name, values):
    found = unpack_array(name, pack_array(name, values))
    np.testing.assert_array_equal(found, values)
    assert found.dtype == values.dtype
    assert found.flags.writeable


def test_arrays_of_another_shape_or_with_other_truth_values_are_refused():
    with pytest.raises(ModelFileError, match="with 2 axes"):
        unpack_array(OUT_OF_FOLD, pack_array(TRAINING_HASHES, [1, 2]))
    with pytest.raises(ModelFileError, match="do not fit"):
        unpack_array(TRAINING_REPEATED, pack_array(TRAINING_REPEATED, [True])[:-1] + b"\2")


def test_random_damages_with_forged_checksums_are_refused_or_read(path):
    rng, files = np.random.default_rng(0), fuzz.saved_models(estimators=False)
    for _ in range(400):
        path.write_bytes(fuzz.forged(fuzz.mutated(files[0], files[1], rng)))
        with suppress(ModelFileError):
            header, entries, _ = read_container(path)
            json.dumps(header, allow_nan=False)
            assert all(isinstance(entry, bytes) for entry in entries.values())


@pytest.mark.parametrize(
    "header", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, {"a": {1: 2, "1": 3}}, {"a": [[]] * 1_000_001}]
)
def test_headers_that_could_not_be_read_are_not_written(path, header):
    with pytest.raises(ModelFileError, match="header"):
        write_container(path, header, {})
    assert not path.exists()


@pytest.mark.parametrize("name", ["", "../x", "/x", "graph.onnx/", "x.npy"])
def test_other_entries_are_not_written(path, name):
    with pytest.raises(ModelFileError, match="cannot have the entries"):
        write_container(path, {}, {name: b""})
    assert not path.exists()


def test_large_entries_are_not_written(path):
    class Large(bytes):
        def __len__(self):
            return MAX_ENTRIES + 1

    with pytest.raises(ModelFileError, match="smaller model"):
        write_container(path, {}, {GRAPH: Large()})


def test_a_large_file_is_not_read(path):
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(ModelFileError, match="more than"):
        read_container(path)


def test_problems_of_paths_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
        write_container(tmp_path / "no" / "model.recuse", {}, {})
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_container(tmp_path, {}, {})
    with pytest.raises(FileNotFoundError, match="check the path"):
        read_container(tmp_path / "model.recuse")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_container(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no such files")
def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="regular file"):
        read_container(tmp_path / "pipe")


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(28, "No space left"), KeyboardInterrupt()]
)
def test_nothing_is_left_behind_after_a_failure(written, monkeypatch, error):
    before = written.read_bytes()

    def fail(descriptor):
        raise error

    monkeypatch.setattr(container.os, "fsync", fail)
    with pytest.raises(type(error)):
        write_container(written, {}, {GRAPH: b"new"})
    assert [each.name for each in written.parent.iterdir()] == [written.name]
    assert written.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_the_file_has_the_usual_permissions(written):
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(written.stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_a_link(tmp_path, written):
    link = tmp_path / "link"
    link.symlink_to(written)
    write_container(link, {"new": True}, {})
    assert link.is_symlink()
    assert read_container(Path(written))[0] == {"new": True}
