"""Attacks against `recuse serve` on loopback: memory, time to answer of /health, and what was refused.

Each attack has a server of its own, with a key and with the limits that a user has by default. A client without a key
asks /health on a new connection every tenth of a second meanwhile. All attacks are bounded in bytes, connections and
time.

    python benchmarks/service_attack.py
    python benchmarks/service_attack.py --only headers,rows
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import recuse

_KEY = "key of the benchmark"
_MEBIBYTE = 2**20
_PATIENCE = 60.0  # seconds for an answer
_ASKING_SECONDS = 0.1
_COLUMNS = 100
_LEAST_FILES = 256  # descriptors of the server in the attack that tries to use them up

Address = tuple[str, int]


@dataclass
class Watch:
    """What a thread saw of the server during an attack.

    Attributes
    ----------
    memory : float
        Largest resident memory in MiB.
    health : float
        Longest time in seconds until /health answered on a new connection.
    unhealthy : int
        Answers of /health other than 200, and connections that broke.
    """

    address: Address
    process: int
    memory: float = 0.0
    health: float = 0.0
    unhealthy: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look at the server until the attack has ended."""
        while not self.ended.wait(_ASKING_SECONDS):
            self.look()

    def look(self) -> None:
        """Measure the memory, and ask for /health once."""
        self.memory = max(self.memory, _resident(self.process))
        started = time.perf_counter()
        status = answer_to(self.address, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.health = max(self.health, time.perf_counter() - started)
        self.unhealthy += status != "200"


def _resident(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def answer_to(address: Address, request: bytes) -> str:
    """Send bytes; return the status of the answer, or what happened instead."""
    try:
        with socket.create_connection(address, timeout=_PATIENCE) as connection:
            with contextlib.suppress(ConnectionError):  # refused before the end: there may be an answer
                connection.sendall(request)
            return _status(connection)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return type(error).__name__


def _status(connection: socket.socket) -> str:
    head = b""
    while b"\r\n" not in head:
        piece = connection.recv(65536)
        if not piece:
            return "closed"
        head += piece
    return head.split(b" ", 2)[1].decode()


def post(path: str, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    """Return a whole request with the key."""
    lines = {"Host": "localhost", "X_API_Key": _KEY, "Content_Type": kind, "Content_Length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def at_once(count: int, send: Callable[[], str]) -> Counter[str]:
    """Send some requests at the same time; count the answers."""
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(send())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(answers)


def endless(address: Address, start: bytes, piece: bytes, most: int) -> str:
    """Send a piece again and again until the service closes the connection."""
    sent = 0
    try:
        with socket.create_connection(address, timeout=_PATIENCE) as connection:
            connection.sendall(start)
            while sent < most:
                connection.sendall(piece)
                sent += len(piece)
            return f"took {sent / _MEBIBYTE:.0f} MiB"
    except OSError:
        return f"closed within {2 ** int(np.ceil(np.log2(max(sent / _MEBIBYTE, 1)))):d} MiB"


_HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"


def headers(address: Address) -> Counter[str]:
    """Four connections without a key, each with 60 MiB of headers, of one header, and of headers behind a body."""
    chunked = _HEAD + b"X-API-Key: " + _KEY.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    found: Counter[str] = Counter()
    for start, piece in [
        (_HEAD, b"X-A: b\r\n" * 8192),
        (_HEAD + b"X-A: ", b"b" * 65536),
        (chunked + b"X-A: ", b"b" * 65536),
    ]:
        found += at_once(4, lambda start=start, piece=piece: endless(address, start, piece, 60 * _MEBIBYTE))  # type: ignore[misc]
    return found


def rows(address: Address) -> Counter[str]:
    """Four requests at once, each of 2 and of nearly 16 MiB of empty rows; as CSV, lists, tensors and for the queue."""
    found: Counter[str] = Counter()
    for size in (2 * _MEBIBYTE, 16 * _MEBIBYTE - 100):
        empty = b'{"rows":[' + b",".join([b"{}"] * (size // 3 - 10)) + b"]}"
        lists = b'{"instances":[' + b",".join([b"[]"] * (size // 3 - 10)) + b"]}"
        numbers = b'{"inputs":{"column_0":[' + b",".join([b"1"] * (size // 2 - 30)) + b"]}}"
        deep = b'{"rows":' + b"[" * (size // 2 - 10) + b"]" * (size // 2 - 10) + b"}"
        lines = b"column_0\n" + b"1\n" * (size // 2 - 10)
        texts = b",".join([b'{"column_0":"' + b"a" * 120_000 + b'\xf0\x9f\x98\x80"}'] * (size // 130_000))
        shape = size // 2 - 100
        tensor = b'{"inputs":[{"name":"column_0","datatype":"FP64","shape":[%d],"data":[' % shape
        tensor += b",".join([b"1"] * shape) + b"]}]}"
        for request in (
            post("/predict", empty),
            post("/predict", deep),
            post("/predict", b'{"rows":[' + texts + b"]}"),
            post("/invocations", lists),
            post("/invocations", numbers),
            post("/invocations", lines, "text/csv"),
            post("/v2/models/wide/infer", tensor),
            post("/reviews/lease", b'{"reviewer":"eve",' + empty[1:]),
        ):
            found += at_once(4, lambda request=request: answer_to(address, request))  # type: ignore[misc]
    return found


def half_sent(address: Address) -> Counter[str]:
    """Open 300 connections with half a head, and 300 with half a body, while the service may open 256 files."""
    found: Counter[str] = Counter()
    for start in (_HEAD, _HEAD + b"X-API-Key: " + _KEY.encode() + b"\r\nContent-Length: 1000\r\n\r\n{"):
        with contextlib.ExitStack() as opened:
            for _ in range(300):
                connection = opened.enter_context(socket.create_connection(address, timeout=_PATIENCE))
                with contextlib.suppress(ConnectionError):
                    connection.sendall(start)
            found[f"/health {answer_to(address, _GET_HEALTH)}"] += 1
            time.sleep(2.0)
    return found


_GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def sites(address: Address) -> Counter[str]:
    """Requests as pages of other sites cause them, and under names that were pointed at the service."""
    body = b'{"row":{"column_0":1}}'
    requests = {
        "other origin": post("/predict", body, Origin="http://evil.example"),
        "same site": post("/predict", body, Sec_Fetch_Site="same-site"),
        "rebound name": post("/predict", body, Host="evil.example"),
        "without a key": post("/predict", body, X_API_Key="no"),
        "slash": post("/predict/", body),
        "twice the same key": post("/predict", b'{"row":{"column_0":1,"column_0":2}}'),
        "no known column": post("/predict", b'{"row":{"colum_0":1}}'),
    }
    return Counter({f"{name} {answer_to(address, request)}": 1 for name, request in requests.items()})


def bodies(address: Address) -> Counter[str]:
    """Send 40 bodies of nearly 16 MiB at once that are not JSON."""
    request = post("/predict", b"[" + b" " * (16 * _MEBIBYTE - 100))
    return at_once(40, lambda: answer_to(address, request))


def texts(address: Address) -> Counter[str]:
    """Four requests at once of nearly 16 MiB of long texts in letters that are not Latin, and of words, five times."""
    found: Counter[str] = Counter()
    for text in ("\u0436" * 60_000, "\u0436\u0443\u043a"):
        cell = json.dumps({"column_0": text, "column_1": text}, ensure_ascii=False).encode()
        count = min(16 * _MEBIBYTE // (len(cell) + 1) - 1, 10_000)
        request = post("/predict", b'{"rows":[' + b",".join([cell] * count) + b"]}")
        for _ in range(5):
            found += at_once(4, lambda request=request: answer_to(address, request))  # type: ignore[misc]
    return found


_ATTACKS = {
    **{"headers": headers, "rows": rows, "half sent": half_sent, "sites": sites, "bodies": bodies},
    "texts": texts,
}


@contextlib.contextmanager
def served(model: Path, *, files: int | None) -> Iterator[tuple[Address, int]]:
    """Run a server with a key, and if `files` is given with so many descriptors; give its address and process."""
    command = [sys.executable, "-m", "recuse.cli", "serve", str(model), "--port", "0"]
    command += ["--queue", str(model.with_suffix(".sqlite"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RECUSE_API_KEY": _KEY}
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert server.stdout is not None
    try:
        port = int(re.search(r":(\d+)\s*$", server.stdout.readline())[1])  # type: ignore[index]
        yield ("127.0.0.1", port), server.pid
    finally:
        server.terminate()
        server.wait(60)


def make_model(path: Path) -> None:
    """Fit and save a model of a hundred columns."""
    import pandas as pd
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, _COLUMNS))
    table = pd.DataFrame(X, columns=[f"column_{place}" for place in range(_COLUMNS)])
    y = X[:, 0] + 0.5 * rng.normal(size=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what it decides does not matter here
        recuse.save(recuse.RiskRejector(Ridge(), Ridge(), cost=1.0, random_state=0).fit(table, y), path)


def measure(name: str, model: Path) -> dict[str, object]:
    """Run an attack against a new server."""
    with served(model, files=_LEAST_FILES if name == "half sent" else None) as (address, process):
        watch = Watch(address, process)
        watch.look()
        before = watch.memory
        thread = threading.Thread(target=watch.run)
        thread.start()
        started = time.perf_counter()
        answers = _ATTACKS[name](address)
        seconds = time.perf_counter() - started
        time.sleep(1.0)  # work that nobody waits for any more would show
        watch.ended.set()
        thread.join()
        watch.look()
    return {
        "MiB before": round(before),
        "MiB": round(watch.memory),
        "health s": round(watch.health, 3),
        "unhealthy": watch.unhealthy,
        "seconds": round(seconds, 1),
        "answers": json.dumps(dict(sorted(answers.items()))),
    }


def main() -> None:
    """Run the attacks that are asked for, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(_ATTACKS), help="attacks, separated by commas")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "wide.recuse"
        make_model(model)
        for name in arguments.only.split(","):
            figures = measure(name, model)
            print(f"{name:10}", "  ".join(f"{key} {value}" for key, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
