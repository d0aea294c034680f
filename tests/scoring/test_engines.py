"""The same decisions by Dask, and by the function that other engines call."""

import os
import pickle
import signal
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.linear_model import Ridge

import recuse
from recuse.bench import spec
from recuse.bench.cluster import jobs_on_cluster
from recuse.bench.runner import run_groups, table_groups
from recuse.scoring import Scorer, score_files
from scoring_runs import numbers, wait_for, write_parquet


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_cluster_writes_what_one_process_writes(model, tmp_path, small_parts, cluster, kind):
    frame, source = numbers(9000), tmp_path / f"in.{kind}"
    write_parquet(frame, source) if kind == "parquet" else frame.to_csv(source, index=False)
    score_files(model, source, tmp_path / "local.parquet")
    score_files(model, source, tmp_path / "dask.parquet", engine="dask", scheduler=cluster.address)
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()


def test_a_cluster_reports_the_first_wrong_row(model, tmp_path, small_parts, cluster):
    frame = numbers(9000)
    frame.loc[[4000, 8000], "x3"] = -np.inf
    source = write_parquet(frame, tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=r"must be finite, got -inf in data row 4,001$"):
        score_files(model, source, tmp_path / "out.csv", engine="dask", scheduler=cluster.address)


def test_a_worker_that_is_killed_loses_nothing(model, tmp_path, small_parts, cluster):
    source = write_parquet(numbers(100_000), tmp_path / "in.parquet")
    output, failed = tmp_path / "out.parquet", []

    def run():
        try:
            score_files(model, source, output, engine="dask", scheduler=cluster.address)
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


def test_a_scheduler_that_is_not_there_is_named(model, tmp_path, monkeypatch):
    import dask

    source = write_parquet(numbers(10), tmp_path / "in.parquet")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(OSError, match=r"the Dask scheduler at tcp://127\.0\.0\.1:9 cannot be reached"),
    ):
        score_files(model, source, tmp_path / "out.csv", engine="dask", scheduler="tcp://127.0.0.1:9")


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


def test_groups_of_a_paper_run_on_a_cluster(cluster, tmp_path):
    whole = spec.load("rcr2023")
    protocol = replace(whole.protocol, repeats=1, epochs=4, slow_start=1, learning_rates=(1e-2,))
    paper = replace(whole, protocol=protocol, costs={"auto_mpg": (4.0,)})
    groups = table_groups(paper, ["mlp"])[:2]
    here = run_groups(groups, protocol, tmp_path / "here", progress=False)
    with jobs_on_cluster(cluster.address, 1) as jobs:
        there = run_groups(groups, protocol, tmp_path / "there", jobs=jobs, progress=False)
        places = set(Parallel(n_jobs=jobs)(delayed(os.getpid)() for _ in range(4)))
    assert places <= {worker.pid for worker in cluster.workers}
    pd.testing.assert_frame_equal(there, here)
