"""The hidden folder beside an output: what is in it was written by a run of this user, and nothing else is deleted."""

import json
import os
import shutil
import stat
import threading
import warnings
import zlib

import pyarrow.parquet as pq
import pytest

from recuse.scoring import score_files
from recuse.scoring.summary import ScoringSummary
from recuse.scoring.working_folder import working_folder
from scoring_runs import numbers, stopped, write_parquet

RUN = "0123456789abcdef" * 2  # a name like that of a run


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def source(tmp_path):
    place = tmp_path / "rows"
    place.mkdir()
    return write_parquet(numbers(6000), place / "in.parquet")


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody's photos."""
    photos = tmp_path / "victim" / "photos"
    photos.mkdir(parents=True)
    (photos / "0000001.part").write_bytes(b"a photo")
    return photos.parent


@pytest.fixture
def output(tmp_path):
    place = tmp_path / "out"
    place.mkdir()
    return place / "out.csv"


def test_a_link_in_the_place_of_the_folder_is_refused(model, source, victim, output):
    link = output.with_name(".out.csv.recuse")
    link.symlink_to(victim, target_is_directory=True)
    with pytest.raises(OSError, match=r"\.out\.csv\.recuse is a link, not a folder .*: remove it, or give another"):
        score_files(model, source, output)
    assert (victim / "photos" / "0000001.part").read_bytes() == b"a photo"
    assert sorted(path.name for path in victim.iterdir()) == ["photos"]
    assert link.is_symlink()
    assert not output.exists()


def test_a_link_in_the_folder_is_refused(model, source, victim, output):
    folder = output.with_name(".out.csv.recuse")
    folder.mkdir()
    (folder / RUN).symlink_to(victim / "photos", target_is_directory=True)
    with pytest.raises(OSError, match=rf"\.out\.csv\.recuse has {RUN}, which no run wrote: move it to another place"):
        score_files(model, source, output)
    assert (victim / "photos" / "0000001.part").exists()


@pytest.mark.parametrize("name", ["0.csv", "0000000.part", "0000000.json"])
def test_a_link_in_the_folder_of_a_run_is_refused(model, source, output, tmp_path, small_parts, name):
    (tmp_path / "letter.txt").write_text("dear reader")
    folder = stopped(model, source, output)
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "letter.txt")
    with pytest.raises(OSError, match=rf"has .*{name}, which no run wrote"):
        score_files(model, source, output)
    assert (tmp_path / "letter.txt").read_text() == "dear reader"


@pytest.mark.parametrize("place", ["photos/1.jpg", f"{RUN}/photos/1.jpg", "letter.txt", f"{RUN}/letter.txt"])
def test_what_no_run_wrote_is_not_deleted(model, source, output, place):
    foreign = output.with_name(".out.csv.recuse") / place
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(OSError, match=r"which no run wrote: move it to another place, or give another output$"):
        score_files(model, source, output)
    assert foreign.read_text() == "mine"
    assert not output.exists()


