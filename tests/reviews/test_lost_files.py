"""A queue whose file is deleted, replaced, damaged or cannot grow: nothing is acknowledged, and the service says so."""

import logging
import shutil
import subprocess
import sys
import textwrap

import pytest

from recuse.reviews import QueueUnavailable, ReviewQueue
from recuse.serving import Settings, create_app
from review_runs import record, rooms
from service_runs import TestClient

ROW = {"area": 50.0, "city": "Berlin", "age": 3.0}


def deleted(path):
    path.unlink()


def replaced(path):
    with ReviewQueue.open(path.with_name("other")):
        pass
    path.with_name("other").replace(path)


def damaged(path):
    with path.open("r+b") as file:
        file.write(b"text instead of a header" * 100)


def cut_off(path):
    with path.open("r+b") as file:
        file.truncate(0)


def without_log(path):
    path.with_name(path.name + "-wal").unlink()


LOSSES = [deleted, replaced, damaged, cut_off, without_log]


@pytest.mark.parametrize("lose", LOSSES)
def test_rows_of_a_lost_file_are_not_acknowledged(loaded, tmp_path, lose):
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=1.0) as queue:
        record(queue, loaded, rooms(2))
        lose(queue.path)
        with pytest.raises(QueueUnavailable, match=r"the review queue cannot be used: "):
            record(queue, loaded, rooms(1, seed=2))
        with pytest.raises(QueueUnavailable):
            queue.lease("Ada")


@pytest.fixture
def client(model_path, tmp_path):
    settings = Settings({"rooms": model_path}, queue=tmp_path / "reviews.sqlite", audit_share=1.0)
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.mark.parametrize("lose", LOSSES)
def test_the_service_is_alive_but_not_ready(client, tmp_path, caplog, lose):
    assert client.post("/predict", json={"row": ROW}).status_code == 200
    assert client.get("/v2/health/ready").json() == {"ready": True}
    lose(tmp_path / "reviews.sqlite")
    if lose is not without_log:  # which is found when something is written
        ready = client.get("/v2/health/ready")
        assert (ready.status_code, set(ready.json())) == (503, {"error"})
    for _ in range(2):
        answer = client.post("/predict", json={"row": ROW})
        assert answer.status_code == 503
        assert "the review queue cannot be used: " in answer.json()["error"]
    assert client.get("/v2/health/ready").status_code == 503
    assert client.get("/v2/health/live").status_code == 200
    assert client.post("/predict", json={"row": ROW, "record": False}).status_code == 200
    told = [entry for entry in caplog.records if entry.name == "recuse.serving"]
    assert [entry.levelno for entry in told] == [logging.ERROR]


def test_a_file_that_comes_back_can_be_used_again(client, tmp_path, caplog):
    path = tmp_path / "reviews.sqlite"
    path.rename(tmp_path / "away")
    assert client.post("/predict", json={"row": ROW}).status_code == 503
    (tmp_path / "away").rename(path)
    assert client.get("/v2/health/ready").status_code == 200
    assert client.post("/predict", json={"row": ROW}).status_code == 200
    assert [entry.levelno for entry in caplog.records] == [logging.ERROR, logging.WARNING]
    assert caplog.messages[1] == "the review queue can be used again"


def test_a_summary_of_a_full_queue_does_not_make_it_ready(client, tmp_path):
    client.post("/predict", json={"row": ROW})
    shutil.copy(tmp_path / "reviews.sqlite", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "reviews.sqlite")
    assert client.post("/predict", json={"row": ROW}).status_code == 503
    assert client.get("/reviews/summary").status_code == 200  # of the file that is there now
    assert client.get("/v2/health/ready").status_code == 503


_FULL = """
    import logging, resource, sys, warnings
    from pathlib import Path
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient
    from recuse.serving import Settings, create_app

    logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
    row = {"area": 50.0, "city": "Berlin", "age": 3.0}
    settings = Settings({"rooms": Path(sys.argv[1])}, queue=Path(sys.argv[2]), audit_share=1.0)
    with TestClient(create_app(settings)) as client:
        ask = lambda: client.post("/predict", json={"rows": [row] * 200}).status_code
        ready = lambda: client.get("/v2/health/ready").status_code
        print(ask(), ready())
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        print(ask(), ask(), ready(), client.get("/v2/health/live").status_code)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(ready(), ask(), ready())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_files_that_cannot_grow(model_path, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(_FULL), str(model_path), str(tmp_path / "reviews.sqlite")]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert lines[0] == "200 200"
    assert lines[1].startswith("ERROR the review queue cannot be used: ")
    assert lines[2] == "503 503 503 200"
    assert lines[3] == "WARNING the review queue can be used again"
    assert lines[4:] == ["200 200 200"]
