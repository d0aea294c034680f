"""The uvicorn server: one socket, one process or several workers."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from recuse.extras import import_extra
from recuse.serving.settings import Settings

_BACKLOG = 2048
_SWITCH_SECONDS = 0.001  # how long a small request waits for a thread that decides about a large one
_RETRY_SECONDS = 3.0
_M_MMAP_THRESHOLD = -3  # the value of M_MMAP_THRESHOLD in malloc.h
_LARGE_BLOCK = 2**16
_OTHER_FILES = 64  # models, the queue, metrics and libraries
_GRACE_SECONDS = 5  # a request that is still open so long after its time-out was not sent completely


_log = logging.getLogger("recuse.serving")


def run_server(settings: Settings, host: str, port: int, workers: int, ready: Callable[[str], None]) -> None:
    """Serve until the process receives SIGINT or SIGTERM; requests that are at work are finished.

    Parameters
    ----------
    settings : Settings
    host : str
    port : int
        0 takes a free port.
    workers : int
        Number of processes. A worker that ends is replaced.
    ready : callable
        Is called with the address of the service when its socket accepts connections.
    """
    uvicorn = import_extra("uvicorn", "serve")
    import_extra("fastapi", "serve")
    import_extra("prometheus_client", "serve")
    app = _create_app(settings)  # raises an error if a file cannot be used
    config = uvicorn.Config(
        app if workers == 1 else partial(_create_worker_app, settings),
        factory=workers > 1,
        workers=workers,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        http=_protocol(settings),
        ws="none",
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        log_config=_LOGGING,
        timeout_graceful_shutdown=int(settings.timeout) + _GRACE_SECONDS,
    )
    del app  # with several workers this process has no use for it
    with _bind(host, port) as bound:
        ready(_address(bound))
        if workers == 1:
            uvicorn.Server(config).run(sockets=[bound])
        else:
            _run_workers(config, bound)


def _protocol(settings: Settings) -> Any:
    """Return what makes the protocol of a connection; it goes to the workers by pickle."""
    from recuse.serving.connections import LimitedProtocol

    possible = _possible_connections(settings.max_connections)
    return partial(LimitedProtocol, replace(settings, max_connections=possible))


def _possible_connections(wanted: int) -> int:
    """Return how many connections the limit of open files of this process allows, at most `wanted`."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    possible = wanted if files == resource.RLIM_INFINITY else max(1, files - _OTHER_FILES)
    if possible < wanted:
        _log.warning("at most %d connections at once, since a process may open %d files", possible, files)
    return min(possible, wanted)


def _create_app(settings: Settings) -> Any:
    """Create the application in a process that does nothing else."""
    from recuse.serving.app import create_app

    _return_memory()
    app = create_app(settings)
    gc.collect()
    gc.freeze()  # models and modules stay: no collection needs to look at them
    sys.setswitchinterval(_SWITCH_SECONDS)
    return app


def _return_memory() -> None:
    """Let glibc return every large block to the system when it is freed; its own threshold grows up to 32 MiB."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def _create_worker_app(settings: Settings) -> Any:
    """Create the application of a worker; one that replaces a dead worker may find a damaged or no model file."""
    try:
        return _create_app(settings)
    except (OSError, ValueError) as error:
        _log.error("a worker cannot start: %s", " ".join(str(error).split()))
        time.sleep(_RETRY_SECONDS)  # it is replaced at once
        raise SystemExit(1) from error


def _run_workers(config: object, bound: socket.socket) -> None:
    """Run a process that starts workers, which share the socket and a folder of metrics."""
    from uvicorn.supervisors import Multiprocess

    with TemporaryDirectory(prefix="recuse-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # the workers read it when they start
        Multiprocess(config, sockets=[bound]).run()  # type: ignore[arg-type]


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    bound.set_inheritable(True)
    return bound


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_HANDLER = {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}
_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {"stderr": _HANDLER},
    "loggers": {
        **{
            name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
            for name in ("uvicorn", "recuse.serving")
        },
        # uvicorn warns here of every request that is not HTTP, which anybody can send
        "recuse.serving.connections": {"level": "ERROR"},
    },
}