def test_what_appears_during_a_run_is_left_and_named(model, source, output, monkeypatch):
    folder, replace = output.with_name(".out.csv.recuse"), os.fsync

    def fsync(file):
        (folder / "mine.txt").write_text("mine")
        replace(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.warns(UserWarning, match=r"\.out\.csv\.recuse was not removed: it has mine\.txt, which no run wrote"):
        score_files(model, source, output)
    assert output.exists()
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_parts_of_other_runs_are_deleted(model, source, output, small_parts):
    stopped(model, source, output)
    assert score_files(model, source, output, keep=["x1"]).resumed_rows == 0
    assert [path.name for path in output.parent.iterdir()] == ["out.csv"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused(model, source, output, small_parts):
    folder = stopped(model, source, output)
    os.chown(folder, 4321, -1)
    with pytest.raises(PermissionError, match=r"\.out\.csv\.recuse belongs to another user \(4321\): "):
        score_files(model, source, output)
    assert not output.exists()


def test_a_folder_that_others_can_write_is_refused(model, source, output, small_parts):
    folder = stopped(model, source, output)
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match=r"others can write to .*\.out\.csv\.recuse, a folder of mode 777: "):
        score_files(model, source, output)


def test_a_file_in_the_place_of_the_folder_is_refused(model, source, output):
    output.with_name(".out.csv.recuse").write_text("mine")
    with pytest.raises(OSError, match=r"\.out\.csv\.recuse is a file, not a folder .*: remove it, or give another"):
        score_files(model, source, output)


def test_the_folder_is_for_its_owner(model, source, output, small_parts):
    before = os.umask(0o002)
    try:
        folder = stopped(model, source, output)
        folder.chmod(0o755)
        stopped(model, source, output)
    finally:
        os.umask(before)
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    assert (mode(folder), mode(run), mode(folder / "manifest.json")) == (0o700, 0o700, 0o600)


@pytest.mark.parametrize(("existing", "umask", "wanted"), [(None, 0o027, 0o640), (0o600, 0o022, 0o600)])
def test_parts_and_output_have_the_mode_of_the_output(model, source, output, small_parts, existing, umask, wanted):
    if existing is not None:
        output.write_text("older")
        output.chmod(existing)
    before = os.umask(umask)
    try:
        folder = stopped(model, source, output)
        written = [*folder.glob("*/*.part"), *folder.glob("*/*.csv")]
        assert written
        assert {mode(path) for path in written} == {wanted}
        score_files(model, source, output)
    finally:
        os.umask(before)
    assert mode(output) == wanted


def test_files_of_a_folder_keep_their_modes(model, source, tmp_path):
    place = tmp_path / "many"
    place.mkdir()
    (place / "in.parquet").write_text("older")
    (place / "in.parquet").chmod(0o600)
    write_parquet(numbers(50), source.with_name("b.parquet"))
    score_files(model, source.parent, f"{place}/")
    assert mode(place / "in.parquet") == 0o600
    assert mode(place / "b.parquet") == 0o666 & ~current_umask()


def current_umask():
    before = os.umask(0)
    os.umask(before)
    return before


def parts_of(folder):
    return sorted(folder.glob("*/*.part"))


def resumed(model, source, output):
    return score_files(model, source, output).resumed_rows


def planted(part):
    """Write other rows into a part, with the checksum of CRC-32 in its summary."""
    rows = part.read_bytes().replace(b"True", b"Pwnd").replace(b"False", b"Pwned")
    part.write_bytes(rows)
    summary = part.with_suffix(".json")
    facts = json.loads(summary.read_text())
    facts.update({name: zlib.crc32(rows) for name in facts if "check" in name} | {"bytes": len(rows)})
    summary.write_text(json.dumps(facts))


def swapped(part):
    """Put the rows and the summary of the next part in the place of a part."""
    for ending in (".part", ".json"):
        shutil.copyfile(part.with_name(f"0000001{ending}"), part.with_suffix(ending))


def miscounted(part):
    summary = part.with_suffix(".json")
    facts = json.loads(summary.read_text())
    facts["summary"]["accepted"] += 1
    summary.write_text(json.dumps(facts))


def no_json(part):
    part.with_suffix(".json").write_bytes(b"\xff\xfe[")


def no_summary(part):
    part.with_suffix(".json").write_text("[]")


@pytest.mark.parametrize("change", [planted, swapped, miscounted, no_json, no_summary])
def test_a_part_that_the_run_did_not_write_is_not_used(model, source, output, small_parts, change):
    score_files(model, source, output)
    whole = output.read_bytes()
    output.unlink()
    first, *others = parts_of(stopped(model, source, output))
    change(first)
    assert resumed(model, source, output) == 1000 * len(others) > 0
    assert output.read_bytes() == whole


def test_a_part_of_another_run_is_not_used(model, source, output, small_parts):
    foreign = parts_of(stopped(model, source, output.with_name("other.csv"), keep=["x1"]))
    own = parts_of(stopped(model, source, output))
    for ending in (".part", ".json"):
        shutil.copyfile(foreign[0].with_suffix(ending), own[0].with_suffix(ending))
    assert resumed(model, source, output) == 1000 * (len(own) - 1) > 0


def test_a_run_that_ends_leaves_no_folder_and_no_warning(model, source, tmp_path, small_parts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_files(model, source, tmp_path / "a.parquet", jobs=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "rows"]
    assert len(pq.read_table(tmp_path / "a.parquet")) == 6000


def test_the_folder_is_removed_while_a_worker_of_a_cluster_still_stores_parts(tmp_path):
    """After an error, tasks that run on a cluster go on; their parts find no folder any more."""

    def store_parts(store, began):
        number = 0
        while store.folder.exists():
            try:
                store.save(number := number + 1, b"rows", ScoringSummary(1, 1, 1.0, 1.0))
            except FileNotFoundError:
                return
            began.set()

    def fail(output):
        with working_folder(output, {"rows": 1}) as store:
            began = threading.Event()
            worker = threading.Thread(target=store_parts, args=(store, began))
            workers.append(worker)
            worker.start()
            assert began.wait(30)
            raise ValueError("a wrong row")

    workers = []
    for _ in range(20):
        with pytest.raises(ValueError, match="a wrong row"):
            fail(tmp_path / "out.csv")
        workers.pop().join(30)
        assert list(tmp_path.iterdir()) == []
