"""The same decisions by Dask, and by the function that other engines call."""

import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from joblib import parallel_config
from sklearn.linear_model import Ridge

import recuse
from recuse.bench import spec
from recuse.bench.cells import BenchOptions, finished, list_cells, measures
from recuse.bench.rcr import AcceptAll, RcR
from recuse.scoring import Scorer, score_files
from scoring_runs import numbers, start_dask, wait_for, write_parquet


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_cluster_writes_what_one_process_writes(model, tmp_path, small_parts, cluster, kind):
    frame, source = numbers(9000), tmp_path / f"in.{kind}"
    write_parquet(frame, source) if kind == "parquet" else frame.to_csv(source, index=False)
    score_files(model, source, tmp_path / "local.parquet")
    score_files(model, source, tmp_path / "dask.parquet", scheduler=cluster.address)
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()


def test_a_cluster_reports_the_first_wrong_row(model, tmp_path, small_parts, cluster):
    frame = numbers(9000)
    frame.loc[[4000, 8000], "x3"] = -np.inf
    source = write_parquet(frame, tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=r"must be finite, got -inf at data row 4,001$"):
        score_files(model, source, tmp_path / "out.csv", scheduler=cluster.address)


def test_a_worker_that_is_killed_loses_nothing(model, tmp_path, small_parts, cluster):
    source = write_parquet(numbers(100_000), tmp_path / "in.parquet")
    output, failed = tmp_path / "out.parquet", []

    def run():
        try:
            score_files(model, source, output, scheduler=cluster.address)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: list(tmp_path.glob(".out.parquet.recuse/*/*.json")) or not thread.is_alive())
    victim = cluster.workers.pop(0)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    cluster.add()
    thread.join()
    assert failed == []
    score_files(model, source, tmp_path / "local.parquet")
    assert output.read_bytes() == (tmp_path / "local.parquet").read_bytes()


def test_a_scheduler_that_is_not_there_is_named(model, tmp_path):
    import dask
    import distributed  # noqa: F401  (its settings must be loaded before they are changed)

    source = write_parquet(numbers(10), tmp_path / "in.parquet")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(OSError, match=r"the Dask scheduler at tcp://127\.0\.0\.1:9 cannot be reached"),
    ):
        score_files(model, source, tmp_path / "out.csv", scheduler="tcp://127.0.0.1:9")


def test_a_file_that_workers_cannot_read_is_one_sentence(model, tmp_path, small_parts, cluster):
    here, source = write_parquet(numbers(3000), tmp_path / "here.parquet"), tmp_path / "in.parquet"
    with here.open("rb") as file:
        own = fcntl.fcntl(file, fcntl.F_DUPFD, 700)  # a path that leads to the file in this process only
        source.symlink_to(f"/proc/self/fd/{own}")
        with pytest.raises(OSError, match=r"in\.parquet"):
            score_files(model, source, tmp_path / "out.csv", scheduler=cluster.address)
        os.close(own)


def test_a_scorer_is_a_function_for_partitions(model, cluster):
    import dask.dataframe as dd

    frame = numbers(300).assign(id=range(300))
    scorer = Scorer(model, keep=["id"])
    table = dd.from_pandas(frame, npartitions=3)
    found = table.map_partitions(scorer, meta=scorer.meta(frame)).compute(scheduler=cluster.client)
    pd.testing.assert_frame_equal(found, scorer(frame))
    assert scorer.meta(frame).dtypes.equals(found.dtypes)


@pytest.mark.parametrize("in_memory", [False, True], ids=["path", "model"])
def test_a_scorer_survives_a_pickle_and_loads_its_model_once(model, in_memory):
    frame = numbers(50)
    scorer = Scorer(recuse.load(model) if in_memory else model, cost=1.0)
    data = pickle.dumps(scorer)
    first, second = pickle.loads(data), pickle.loads(data)
    pd.testing.assert_frame_equal(first(frame), scorer(frame))
    second(frame)
    assert first._scorer.model is second._scorer.model


def test_a_scorer_decides_like_the_model_and_keeps_the_index(model):
    frame = numbers(40).set_axis(range(100, 140), axis=0)
    found, wanted = Scorer(model)(frame), recuse.load(model).decide(frame).to_frame()
    pd.testing.assert_frame_equal(found, wanted, check_flags=False)
    assert len(pd.concat(Scorer(model).frames([frame[:10], frame[:0], frame[10:]]))) == 40
    assert Scorer(model).spark_schema == "`prediction` double, `accepted` boolean, `score` double, `cost` double"


