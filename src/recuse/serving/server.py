"""The uvicorn server: one socket, one process or several workers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

from recuse.extras import import_extra
from recuse.serving.settings import Settings

__all__ = ["run_server"]

_BACKLOG = 2048


def run_server(settings: Settings, host: str, port: int, workers: int, ready: Callable[[str], None]) -> None:
    """Serve until the process receives SIGINT or SIGTERM.

    Parameters
    ----------
    settings : Settings
    host : str
    port : int
        0 takes a free port.
    workers : int
        Number of processes.
    ready : callable
        Is called with the address of the service once its socket is bound.
    """
    uvicorn = import_extra("uvicorn", "serve")
    import_extra("fastapi", "serve")
    from recuse.serving.app import create_app

    app = create_app(settings)  # raises an error if a file cannot be used
    factory = partial(create_app, settings)
    config = uvicorn.Config(
        app if workers == 1 else factory, factory=workers > 1, host=host, port=port, workers=workers, access_log=False
    )
    bound = _bind(host, port)
    address, number = bound.getsockname()[:2]
    ready(f"http://{f'[{address}]' if ':' in address else address}:{number}")
    if workers == 1:
        uvicorn.Server(config).run(sockets=[bound])
    else:
        from uvicorn.supervisors import Multiprocess

        Multiprocess(config, sockets=[bound]).run()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    bound.set_inheritable(True)
    return bound
