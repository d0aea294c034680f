"""Unusual files, outputs and interruptions end in right decisions or in one sentence."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recuse
from recuse.scoring import score_files
from recuse.scoring.inputs import ArrowInputs
from recuse.scoring.summary import ScoringSummary
from recuse.scoring.working_folder import working_folder, write_whole
from scoring_runs import children_of, numbers, stopped, wait_for, write_parquet


@pytest.mark.parametrize(
    "cells",
    [
        [str(2**63 + row) for row in range(300)],
        [str(row - 9) if row < 280 else str(2**63 + row) for row in range(300)],
        [str(2**53 + 1 + row) if row < 280 else "" for row in range(300)],
    ],
    ids=["from 2**63", "2**63 late", "gaps late"],
)
def test_long_whole_numbers_are_kept_to_the_last_digit(model, tmp_path, small_parts, cells):
    numbers(300).assign(id=cells).to_csv(tmp_path / "in.csv", index=False)
    score_files(model, tmp_path / "in.csv", tmp_path / "out.csv", keep=["id"])
    kept = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)["id"]
    assert kept.tolist() == cells


def test_an_output_does_not_replace_its_input(model, tmp_path):
    source = write_parquet(numbers(10), tmp_path / "in.parquet")
    before = source.read_bytes()
    (tmp_path / "link.parquet").symlink_to(source)
    for output in (source, tmp_path / "link.parquet"):
        with pytest.raises(ValueError, match=r"parquet must not be the input, which it would replace"):
            score_files(model, source, output)
    assert source.read_bytes() == before


def test_rows_in_deeper_folders_are_not_left_out_silently(model, tmp_path):
    (tmp_path / "in" / "year=2024").mkdir(parents=True)
    write_parquet(numbers(10), tmp_path / "in" / "a.parquet")
    write_parquet(numbers(10), tmp_path / "in" / "year=2024" / "b.parquet")
    with pytest.raises(ValueError, match=r"in must have its Parquet files in one folder, got others in year=2024/$"):
        score_files(model, tmp_path / "in", tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("output", "error", "message"),
    [
        ("in/deeper/", ValueError, r"deeper/ must not be in the folder .*in of the input"),
        ("no/such/", FileNotFoundError, r"^such cannot be written: the folder .*no does not exist$"),
        ("file.csv/", NotADirectoryError, r"file\.csv is a file, so it cannot be the folder of the output"),
    ],
)
def test_folders_that_cannot_be_written_are_named(model, tmp_path, output, error, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "file.csv").touch()
    write_parquet(numbers(10), tmp_path / "in" / "a.parquet")
    with pytest.raises(error, match=message):
        score_files(model, tmp_path / "in", f"{tmp_path}/{output}")


def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="years/ does not exist"):
        score_files(model, f"{tmp_path}/years/", tmp_path / "out.csv")


def test_files_of_a_folder_are_not_kept_open(tmp_path):
    paths = [str(write_parquet(numbers(5), tmp_path / f"{place}.parquet")) for place in range(20)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    inputs = ArrowInputs(paths)
    assert len(list(Path("/proc/self/fd").iterdir())) - before < 5
    assert inputs.total == 100


def test_texts_of_files_may_have_different_types(model, tmp_path):
    (tmp_path / "in").mkdir()
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    for place, kind in enumerate(kinds):
        table = pa.Table.from_pandas(numbers(3)).append_column("id", pa.array(["a", "b", None], kind))
        pq.write_table(table, tmp_path / "in" / f"{place}.parquet")
    score_files(model, tmp_path / "in", tmp_path / "out.parquet", keep=["id"])
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == ["a", "b", None] * 3


def test_kept_columns_of_different_types_are_one_sentence(model, tmp_path):
    (tmp_path / "in").mkdir()
    write_parquet(numbers(3).assign(id=1), tmp_path / "in" / "0.parquet")
    write_parquet(numbers(3).assign(id="x"), tmp_path / "in" / "1.parquet")
    command = ["predict", str(model), str(tmp_path / "in"), "-o", str(tmp_path / "out.parquet"), "--keep", "id"]
    result = subprocess.run([sys.executable, "-m", "recuse.cli", *command], capture_output=True, text=True, check=False)
    assert re.fullmatch(r"error: kept columns must have the same types in all files, got .*'id'\n", result.stderr)
    assert result.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_files_for_a_model_without_names_need_the_same_names(tmp_path):
    values = np.random.default_rng(0).normal(size=(40, 3))
    recuse.save(recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(values, values[:, 0]), tmp_path / "m.recuse")
    (tmp_path / "in").mkdir()
    for place, names in enumerate(("abc", "abz")):
        write_parquet(pd.DataFrame(values, columns=list(names)), tmp_path / "in" / f"{place}.parquet")
    with pytest.raises(ValueError, match=r"the column of .*0\.parquet 'c' is not in .*1\.parquet"):
        score_files(tmp_path / "m.recuse", tmp_path / "in", tmp_path / "out.csv")


def test_an_input_that_changes_during_the_run_is_an_error(model, tmp_path):
    source, output = write_parquet(numbers(60_000), tmp_path / "in.parquet"), tmp_path / "out.csv"
    process = start_predict(model, source, output, "--jobs", "1")
    wait_for(lambda: list(tmp_path.glob(".out.csv.recuse/*/*.json")) or process.poll() is not None)
    os.utime(source, (0, 0))
    assert "in.parquet was changed during the run: start it again" in process.communicate()[1].replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def start_predict(model, source, output, *options):
    """Start the command with parts of five hundred rows."""
    small = "from recuse.scoring import inputs; inputs._FEWEST_ROWS = inputs._MOST_ROWS = 500; "
    command = [sys.executable, "-c", small + "from recuse.cli import app; app()", "predict", str(model), str(source)]
    command += ["-o", str(output), *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("jobs", [0, -2, 100_000])
def test_the_number_of_processes_has_limits(model, tmp_path, jobs):
    source = write_parquet(numbers(10), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=rf"jobs must be from 1 to 1,000, got {jobs:,}"):
        score_files(model, source, tmp_path / "out.csv", jobs=jobs)
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_processes_without_work_are_not_started(model, tmp_path):
    source, output = write_parquet(numbers(10), tmp_path / "in.parquet"), tmp_path / "out.csv"
    script = f"""
