"""New files survive a loss of power under their final names, and have their modes from the start."""

import os
import stat
from pathlib import Path

import pandas as pd
import pytest

import recuse
from recuse.files.atomic import new_file
from recuse.files.tables import write_table
from recuse.scoring import score_files


@pytest.fixture
def synced(monkeypatch):
    """Paths that are written to the disk, in order, with the names in the folders at that time."""
    calls, fsync = [], os.fsync

    def recorded(file):
        fsync(file)
        path = Path(f"/proc/self/fd/{file}").readlink()
        calls.append((str(path), {each.name for each in path.iterdir()} if path.is_dir() else None))

    monkeypatch.setattr(os, "fsync", recorded)
    return calls


def test_the_folder_is_written_to_the_disk_after_the_rename(tmp_path, synced):
    write_table(pd.DataFrame({"a": [1]}), str(tmp_path / "a.csv"))
    (file, _), (folder, names) = synced
    assert file.startswith(f"{tmp_path}/.a.csv.")
    assert (folder, names) == (str(tmp_path), {"a.csv"})


def test_outputs_of_predict_and_their_new_folder_are_written_to_the_disk(tmp_path, synced):
    rows = pd.DataFrame({"x": range(40)})
    model = recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(rows, rows["x"] * 2.0)
    recuse.save(model, tmp_path / "m.recuse")
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        rows.to_parquet(tmp_path / "in" / f"{name}.parquet")
    synced.clear()
    score_files(tmp_path / "m.recuse", tmp_path / "in", f"{tmp_path}/out/")
    folders = [(path, names) for path, names in synced if names is not None]
    assert folders[0][0] == str(tmp_path)
    assert "out" in folders[0][1]
    assert folders[-1] == (f"{tmp_path}/out", {"a.parquet", "b.parquet"})


def test_a_file_has_its_mode_before_anything_is_in_it(tmp_path):
    (tmp_path / "old.txt").touch(mode=0o600)
    for name, mode in (("old.txt", None), ("new.txt", 0o640)):
        with new_file(tmp_path / name, mode=mode) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == (mode or 0o600)
            file.write(b"rows")
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == (mode or 0o600)


def test_a_file_that_nobody_may_read_is_replaced(tmp_path):
    (tmp_path / "old.txt").touch(mode=0o200)
    with new_file(tmp_path / "old.txt") as file:
        file.write(b"rows")
    assert stat.S_IMODE((tmp_path / "old.txt").stat().st_mode) == 0o200
