"""Latency and throughput of `recuse serve` on loopback, and requests during ten swaps of the model file.

The server is a process of its own, the load comes from this one over connections that stay open. For comparison, a bare
ASGI application runs the graph of the same model file by ONNX Runtime, without limits, checks or metrics: blocks of
requests to both alternate, and their processor times are compared. The load is bounded in count and in time.

    python benchmarks/service.py
    python benchmarks/service.py --requests 2000 --only bare
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import uvloop

import recuse

_LIMIT = 120.0  # seconds for any one load
_SWAPS = 10
_BLOCKS = 16  # of requests to each of two servers, alternating
_BARE = """
import json, os, socket, sys
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np, onnxruntime, uvicorn, recuse
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(recuse.load(sys.argv[1]).onnx_graph(), options)
outputs, kinds = ["prediction", "score", "accepted"], {"tensor(double)": np.float64, "tensor(string)": object}
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    content = json.loads(body)
    rows = content["rows"] if "rows" in content else [content["row"]]
    feeds = {"cost": np.full((len(rows), 1), 6.0)}
    for each in session.get_inputs():
        if each.name != "cost":
            to_cell = str if each.type == "tensor(string)" else float
            feeds[each.name] = np.array([to_cell(row[each.name]) for row in rows], kinds[each.type])[:, None]
    feeds = {each.name: feeds[each.name] for each in session.get_inputs()}
    values = [each.tolist() for each in session.run(outputs, feeds)]
    answer = json.dumps([dict(zip(outputs, row)) for row in zip(*values)]).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": answer})
