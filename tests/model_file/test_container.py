import hashlib
import json
import os
import stat
import struct
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_files import fuzz
from recuse.model_file import container
from recuse.model_file.container import FORMAT_VERSION, MAX_RAW, read_container, write_container
from recuse.model_file.errors import ModelFileError

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
    write_container(path, {"target": "price", "names": ["a", "ü"]}, {"graph": b"graph" * 100, "scores": os.urandom(99)})
    return path


@settings(max_examples=50, deadline=None)
@given(
    header=st.dictionaries(st.text(), json_values, max_size=4),
    parts=st.dictionaries(
        st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,9}", fullmatch=True), st.binary(max_size=300), max_size=4
    ),
)
def test_what_is_written_is_read(tmp_path_factory, header, parts):
    path = tmp_path_factory.mktemp("container") / "model.recuse"
    write_container(path, header, parts)
    assert read_container(path) == (header, parts)


def test_equal_models_give_equal_files(tmp_path):
    for name in ("a", "b"):
        write_container(tmp_path / name, {"x": 1.5}, {"graph": b"abc" * 1000})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_only_parts_that_shrink_are_compressed(path):
    noise = os.urandom(10_000)
    write_container(path, {}, {"zeros": bytes(100_000), "noise": noise})
    assert len(noise) < path.stat().st_size < 12_000


def test_every_damaged_byte_is_found(written):
    data = written.read_bytes()
    for place in range(0, len(data), 3):
        written.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(ModelFileError, match=r"model\.recuse"):
            read_container(written)


@pytest.mark.parametrize("length", [0, 1, 8, 40, 87, 88, 200, -1])
def test_a_cut_file_is_found(written, length):
    written.write_bytes(written.read_bytes()[:length])
    with pytest.raises(ModelFileError, match=r"cut off|empty|text file|not a model file"):
        read_container(written)


def test_the_length_of_a_cut_file_is_named(written):
    data = written.read_bytes()
    written.write_bytes(data[:-10])
    with pytest.raises(ModelFileError, match=f"cut off after {len(data) - 10} of {len(data)} bytes"):
        read_container(written)


def test_bytes_after_the_last_part_are_found(written):
    data = written.read_bytes() + b"more"
    written.write_bytes(data[:8] + hashlib.sha256(data[40:]).digest() + data[40:])
    with pytest.raises(ModelFileError, match="but its header and parts have"):
        read_container(written)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda data: data.replace(b"\r\n", b"\n"), "as text"),
        (lambda data: data.replace(b"\n", b"\r\n"), "as text"),
        (lambda data: data.decode("utf-8", "replace").encode(), "as text"),
        (lambda data: data.decode("latin-1").encode(), "as text"),
        (lambda data: bytes(byte & 127 for byte in data), "as text"),
        (lambda data: b"\x80\x04\x95" + data, "pickle"),
        (lambda data: b"PK\x03\x04" + data, "ZIP"),
        (lambda data: b"\x08\x0a\x12\x06recuse:", "ONNX"),
        (lambda data: b"\x1f\x8b" + data, "compressed"),
        (lambda data: b"<!DOCTYPE html><html>", "web page"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (lambda data: b"mpg,weight\n18,3504\n", "text file"),
        (lambda data: b"", "empty"),
        (lambda data: b"\x00\x01\x02\x03\x04\x05\x06\x07", "00 01 02 03"),
    ],
)
def test_foreign_files_get_a_hint(written, change, hint):
    written.write_bytes(change(written.read_bytes()))
    with pytest.raises(ModelFileError, match=hint):
        read_container(written)


def test_a_newer_version_says_to_upgrade(written):
    data = written.read_bytes()
    newer = data[:40] + struct.pack("<I28s", FORMAT_VERSION + 1, b"9.1.0") + data[72:]
    written.write_bytes(fuzz.forged(newer))
    with pytest.raises(ModelFileError, match=r"newer recuse \(9\.1\.0\).*pip install --upgrade recuse"):
        read_container(written)


def test_there_is_a_reader_for_every_version():
    assert set(container._READERS) == set(range(1, FORMAT_VERSION + 1))


def test_hostile_files_with_forged_checksums_are_refused(path):
    header, parts = fuzz.models()[0]
    for name, data in fuzz.hostile_containers(header, parts).items():
        if name not in ("bomb that declares the truth", "many nodes in few bytes", "many texts in few bytes"):
            path.write_bytes(data)
            with pytest.raises(ModelFileError, match=r"^model\.recuse[: ]"):
                read_container(path)


def test_a_bomb_stops_early(path, monkeypatch):
    inflated = []
    original = zlib.decompressobj

    class Counting:
        def __init__(self):
            self.inner = original()

        def decompress(self, data, most):
            result = self.inner.decompress(data, most)
            inflated.append(len(result))
            return result

        def __getattr__(self, name):
            return getattr(self.inner, name)

    monkeypatch.setattr(container.zlib, "decompressobj", Counting)
    bomb = zlib.compress(bytes(2**26), 9)
    path.write_bytes(fuzz.container({}, {"graph": bomb}, [{"compression": "zlib", "raw": 1000}]))
    with pytest.raises(ModelFileError, match="more than the 1000 bytes"):
        read_container(path)
    assert sum(inflated) <= 1001


def test_random_damages_with_forged_checksums_are_refused_or_read(path):
    rng, files = np.random.default_rng(0), fuzz.saved_models(estimators=False)
    for _ in range(400):
        path.write_bytes(fuzz.forged(fuzz.mutated(files[0], files[1], rng)))
        with suppress(ModelFileError):
            header, parts = read_container(path)
            json.dumps(header, allow_nan=False)
            assert all(isinstance(part, bytes) for part in parts.values())


@pytest.mark.parametrize("header", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, {"a": {1: 2, "1": 3}}])
def test_headers_that_could_not_be_read_are_not_written(path, header):
    with pytest.raises(ModelFileError, match="header"):
        write_container(path, header, {})
    assert not path.exists()


@pytest.mark.parametrize("name", ["", "..", "../x", "/x", "A", "a/b", "a\n", "x" * 65])
def test_part_names_are_plain(path, name):
    with pytest.raises(ModelFileError, match="part name"):
        write_container(path, {}, {name: b""})


def test_large_parts_are_not_written(path):
    class Large(bytes):
        def __len__(self):
            return MAX_RAW + 1

    with pytest.raises(ModelFileError, match="smaller model"):
        write_container(path, {}, {"graph": Large()})


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
        write_container(written, {}, {"graph": b"new"})
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
