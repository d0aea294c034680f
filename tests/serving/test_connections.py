"""Large heads, half-sent requests and many connections, with plain sockets against `recuse serve`."""

import contextlib
import socket
import time

import httpx
import pytest

from saved_estimators import TRAIN
from service_runs import records, running, wait_until

MOST = 12  # open connections
LIMITS = ("--head-timeout", "1", "--timeout", "1", "--max-connections", str(MOST))
PATIENCE = 30.0  # seconds; a busy machine is slow
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def service(models):
    """Return a client of a service with short times, and its address."""
    with running(models / "cars.recuse", *LIMITS) as (_, client):
        yield client, (client.base_url.host, client.base_url.port)


def connect(address):
    connection = socket.create_connection(address, timeout=PATIENCE)
    return contextlib.closing(connection)


def send_until_closed(connection, piece, most):
    """Send a piece again and again; return how many bytes were sent before the service closed the connection."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    return sent


def rest(connection):
    """Return all that comes until the service closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            received += piece
    return received


def test_many_headers_and_one_endless_header_are_cut_off(service):
    _, address = service
    for start, piece in [
        (REQUEST, b"X-A: b\r\n" * 1000),
        (REQUEST + b"X-A: ", b"b" * 8000),
        (b"GET /", b"b" * 8000),
        (REQUEST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: ", b"b" * 8000),  # after the body
    ]:
        with connect(address) as connection:
            connection.sendall(start)
            sent = send_until_closed(connection, piece, 64 * 2**20)
        assert sent < 16 * 2**20, start  # what the buffers of the kernel take


def test_a_large_head_gets_one_sentence(service):
    with connect(service[1]) as connection:
        connection.sendall(REQUEST + b"X-A: " + b"b" * 40_000)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b'{"error": "the head of a request may have at most 32768 bytes"}' in answer


def test_answers_before_the_application_are_neither_stored_nor_guessed_about(service):
    for sent in (REQUEST + b"X-A: " + b"b" * 40_000, REQUEST, b"no HTTP\r\n\r\n"):
        with connect(service[1]) as connection:
            connection.sendall(sent)
            head, _, body = rest(connection).partition(b"\r\n\r\n")
        assert b"\r\ncache-control: no-store" in head, sent
        assert b"\r\nx-content-type-options: nosniff" in head, sent
        assert body.startswith(b'{"error": "'), sent


def test_a_head_of_ordinary_size_is_answered(service):
    client, _ = service
    assert client.get("/models", headers={"X-Trace": "a" * 20_000}).status_code == 200
    for _ in range(3):
        assert client.post("/predict", json={"row": records(TRAIN.head(1))[0]}).status_code == 200


HALF_SENT = {
    "nothing": b"",
    "a line break": b"\r\n",
    "half a head": REQUEST,
    "half a body, of a request that is answered without it": REQUEST + b"Content-Length: 1000\r\n\r\n{",
    "half a body": b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    "some chunks": b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
}


def is_closed(connection):
    """Whether the service has closed a connection; nothing is sent."""
    with contextlib.suppress(BlockingIOError):
        try:
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass
        return True
    return False


def test_half_sent_requests_are_closed_even_if_bytes_trickle_in(service):
    with contextlib.ExitStack() as opened:
        waiting = {what: opened.enter_context(connect(service[1])) for what in HALF_SENT}
        for what, connection in waiting.items():
            connection.sendall(HALF_SENT[what])
            connection.setblocking(False)
        end = time.monotonic() + PATIENCE
        while waiting and time.monotonic() < end:
            time.sleep(0.2)
            waiting = {what: each for what, each in waiting.items() if not is_closed(each)}
            for what, connection in waiting.items():
                with contextlib.suppress(ConnectionError):
                    connection.send(b"\r\n" if HALF_SENT[what].strip() == b"" else b"a")
        assert list(waiting) == []


def test_half_sent_requests_leave_room_for_others(service):
    client, address = service
    with contextlib.ExitStack() as opened:
        for _ in range(3 * MOST):
            opened.enter_context(connect(address)).sendall(REQUEST)
        assert httpx.get(client.base_url.join("/health"), timeout=PATIENCE).status_code == 200


def test_what_was_refused_is_counted_and_logged_without_its_content(models):
    with running(models / "cars.recuse", *LIMITS) as (server, client):
        address = (client.base_url.host, client.base_url.port)
        for _ in range(3):
            with connect(address) as connection:
                connection.sendall(REQUEST + b"X-Secret: hush" + b"h" * 40_000)
                rest(connection)
        for sent in (b"hush\r\n\r\n", REQUEST + b"Upgrade: hush\r\nConnection: Upgrade, close\r\n\r\n") * 3:
            with connect(address) as connection:
                connection.sendall(sent)
                rest(connection)
        with connect(address) as connection:
            connection.sendall(REQUEST)
            rest(connection)
        counts = wait_until(
            lambda: [line for line in client.get("/metrics").text.splitlines() if "refused_total{" in line]
        )
        server.terminate()
        log = server.communicate(timeout=PATIENCE)[1]
    assert 'recuse_refused_total{reason="head"} 3.0' in counts
    assert 'recuse_refused_total{reason="protocol"} 3.0' in counts
    assert 'recuse_refused_total{reason="unfinished"} 1.0' in counts
    assert log.count("closed a request with too large a head from 127.0.0.1") == 1
    assert "closed a request that was not sent" in log
    assert len([line for line in log.splitlines() if "WARNING" in line]) == 3
    assert "hush" not in log