def test_missing_columns_of_a_table_are_named(model):
    with pytest.raises(ValueError, match="the table must have the column x1, as in training"):
        Scorer(model)(numbers(5).drop(columns="x1"))
    with pytest.raises(ValueError, match="the cost column 'fee' is not in the table"):
        Scorer(model, cost="fee")(numbers(5))


def test_fits_run_on_a_cluster_by_joblib(cluster):
    frame = numbers(120)
    settings = {"regressor": Ridge(), "risk": Ridge(), "cost": 1.0, "cv": 2, "random_state": 0}
    alone = recuse.RiskRejector(**settings).fit(frame, frame["x0"])
    with cluster.client.as_current(), parallel_config(backend="dask"):
        spread = recuse.RiskRejector(**settings, n_jobs=2).fit(frame, frame["x0"])
    np.testing.assert_allclose(spread.predict(frame), alone.predict(frame))


def test_cells_of_a_paper_run_on_a_cluster(cluster, tmp_path):
    whole = spec.load("rcr2023")
    protocol = replace(whole.protocol, repeats=1, epochs=4, slow_start=1, learning_rates=(1e-2,))
    paper = replace(whole, protocol=protocol)
    tables = []
    for name, scheduler in (("here", None), ("there", cluster.address)):
        options = BenchOptions(scheduler=scheduler, progress=False)
        cells = list_cells(paper, [RcR(), AcceptAll()], {"auto_mpg": (4.0,)}, options)
        tables.append(measures(finished(cells, tmp_path / name, options)).drop(columns="seconds"))
    pd.testing.assert_frame_equal(*tables)


def test_a_scheduler_without_a_port_is_an_error_at_once(model, tmp_path):
    source = write_parquet(numbers(10), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=r"must be like tcp://127\.0\.0\.1:8786, got 'cluster'"):
        score_files(model, source, tmp_path / "out.csv", scheduler="cluster")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_a_scheduler_that_is_lost_is_one_sentence_and_the_run_continues(model, tmp_path):
    source, output = write_parquet(numbers(200_000), tmp_path / "in.parquet"), tmp_path / "out.parquet"
    file, script = tmp_path / "scheduler.json", tmp_path / "run.py"
    script.write_text("from recuse.scoring import inputs; inputs._FEWEST_ROWS = inputs._MOST_ROWS = 500\n")
    script.write_text(script.read_text() + "from recuse.cli import app; app()")
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
    processes = [start_dask("scheduler", *options)]
    wait_for(file.exists)
    processes.append(start_dask("worker", "--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--no-dashboard"))
    address = json.loads(file.read_text())["address"]
    command = [sys.executable, str(script), "predict", str(model), str(source), "-o", str(output)]
    command += ["--scheduler", address]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    wait_for(lambda: list(tmp_path.glob(".out.parquet.recuse/*/*.json")) or run.poll() is not None)
    for process in processes:
        process.kill()
        process.wait()
    assert run.communicate()[1] == "error: the connection to the Dask scheduler was lost: the same command continues\n"
    assert run.returncode == 1
    assert not output.exists()


@pytest.mark.parametrize("library", ["polars", "pyarrow", "mapping"])
def test_a_scorer_reads_tables_of_other_libraries(model, library):
    frame = numbers(30).assign(id=range(30))
    tables = {"polars": polars.from_pandas, "pyarrow": pyarrow.Table.from_pandas, "mapping": dict}
    found = Scorer(model, keep=["id"])(tables[library](frame))
    pd.testing.assert_frame_equal(found, Scorer(model, keep=["id"])(frame))
    assert len(Scorer(model, keep=["id"])(tables[library](frame[:0]))) == 0


def test_a_scorer_needs_columns_with_different_names(model):
    frame = numbers(5)
    with pytest.raises(ValueError, match="the table must have different column names, got 'x0' more than once"):
        Scorer(model)(pd.concat([frame, frame[["x0"]]], axis=1))
    with pytest.raises(TypeError, match="a scorer needs a table with named columns, got ndarray"):
        Scorer(model)(frame.to_numpy())
    with pytest.raises(ValueError, match="keep must be a sequence of names, got the text 'x0'"):
        Scorer(model, keep="x0")