config = uvicorn.Config(app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning")
bound = socket.create_server(("127.0.0.1", 0), backlog=2048)
print(f"Serving at http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
uvicorn.Server(config).run(sockets=[bound])
"""


@dataclass
class Load:
    """Requests over several connections, and what came back.

    Attributes
    ----------
    address : tuple of str and int
    bodies : list of bytes
        Sent one after the other, again and again.
    count, clients : int
    seconds : list of float
        Time of each request.
    errors : int
        Answers other than 200, and connections that broke.
    answers : list of bytes
        Bodies, if `keep` is true.
    """

    address: tuple[str, int]
    bodies: list[bytes]
    count: int
    clients: int
    keep: bool = False
    seconds: list[float] = field(default_factory=list)
    errors: int = 0
    answers: list[bytes] = field(default_factory=list)
    sent: int = 0

    async def run(self) -> float:
        """Send all requests; return the seconds that it took."""
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        ends = []
        for _ in range(self.clients):
            client = _Client(self, loop.create_future())
            await loop.create_connection(lambda client=client: client, *self.address)
            ends.append(client.end)
        await asyncio.wait_for(asyncio.gather(*ends), _LIMIT)
        return time.perf_counter() - started

    def next_request(self) -> bytes | None:
        """Return the bytes of the next request."""
        if self.sent >= self.count:
            return None
        body = self.bodies[self.sent % len(self.bodies)]
        self.sent += 1
        return body


class _Client(asyncio.Protocol):
    """One connection that sends the next request when the answer has come."""

    def __init__(self, load: Load, end: asyncio.Future[None]) -> None:
        self.load, self.end, self.buffer = load, end, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found or len(rest) < _length(head):
            return
        self.load.seconds.append(time.perf_counter() - self.started)
        self.load.errors += not head.startswith(b"HTTP/1.1 200")
        if self.load.keep:
            self.load.answers.append(rest)
        self.buffer = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.end.done():
            self.load.errors += 1
            self.end.set_result(None)

    def _send(self) -> None:
        request = self.load.next_request()
        if request is None:
            self.end.set_result(None)
            self.transport.close()
            return
        self.started = time.perf_counter()
        self.transport.write(request)


def _length(head: bytes) -> int:
    start = head.lower().index(b"content-length:") + 15
    return int(head[start:].split(b"\r\n", 1)[0])


def request_bytes(path: str, *rows: dict[str, object]) -> bytes:
    """Return a whole request for one row, or for several."""
    body = json.dumps({"row": rows[0]} if len(rows) == 1 else {"rows": rows}).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[tuple[tuple[str, int], int]]:
    """Run a server; give its address and process id."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        port = int(re.search(r":(\d+)\s*$", line)[1])  # type: ignore[index]
        yield ("127.0.0.1", port), server.pid
    finally:
        server.terminate()
        server.wait(30)


def serve(*models: Path, workers: int = 1) -> list[str]:
    """Return the command that serves model files."""
    return [sys.executable, "-m", "recuse.cli", "serve", *map(str, models), "--port", "0", "--workers", str(workers)]


def cpu_seconds(process: int) -> float:
    """Return the processor time of the threads of a process, in steps of nanoseconds."""
    return (
        sum(int((each / "schedstat").read_text().split()[0]) for each in Path(f"/proc/{process}/task").iterdir()) / 1e9
    )


def rows_of(name: str) -> list[dict[str, object]]:
    """Return the first rows of a data set as JSON would have them."""
    table = recuse.datasets.load(name).X.head(100)
    return json.loads(table.to_json(orient="records"))


def make_models(folder: Path) -> None:
    """Fit and save the models, unless the folder has them."""
    makers: dict[str, tuple[str, Callable[[], object]]] = {
        "mlp": ("auto_mpg", lambda: recuse.RcRRegressor(6.0, epochs=200, random_state=0)),
        "mlp_other": ("auto_mpg", lambda: recuse.RcRRegressor(6.0, epochs=200, random_state=1)),
        "auto": ("concrete", lambda: recuse.AutoRejector(30.0, time_limit=60, random_state=0)),
    }
    for name, (data, make) in makers.items():
        if not (folder / f"{name}.recuse").exists():
            dataset = recuse.datasets.load(data)
            recuse.save(make().fit(dataset.X, dataset.y), folder / f"{name}.recuse")


def measure(name: str, command: list[str], bodies: list[bytes], count: int) -> dict[str, float]:
    """Measure one client after the other, then 32 at once."""
    with running(command) as (address, process):
        uvloop.run(Load(address, bodies, 300, 1).run())  # warm up
        alone = Load(address, bodies, count // 4, 1)
        uvloop.run(alone.run())
        many, before = Load(address, bodies, count, 32), cpu_seconds(process)
        seconds = uvloop.run(many.run())
        used = cpu_seconds(process) - before
    times = statistics.quantiles(alone.seconds, n=100)
    crowd = statistics.quantiles(many.seconds, n=100)
    return {
        "p50 ms": times[49] * 1e3,
        "p99 ms": times[98] * 1e3,
        "requests/s": len(many.seconds) / seconds,
        "p99 ms of 32": crowd[98] * 1e3,
        "CPU ms": used / count * 1e3,
        "errors": alone.errors + many.errors,
    }


def compare(model: Path, rows: list[dict[str, object]], count: int) -> dict[str, float]:
    """Return the processor time of requests for one row and for a hundred, and its ratio to that of the bare server."""
    figures: dict[str, float] = {}
    with running(serve(model)) as service, running([sys.executable, "-c", _BARE, str(model)]) as bare:
        for number in (1, 100):
            requests = [request_bytes("/predict", *rows[:number])]
            size = max(count // _BLOCKS // number, 20)
            used: list[tuple[float, ...]] = []
            for _ in range(_BLOCKS + 1):
                pair = []
                for address, process in (service, bare):
                    before = cpu_seconds(process)
                    load = Load(address, requests, size, 1)
                    uvloop.run(load.run())
                    assert load.errors == 0
                    pair.append((cpu_seconds(process) - before) / size * 1e3)
                used.append(tuple(pair))
            ratios = [ours / theirs for ours, theirs in used[1:]]  # the first block warms up
            figures[f"CPU ms, {number} rows"] = statistics.median(ours for ours, _ in used[1:])
            figures[f"ratio to bare, {number} rows"] = statistics.median(ratios)
    return figures


def swap(folder: Path, count: int) -> dict[str, float]:
    """Send requests while the model file is replaced ten times; count answers that mix two models."""
    row = rows_of("auto_mpg")[0]
    paths = [folder / "mlp.recuse", folder / "mlp_other.recuse"]
    with tempfile.TemporaryDirectory() as place:
        served = Path(place) / "cars.recuse"
        shutil.copy(paths[0], served)
        with running([*serve(served), "--reload-seconds", "0.05"]) as (address, _):
            load = Load(address, [request_bytes("/predict", row)], count, 8, keep=True)
            done = threading.Event()
            thread = threading.Thread(target=_swap_files, args=(load, paths, served, done))
            thread.start()
            uvloop.run(load.run())
            done.set()
            thread.join()
    expected = {_version(path): recuse.load(path).decide(row).prediction[0] for path in paths}
    answers = [json.loads(answer) for answer in load.answers]
    mixed = sum(expected.get(each["version"]) != each["decisions"][0]["prediction"] for each in answers)
    changes = sum(a["version"] != b["version"] for a, b in pairwise(answers))
    return {"answers": len(answers), "errors": load.errors, "mixed": mixed, "versions seen in turn": changes + 1}


def _swap_files(load: Load, paths: list[Path], served: Path, done: threading.Event) -> None:
    """Replace the file at ten moments of the load; each time wait until an answer has the new version."""
    for number in range(1, _SWAPS + 1):
        while load.sent < load.count * number / (_SWAPS + 2) and not done.wait(0.005):
            pass
        new, version = served.with_suffix(".new"), _version(paths[number % 2]).encode()
        shutil.copy(paths[number % 2], new)
        new.replace(served)
        while version not in load.answers[-1] and not done.wait(0.005):
            pass


def _version(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def main() -> None:
    """Run what is asked for, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="of 32 clients; a quarter of it of one client")
    parser.add_argument("--only", default="bare,mlp,auto,swap", help="what to measure")
    parser.add_argument("--folder", type=Path, help="where the models are kept for the next run")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_models(folder)
        cars = [request_bytes("/predict", row) for row in rows_of("auto_mpg")]
        concrete = [request_bytes("/predict", row) for row in rows_of("concrete")]
        runs = {
            "mlp": (serve(folder / "mlp.recuse"), cars, "RcRRegressor, auto_mpg"),
            "auto": (serve(folder / "auto.recuse"), concrete, "AutoRejector, concrete"),
        }
        for name, (command, bodies, title) in runs.items():
            if name in wanted:
                figures = measure(name, command, bodies, arguments.requests)
                print(f"{title:24}", "  ".join(f"{key} {value:.4g}" for key, value in figures.items()), flush=True)
        if "bare" in wanted:
            figures = compare(folder / "mlp.recuse", rows_of("auto_mpg"), arguments.requests)
            print("beside a bare server    ", "  ".join(f"{key} {value:.4g}" for key, value in figures.items()))
        if "swap" in wanted:
            figures = swap(folder, max(arguments.requests // 2, 1000))
            print("ten swaps of the file    ", "  ".join(f"{key} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
