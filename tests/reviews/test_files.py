"""The file of a queue: exports of its rows, deletion of all their copies, and where it may be."""

import json
import sqlite3
import stat
from contextlib import closing, contextmanager

import pandas as pd
import pytest
from typer.testing import CliRunner

import recuse
from recuse.cli.app import app
from recuse.reviews import ReviewQueue, filesystems
from recuse.reviews.filesystems import mount_of
from review_runs import answer_all

SECRET = "SECRET CELL"


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "140"})


@pytest.fixture
def secrets(tmp_path, loaded):
    """The path of a queue of answered rows with a secret; everything is in the main file."""
    with ReviewQueue.open(tmp_path / "reviews.sqlite") as queue:
        decision = recuse.Decision([1.0] * 10, [False] * 10, [-1.0] * 10, 3.0)
        cells = [{"area": 50.0, "city": "Köln", "age": 3.0, "note": f"{SECRET} " * 40}] * 10
        ids = queue.record(loaded, pd.DataFrame(cells), decision).result()
        answer_all(queue, ids, pd.DataFrame({"price": [1.0] * 10}))
    return queue.path


def copies(path):
    return sum(file.read_bytes().count(SECRET.encode()) for file in path.parent.iterdir())


@contextmanager
def reader(path):
    """Another connection that reads, as a backup or a summary does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT COUNT(*) FROM reviews").fetchone()
        yield


def test_copies_that_cannot_be_removed_are_an_error(secrets):
    with reader(secrets):
        result = run("reviews", secrets, "--delete-before", "2100-01-01")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert copies(secrets) > 0
    (line,) = result.stderr.splitlines()
    assert line == (
        f"error: 10 rows of {secrets} deleted, but copies remain in its files, since another program uses the queue: "
        "give the same command again when that program has ended"
    )
    result = run("reviews", secrets, "--delete-before", "2100-01-01", "--json")
    assert (result.exit_code, copies(secrets)) == (0, 0)
    assert json.loads(result.stdout)["deleted"] == {"answered": 0, "unanswered": 0}


def test_no_copy_remains_beside_a_service_that_is_idle(secrets):
    with ReviewQueue.open(secrets) as queue:
        assert queue.progress().answered == 10
        result = run("reviews", secrets, "--delete-before", "2100-01-01", "--json")
        assert (result.exit_code, copies(secrets)) == (0, 0)
        assert json.loads(result.stdout)["deleted"] == {"answered": 10, "unanswered": 0}


@pytest.mark.parametrize("existing", [None, 0o644])
@pytest.mark.parametrize("queue_mode", [0o600, 0o640])
def test_exports_have_the_permissions_of_the_queue(secrets, tmp_path, existing, queue_mode):
    output = tmp_path / "answers.csv"
    if existing is not None:
        output.touch()
        output.chmod(existing)
    secrets.chmod(queue_mode)
    assert run("reviews", secrets, "--export", output).exit_code == 0
    assert stat.S_IMODE(output.stat().st_mode) == queue_mode


@pytest.fixture
def formulas(tmp_path, loaded):
    """The path of a queue whose cells start like formulas."""
    with ReviewQueue.open(tmp_path / "reviews.sqlite") as queue:
        decision = recuse.Decision([1.0] * 3, [False] * 3, [-1.0] * 3, 3.0)
        cells = [{"area": -5.0, "city": city, "code": "NA"} for city in ("=1+1", "@x", "-5")]
        ids = queue.record(loaded, pd.DataFrame(cells), decision).result()
        answer_all(queue, ids, pd.DataFrame({"price": [1.0] * 3}))
    return queue.path


def test_exports_are_safe_for_spreadsheets_where_that_is_wanted(formulas, tmp_path):
    result = run("reviews", formulas, "--export", tmp_path / "a.csv")
    assert result.stderr == (
        "warning: 2 cells start like formulas (with =, +, -, @, a tab or a line break), which spreadsheets run: "
        "use --spreadsheet-safe\n"
    )
    table = pd.read_csv(tmp_path / "a.csv", keep_default_na=False)
    assert table["city"].tolist() == ["=1+1", "@x", "-5"]
    result = run("reviews", formulas, "--export", tmp_path / "b.csv", "--spreadsheet-safe")
    assert (result.exit_code, result.stderr) == (0, "")
    table = pd.read_csv(tmp_path / "b.csv", keep_default_na=False)
    assert table["city"].tolist() == ["'=1+1", "'@x", "-5"]
    assert table["area"].tolist() == [-5.0] * 3
    assert table["code"].tolist() == ["NA"] * 3


def test_the_option_needs_an_export_to_csv(formulas, tmp_path):
    for options in ((), ("--export", tmp_path / "a.parquet")):
        result = run("reviews", formulas, "--spreadsheet-safe", *options)
        assert result.exit_code == 2
        assert "--spreadsheet-safe needs --export with a CSV file, got " in result.stderr


TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:40 / /srv rw shared:1 - autofs systemd-1 rw,fd=51
32 31 0:41 / /srv rw,relatime shared:2 master:1 - nfs4 server:/export rw,vers=4.2
33 32 8:1 / /srv/local rw - xfs /dev/sda1 rw
34 27 0:50 / /mnt/my\040share rw - cifs //nas/share rw
35 27 0:51 / /home/ada/sshfs rw - fuse.sshfs ada@host:/ rw,user_id=1000
36 27 0:52 / /home/ada/disk rw - fuseblk /dev/sdb1 rw
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/reviews.sqlite", ("/", "ext4")),
        ("/srv/reviews.sqlite", ("/srv", "nfs4")),
        ("/srv/deep/er/reviews.sqlite", ("/srv", "nfs4")),
        ("/srv/local/reviews.sqlite", ("/srv/local", "xfs")),
        ("/srvother/reviews.sqlite", ("/", "ext4")),
        ("/mnt/my share/reviews.sqlite", ("/mnt/my share", "cifs")),
        ("/home/ada/disk/reviews.sqlite", ("/home/ada/disk", "fuseblk")),
    ],
)
def test_the_mount_of_a_path_is_the_last_one_above_it(path, found):
    assert mount_of(path, TABLE) == found


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Let a mount table of the operating system say of what type the folder of the test is."""

    def mount(kind, place=tmp_path):
        table = tmp_path / "mountinfo"
        table.write_text(f"{TABLE.lstrip()}40 27 0:60 / {place} rw - {kind} server:/x rw\n")
        monkeypatch.setattr(filesystems, "_MOUNT_TABLE", table)

    return mount


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "fuse.ceph", "glusterfs"),
        *("fuse.glusterfs", "lustre", "beegfs", "fuse.s3fs", "fuse.rclone"),
    ],
)
def test_a_queue_on_a_network_file_system_is_refused(tmp_path, mounted, kind):
    mounted(kind)
    with pytest.raises(OSError, match=rf"must be on a local disk, got a network file system \({kind}\): give another"):
        ReviewQueue.open(tmp_path / "reviews.sqlite")
    assert not (tmp_path / "reviews.sqlite").exists()


