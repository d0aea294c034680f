"""Decisions about files do not depend on formats, parts, processes or interruptions."""

import os
import random
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
from recuse.files.tables import read_table, write_table
from recuse.scoring import inputs, score_files
from scoring_runs import children_of, numbers, wait_for, write_parquet

RUN = """
import sys
from recuse.scoring import score_files
from recuse.scoring import inputs
inputs._FEWEST_ROWS = inputs._MOST_ROWS = 1000
model, source, output, jobs = sys.argv[1:]
print(score_files(model, source, output, jobs=int(jobs)))
"""


def start(model, source, output, jobs):
    command = [sys.executable, "-c", RUN, str(model), str(source), str(output), str(jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def expected(model, frame, **options):
    return recuse.load(model).decide(frame, **options).to_frame()


def hidden(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("ending", "jobs"), [("parquet", 2), ("arrow", 1), ("csv", 2), ("csv.gz", 1), ("tsv", 1)])
def test_parts_and_processes_do_not_change_the_decisions(model, tmp_path, small_parts, ending, jobs):
    frame = numbers(4500).assign(row=range(4500))
    source, output = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    if ending == "parquet":
        write_parquet(frame, source, group=1700)
    else:
        write_table(frame, str(source))
    summary = score_files(model, source, output, keep=["row"], jobs=jobs)
    found, wanted = read_table(str(output)), expected(model, frame)
    assert found["row"].tolist() == list(range(4500))
    for name in ("prediction", "score", "cost"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12)
    assert (summary.rows, summary.accepted) == (4500, int(wanted["accepted"].sum()))
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("ending", ["parquet", "csv.gz"])
def test_the_output_is_the_same_to_the_byte_for_any_number_of_processes(model, tmp_path, small_parts, ending):
    source = write_parquet(numbers(5300), tmp_path / "in.parquet", group=1300)
    outputs = [tmp_path / f"{jobs}.{ending}" for jobs in (1, 3)]
    for jobs, output in zip((1, 3), outputs, strict=True):
        score_files(model, source, output, jobs=jobs, keep=["x1"])
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.parametrize(("kind", "kills"), [("parquet", 3), ("csv", 1)])
def test_a_run_that_is_killed_continues_to_the_same_output(model, tmp_path, kind, kills):
    frame = numbers(60_000)
    source, whole, output = tmp_path / f"in.{kind}", tmp_path / "whole.parquet", tmp_path / "out.parquet"
    write_parquet(frame, source, group=7000) if kind == "parquet" else write_table(frame, str(source))
    assert start(model, source, whole, 1).communicate()[1] == ""
    folder, moments = tmp_path / ".out.parquet.recuse", random.Random(0)
    for stop in sorted(moments.sample(range(1, 40), kills)):
        process = start(model, source, output, moments.choice([1, 2]))
        wait_for(lambda: len(list(folder.glob("*/*.json"))) >= stop or process.poll() is not None)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not output.exists()
    last, errors = start(model, source, output, 2).communicate()
    assert errors == ""
    assert "resumed_rows=0" not in last
    assert output.read_bytes() == whole.read_bytes()
    assert hidden(tmp_path) == []


def test_an_interrupted_command_says_that_it_can_continue(model, tmp_path):
    source, output = write_parquet(numbers(60_000), tmp_path / "in.parquet"), tmp_path / "out.csv"
    script = (
        "from recuse.scoring import inputs; inputs._FEWEST_ROWS = inputs._MOST_ROWS = 500; "
        "from recuse.cli import app; app()"
    )
    command = [sys.executable, "-c", script, "predict", str(model), str(source), "-o", str(output), "--jobs", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, start_new_session=True)
    wait_for(lambda: list(tmp_path.glob(".out.csv.recuse/*/*.json")) or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends Ctrl-C to the workers, too
    errors = process.communicate()[1]
    assert process.returncode == 130
    assert errors == "error: interrupted: the same command continues where this one stopped\n"
    assert not output.exists()
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "An earlier run had finished" in result.stdout
    assert len(pd.read_csv(output)) == 60_000


def test_workers_end_with_the_process_that_started_them(model, tmp_path):
    source = write_parquet(numbers(60_000), tmp_path / "in.parquet")
    process = start(model, source, tmp_path / "out.csv", 2)
    wait_for(lambda: list(tmp_path.glob(".out.csv.recuse/*/*.json")) or process.poll() is not None)
    children = children_of(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(children) >= 2
    wait_for(lambda: not any(Path(f"/proc/{child}/cmdline").exists() for child in children))


def interrupted(model, source, output, after=3):
    """Leave the finished parts of a run that was killed."""
    process = start(model, source, output, 1)
    wait_for(lambda: len(list(output.parent.glob(f".{output.name}.recuse/*/*.json"))) >= after)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_parts_of_other_inputs_and_damaged_parts_are_not_used(model, tmp_path, small_parts):
    source, output = write_parquet(numbers(60_000), tmp_path / "in.parquet"), tmp_path / "out.parquet"
    interrupted(model, source, output)
    first = next(iter(sorted(tmp_path.glob(".out.parquet.recuse/*/*.part"))))
    first.write_bytes(first.read_bytes()[:-20] + b"x" * 20)
    resumed = score_files(model, source, output).resumed_rows
    assert 0 < resumed < 60_000
    assert len(pq.read_table(output)) == 60_000
    whole = output.read_bytes()
    interrupted(model, source, tmp_path / "other.parquet")
    write_parquet(numbers(60_000, seed=5), source)
    assert score_files(model, source, tmp_path / "other.parquet").resumed_rows == 0
    assert (tmp_path / "other.parquet").read_bytes() != whole


def test_two_runs_do_not_write_the_same_output_at_once(model, tmp_path):
    source, output = write_parquet(numbers(60_000), tmp_path / "in.parquet"), tmp_path / "out.csv"
    process = start(model, source, output, 1)
    wait_for(lambda: list(tmp_path.glob(".out.csv.recuse/*/*.json")) or process.poll() is not None)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(BlockingIOError, match=r"another run is writing .*out\.csv: wait for it, or give another"):
        score_files(model, source, output)
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[1] == ""
    assert len(pd.read_csv(output)) == 60_000


def test_a_folder_is_one_table_in_the_order_of_names(model, tmp_path, small_parts):
    frame = numbers(5000).assign(row=range(5000))
    folder = tmp_path / "in"
    folder.mkdir()
    for place, start_row in enumerate((0, 2500, 2500, 4000)):
        end = (2500, 2500, 4000, 5000)[place]
        write_parquet(frame[start_row:end], folder / f"{place}.parquet")
    (folder / "_SUCCESS").touch()
    score_files(model, folder, tmp_path / "out.parquet", keep=["row"], jobs=2)
    assert pq.read_table(tmp_path / "out.parquet")["row"].to_pylist() == list(range(5000))
    score_files(model, folder, f"{tmp_path}/many/", keep=["row"])
    names = [f"{place}.parquet" for place in range(4)]
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == names
    tables = [pq.read_table(tmp_path / "many" / name) for name in names]
    assert [len(table) for table in tables] == [2500, 0, 1500, 1000]
    assert pa.concat_tables(tables).equals(pq.read_table(tmp_path / "out.parquet"))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("in/out.parquet", r"must not be in the folder .*in of the input"),
        ("in/", "must not be the folder of the input"),
    ],
)
def test_outputs_among_the_inputs_are_refused(model, tmp_path, output, message):
    (tmp_path / "in").mkdir()
    write_parquet(numbers(10), tmp_path / "in" / "a.parquet")
    with pytest.raises(ValueError, match=message):
        score_files(model, tmp_path / "in", f"{tmp_path}/{output}")


@pytest.mark.parametrize(("kind", "jobs"), [("parquet", 1), ("parquet", 2), ("csv", 1), ("csv", 2)])
def test_errors_name_the_first_row_of_the_file(model, tmp_path, small_parts, kind, jobs):
    frame = numbers(6000)
    frame.loc[[3210, 5500], "x2"] = np.inf
    source = tmp_path / f"in.{kind}"
    write_parquet(frame, source) if kind == "parquet" else frame.to_csv(source, index=False)
    with pytest.raises(ValueError, match=r"column 'x2' of .* must be finite, got inf at data row 3,211$"):
        score_files(model, source, tmp_path / "out.csv", jobs=jobs)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    frame.loc[[3210, 5500], "x2"] = 1.0
    fees = frame.assign(fee=np.where(np.arange(6000) == 4444, -1.0, 1.0))
    write_parquet(fees, source) if kind == "parquet" else fees.to_csv(source, index=False)
    with pytest.raises(ValueError, match=r"must hold numbers >= 0, got -1 at data row 4,445$"):
        score_files(model, source, tmp_path / "out.csv", jobs=jobs, cost="fee")


def test_cells_of_csv_files_do_not_depend_on_the_block_and_are_kept_as_they_are(model, tmp_path, monkeypatch):
    frame = numbers(300).round(3).astype(str)
    frame.loc[150, "x0"], frame.loc[7, "x1"] = "large", ""
    frame = frame.assign(code="7", word="1.50", count="3", share="2")
    frame.loc[299, "code"], frame.loc[299, "word"], frame.loc[0, "share"] = "01", "x", "2.5"
    frame.to_csv(tmp_path / "in.csv", index=False, sep=";", decimal=",")
    text = (tmp_path / "in.csv").read_text().replace(".", ",")
    (tmp_path / "in.csv").write_text(text)
    options = {"keep": ["code", "word", "count", "share", "x0"]}
    outputs = []
    for rows in (50, 1000):
        monkeypatch.setattr(inputs, "_MOST_ROWS", rows)
        monkeypatch.setattr(inputs, "_FEWEST_ROWS", rows)
        summary = score_files(model, tmp_path / "in.csv", tmp_path / f"{rows}.parquet", **options)
        outputs.append((pq.read_table(tmp_path / f"{rows}.parquet"), summary.problems))
    (blocks, few), (whole, all_problems) = outputs
    assert few == all_problems
    assert blocks.equals(whole)
    assert {kind for kind in whole.schema.types[:5] if not pa.types.is_large_string(kind)} <= {pa.string()}
    assert (whole["code"].to_pylist()[-1], whole["word"].to_pylist()[0]) == ("01", "1,50")


def test_problems_are_added_up_over_parts(model, tmp_path, small_parts):
    frame = numbers(3000)
    frame.loc[[10, 1500], "x0"] = [50.0, -70.0]
    frame.loc[[20, 2900], "x1"] = np.nan
    score = score_files(model, write_parquet(frame.assign(id=1), tmp_path / "in.parquet"), tmp_path / "out.csv", jobs=2)
    whole = recuse.model_file.table_report.table_report(recuse.load(model).schema, frame.assign(id=1))
    assert score.problems == whole


def test_standard_input_is_read_in_blocks(model, tmp_path):
    frame = numbers(3000)
    script = (
        "from recuse.scoring import inputs; inputs._FEWEST_ROWS = inputs._MOST_ROWS = 500; "
        "from recuse.cli import app; app()"
    )
    command = [sys.executable, "-c", script, "predict", str(model), "-", "-o", "-", "--quiet"]
    result = subprocess.run(command, input=frame.to_csv(index=False).encode(), capture_output=True, check=True)
    frame.to_csv(tmp_path / "in.csv", index=False)
    score_files(model, tmp_path / "in.csv", tmp_path / "out.csv")
    assert result.stdout == (tmp_path / "out.csv").read_bytes()


def test_a_worker_that_is_lost_is_an_error_and_the_run_can_continue(model, tmp_path):
    source, output = write_parquet(numbers(60_000), tmp_path / "in.parquet"), tmp_path / "out.csv"
    process = start(model, source, output, 2)
    wait_for(lambda: list(tmp_path.glob(".out.csv.recuse/*/*.json")) or process.poll() is not None)
    for child in children_of(process):
        os.kill(int(child), signal.SIGKILL)
    assert "a worker process was killed, perhaps for lack of memory: the same command" in process.communicate()[1]
    assert not output.exists()
    assert "resumed_rows=0" not in start(model, source, output, 2).communicate()[0]


def test_a_model_in_memory_and_one_of_a_file_decide_alike(model, tmp_path, small_parts):
    source = write_parquet(numbers(2500), tmp_path / "in.parquet")
    score_files(recuse.load(model), source, tmp_path / "a.csv", jobs=2)
    score_files(model, source, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