import resource
from recuse.scoring import score_files
score_files({str(model)!r}, {str(source)!r}, {str(output)!r}, jobs=300)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "0\n"
    assert len(pd.read_csv(output)) == 10


def test_keep_is_not_one_text(model, tmp_path):
    with pytest.raises(ValueError, match="keep must be a sequence of names, got the text 'x1'"):
        score_files(model, write_parquet(numbers(5), tmp_path / "in.parquet"), tmp_path / "out.csv", keep="x1")


def test_a_closed_standard_input_is_one_sentence(model):
    command = f"'{sys.executable}' -m recuse.cli predict '{model}' - <&-"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert result.stderr == "error: standard input is closed: give the path of a table\n"
    assert result.returncode == 1


def test_a_terminated_command_removes_its_copy_of_standard_input(model, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "recuse.cli", "predict", str(model), "-", "-o", "-"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    wait_for(lambda: list(tmp_path.glob("recuse-*/stdin.csv")) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1] == b"error: interrupted\n"
    assert process.returncode == 130
    assert list(tmp_path.glob("recuse-*")) == []


def test_an_interruption_while_workers_start_prints_one_line(model, tmp_path):
    source = write_parquet(numbers(60_000), tmp_path / "in.parquet")
    process = start_predict(model, source, tmp_path / "out.csv", "--jobs", "2")
    wait_for(lambda: libraries_loaded(children_of(process)) or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate()[1] == "error: interrupted: the same command continues where this one stopped\n"
    assert process.returncode == 130


def libraries_loaded(workers):
    """Whether a worker is importing its libraries."""
    return any("numpy" in Path(f"/proc/{each}/maps").read_text() for each in workers)


def test_a_run_without_a_finished_part_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="full"), working_folder(tmp_path / "out.csv", {}):
        raise OSError("full")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="full"), working_folder(tmp_path / "out.csv", {}) as store:
        raise store.save(0, b"rows", ScoringSummary(1, 1, 0.0, 0.0)) or OSError("full")
    with working_folder(tmp_path / "out.csv", {}) as store:
        assert store.load(0) == ScoringSummary(1, 1, 0.0, 0.0)


def test_a_full_disk_is_named_and_the_run_continues(model, tmp_path, small_parts):
    source, output = write_parquet(numbers(6000), tmp_path / "in.parquet"), tmp_path / "out.csv"
    stopped(model, source, output)  # one part fits, the output does not
    assert not output.exists()
    assert score_files(model, source, output).resumed_rows > 0


def test_a_part_that_cannot_be_written_takes_no_space(tmp_path):
    with pytest.raises(TypeError):
        write_whole(tmp_path / "0.part", "text")
    assert list(tmp_path.iterdir()) == []