def test_commands_refuse_a_queue_on_a_network_file_system(tmp_path, mounted, model_path, secrets):
    mounted("nfs4")
    commands = (("serve", model_path, "--queue", tmp_path / "new.sqlite"), ("reviews", secrets))
    for command in (*commands, ("reviews", secrets, "--delete-before", "2100-01-01")):
        result = run(*command)
        assert result.exit_code == 1
        assert "must be on a local disk, got a network file system (nfs4)" in result.stderr
    assert not (tmp_path / "new.sqlite").exists()


def test_a_link_to_a_network_file_system_is_refused(tmp_path, mounted):
    (tmp_path / "remote").mkdir()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "remote" / "reviews.sqlite")
    mounted("nfs", tmp_path / "remote")
    with pytest.raises(OSError, match="must be on a local disk"):
        ReviewQueue.open(tmp_path / "link.sqlite")
    ReviewQueue.open(tmp_path / "here.sqlite").close()


@pytest.mark.parametrize("kind", ["ext4", "overlay", "tmpfs", "fuseblk", "zfs", "virtiofs", "fuse.gocryptfs"])
def test_a_queue_on_other_file_systems_is_opened(tmp_path, mounted, kind):
    mounted(kind)
    ReviewQueue.open(tmp_path / "reviews.sqlite").close()


@pytest.mark.parametrize("kind", ["9p", "overlay"])
def test_a_queue_in_a_sandbox_is_opened(tmp_path, monkeypatch, kind):
    table = tmp_path / "mountinfo"
    table.write_text(f"27 1 0:30 / / rw,relatime - {kind} none rw\n")
    monkeypatch.setattr(filesystems, "_MOUNT_TABLE", table)
    ReviewQueue.open(tmp_path / "reviews.sqlite").close()


def test_a_queue_is_opened_where_no_mount_table_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(filesystems, "_MOUNT_TABLE", tmp_path / "none")
    ReviewQueue.open(tmp_path / "reviews.sqlite").close()
