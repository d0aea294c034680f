"""`recuse serve` in a process of its own: readiness, hot swaps under load, workers, keys and the end."""

import contextlib
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import recuse
from recuse.cli import app
from recuse.cli.serve import _api_key
from recuse.serving import Settings
from recuse.serving import server as server_module
from saved_estimators import TRAIN
from service_runs import records, running, wait_until

ROW = records(TRAIN.head(1))[0]


def test_swaps_under_load_drop_nothing_and_mix_nothing(models, tmp_path):
    files = [models / "cars.recuse", models / "cars_again.recuse"]
    served = tmp_path / "cars.recuse"
    shutil.copy(files[0], served)
    answers, stop = [], threading.Event()

    def ask(address):
        with httpx.Client(base_url=address, timeout=60) as client:
            while not stop.is_set():
                answers.append(client.post("/predict", json={"row": ROW}))

    with running(served, "--reload-seconds", "0.05") as (server, client):
        threads = [threading.Thread(target=ask, args=(client.base_url,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        versions = [client.get("/models").json()[0]["version"]]
        for number in range(1, 4):
            new = tmp_path / "new"
            shutil.copy(files[number % 2], new)
            new.replace(served)
            old = versions[-1]
            versions.append(wait_until(lambda old=old: _other_version(client, old)))
            wait_until(lambda least=40 * number: len(answers) >= least)
        served.write_bytes(b"damaged")
        wait_until(lambda: len(answers) >= 200)
        stop.set()
        for thread in threads:
            thread.join()
        server.send_signal(signal.SIGTERM)
        log = server.communicate(timeout=60)[1]
    assert {answer.status_code for answer in answers} == {200}
    expected = dict(zip(versions[:2], (recuse.load(file).decide(ROW).prediction[0] for file in files), strict=True))
    found = {(answer.json()["version"], answer.json()["decisions"][0]["prediction"]) for answer in answers}
    assert found == set(expected.items())
    assert log.count("was replaced") == 3
    assert "was not replaced, version" in log
    assert str(ROW["weight"]) not in log


def _other_version(client, old):
    version = client.get("/models").json()[0]["version"]
    return version if version != old else None


def test_an_open_request_is_finished_before_the_end(models):
    with running(models / "cars.recuse", "--max-requests", "1") as (server, client):
        host, port = client.base_url.host, client.base_url.port
        with socket.create_connection((host, port), timeout=60) as connection:
            body = b'{"row": {"weight": 3000}}'
            head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            connection.sendall(head + body[:5])
            wait_until(lambda: client.get("/models").status_code == 503)  # the open request is at work
            client.close()
            server.send_signal(signal.SIGTERM)
            wait_until(lambda: _refuses(host, port))
            connection.sendall(body[5:])
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")
        assert server.wait(60) in (0, -signal.SIGTERM)


def _refuses(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_workers_share_the_socket_the_key_and_the_metrics(models, tmp_path):
    key = tmp_path / "key"
    key.write_text("open sesame\n")
    with running(models / "cars.recuse", "--workers", "2", "--api-key-file", key) as (server, client):
        assert client.post("/predict", json={"row": ROW}).status_code == 401
        client.headers["X-API-Key"] = "open sesame"
        for _ in range(20):  # on connections of their own, so that both workers get some
            with httpx.Client(base_url=client.base_url, headers=client.headers, timeout=60) as other:
                assert other.post("/predict", json={"row": ROW}).status_code == 200
        rows = [line for line in client.get("/metrics").text.splitlines() if line.startswith("recuse_rows_total")]
        assert sum(float(line.rpartition(" ")[2]) for line in rows) == 20
        workers = _children(server.pid)
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: len(_children(server.pid)) == 2 and workers[0] not in _children(server.pid))
        wait_until(lambda: _answers(client))
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_a_worker_that_finds_a_damaged_file_says_so_in_one_line(models, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(server_module, "_RETRY_SECONDS", 0.0)
    damaged = tmp_path / "damaged.recuse"
    damaged.write_bytes((models / "cars.recuse").read_bytes()[:-5])
    with pytest.raises(SystemExit):
        server_module._create_worker_app(Settings({"damaged": damaged}))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("a worker cannot start: damaged.recuse ends after")


def _children(process):
    """Return the workers of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process and state != "Z" and "spawn_main" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    return found


def _answers(client):
    try:
        return client.post("/predict", json={"row": ROW}).status_code == 200
    except httpx.TransportError:  # the connection was that of the killed worker
        return False


def run(*arguments, **environment):
    return CliRunner(env=environment).invoke(app, ["serve", *map(str, arguments)])


def test_a_wrong_start_ends_with_one_sentence(models, tmp_path):
    cars = models / "cars.recuse"
    damaged = tmp_path / "damaged.recuse"
    damaged.write_bytes(cars.read_bytes()[:-5])
    for arguments, code, words in [
        ([tmp_path / "none.recuse"], 1, "does not exist"),
        ([damaged], 1, "it was cut off"),
        ([damaged, "--workers", "2"], 1, "it was cut off"),
        ([cars, tmp_path / "cars.recuse"], 1, "need different names"),
        ([cars, "--api-key-file", tmp_path / "no key"], 1, "no key"),
        ([cars, "--training", "homes=x.csv"], 1, "need a model of their name"),
        ([cars, "--training", "x.csv", "--training", "cars=y.csv"], 2, "once for each model"),
    ]:
        result = run(*arguments)
        assert result.exit_code == code, result.output
        assert result.stderr.startswith("error: ")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_key_from_two_places_is_wrong_usage(models, tmp_path):
    (tmp_path / "key").write_text("key")
    result = run(models / "cars.recuse", "--api-key-file", tmp_path / "key", RECUSE_API_KEY="other")
    assert result.exit_code == 2
    assert "cannot both be given" in result.stderr


def test_a_port_in_use_ends_with_one_sentence(models):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run(models / "cars.recuse", "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert "in use" in result.stderr.lower()


def test_a_line_break_after_the_key_is_no_part_of_it(monkeypatch):
    monkeypatch.setenv("RECUSE_API_KEY", "open sesame\n")
    assert _api_key(None) == "open sesame"


def test_an_empty_key_is_refused(models):
    result = run(models / "cars.recuse", RECUSE_API_KEY="")
    assert result.exit_code == 1
    assert "must not be empty" in result.stderr


pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
