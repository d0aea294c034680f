"""The metrics count requests and decisions, and show drift of columns and outputs against training."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from recuse.serving.metrics import RecentRows
from recuse.serving.model_store import LoadedModel
from saved_estimators import FRAME, ROWS
from service_runs import records


def samples(client):
    """Return the values of all metrics by name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_requests_and_decisions_are_counted(serve):
    client = serve("risk")
    decisions = client.post("/predict", json={"rows": records(ROWS.head(30))}).json()["decisions"]
    client.post("/predict", json={"row": 1})
    client.post("/invocations", json={"dataframe_records": [{"weight": None}]})
    client.get("/somewhere")
    found = samples(client)
    assert found["recuse_request_seconds_count", "/predict", "200"] == 1
    assert found["recuse_request_seconds_count", "/predict", "422"] == 1
    assert found["recuse_request_seconds_count", "/invocations", "200"] == 1
    assert found["recuse_request_seconds_count", "unknown", "404"] == 1
    accepted = sum(each["accepted"] for each in decisions)
    assert found.get(("recuse_rows_total", "accepted", "risk"), 0) == accepted
    assert found["recuse_rows_total", "rejected", "risk"] == 31 - accepted
    version = client.get("/v2/models/risk").json()["versions"][0]
    assert found["recuse_model_loaded", "risk", version] == 1


def test_cells_that_training_did_not_have_are_shares_of_the_recent_rows(serve, row):
    client = serve("risk")
    usual = records(FRAME.drop(columns="number").dropna().head(1))[0]
    client.post("/predict", json={"row": usual})
    client.post("/predict", json={"row": {**usual, "town": "mars"}})
    client.post("/predict", json={"rows": [{**usual, "weight": 1e9}, {**usual, "town": "mars", "doors": None}]})
    found = samples(client)
    assert found["recuse_column_drift", "town", "risk", "new category"] == 0.5
    assert found["recuse_column_drift", "weight", "risk", "outside the training range"] == 0.25
    assert found["recuse_column_drift", "doors", "risk", "new missing value"] == 0.25
    assert ("recuse_column_drift", "number", "risk", "new missing value") not in found


def test_outputs_of_training_rows_do_not_drift_and_those_of_others_do(serve):
    client = serve("risk")
    client.post("/predict", json={"rows": records(FRAME)})
    near = samples(client)
    for _ in range(4):
        client.post("/predict", json={"rows": [{**row, "weight": 9000.0} for row in records(FRAME)]})
    far = samples(client)
    for output in ("prediction", "expected_loss", "score"):
        key = ("recuse_output_drift", "risk", output)
        assert near[key] < 0.2
        assert far[key] > 0.4
    quantiles = [near["recuse_expected_loss", "risk", level] for level in ("0.05", "0.25", "0.5", "0.75", "0.95")]
    assert quantiles == sorted(quantiles)


def test_a_scrape_has_the_rows_of_all_answers_before_it_while_others_scrape(serve):
    client, rows = serve("risk"), records(FRAME.drop(columns="number").dropna().head(20))
    client.post("/predict", json={"rows": rows})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns often, so that scrapes meet in the middle
    try:
        with ThreadPoolExecutor(2) as threads:
            for turn in range(1, 41):
                client.post("/predict", json={"rows": [{**row, "weight": 1e9} for row in rows]})
                for found in threads.map(samples, [client] * 2):
                    share = found["recuse_column_drift", "weight", "risk", "outside the training range"]
                    assert share == pytest.approx(turn / (turn + 1))
    finally:
        sys.setswitchinterval(interval)


def test_the_distance_is_that_of_the_audit(models):
    import pandas as pd

    from recuse.audit import drift
    from recuse.serving.metrics import _distance

    random = np.random.RandomState(0)
    first, second = random.normal(size=80), random.normal(0.5, 1, 50).round(1)
    table = drift(pd.DataFrame({"score": first}), pd.DataFrame({"score": second}))
    assert _distance(first, second) == pytest.approx(table["distance"][0])


def test_the_window_is_bounded(models):
    window = RecentRows(LoadedModel.read("risk", models / "risk.recuse"))
    outcome = window.loaded.decide(ROWS.head(500))
    for _ in range(15):
        window.add(outcome)
        assert window.digest()
    assert not window.digest()
    assert sum(rows for rows, _, _ in window._batches) <= 5000
    for _ in range(2000):
        window.add(outcome[:1])
    assert len(window._pending) == 1000
    window.digest()
    assert window.column_shares()["town", "new category"] > 0


def test_the_rows_of_a_new_version_start_a_new_window(serve, models, tmp_path):
    client = serve("cars")
    client.post("/predict", json={"row": {"weight": None}})
    assert samples(client)["recuse_column_drift", "weight", "cars", "new missing value"] == 1
    other = LoadedModel.read("cars", models / "cars_again.recuse")
    metrics, old = client.app.state.metrics, client.app.state.models.get("cars")
    metrics.loaded(other, old)
    metrics.add(other, other.decide(FRAME.head(1)))
    found = samples(client)
    assert found["recuse_column_drift", "weight", "cars", "new missing value"] == 0
    assert found["recuse_model_loaded", "cars", old.version] == 0
    assert found["recuse_model_loaded", "cars", other.version] == 1
