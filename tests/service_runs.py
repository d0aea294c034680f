"""Clients of the service, `recuse serve` in a process of its own, and rows as JSON has them."""

import contextlib
import os
import re
import subprocess
import sys
import time
import warnings

import httpx
import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Starlette prefers a successor of httpx
    warnings.simplefilter("ignore", UserWarning)
    from fastapi.testclient import TestClient

__all__ = ["TestClient", "records", "running", "wait_until"]

_PATIENCE = 120.0  # seconds; a busy machine starts a process slowly


def records(table):
    """Return the rows of a table as JSON has them."""
    return [{name: _as_json(cell) for name, cell in row.items()} for row in table.to_dict("records")]


def _as_json(cell):
    if cell is None or cell != cell:
        return None
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return cell.item() if isinstance(cell, np.generic) else cell


def wait_until(condition):
    """Wait until a function returns something true, and return it."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("waited too long")


@contextlib.contextmanager
def running(*arguments, environment=None):
    """Run `recuse serve`; give the process and a client when it is ready."""
    command = [sys.executable, "-m", "recuse.cli", "serve", *map(str, arguments), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, **pipes, env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})})
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        with httpx.Client(base_url=address, timeout=_PATIENCE) as client:
            wait_until(lambda: _is_ready(client))
            yield server, client
    finally:
        if server.poll() is None:
            server.terminate()
        server.communicate(timeout=_PATIENCE)


def _is_ready(client):
    try:
        return client.get("/v2/health/ready").status_code == 200
    except httpx.TransportError:
        return False
