"""Connection to the scheduler of a Dask cluster."""

from __future__ import annotations

from typing import Any

from recuse.extras import import_extra

__all__ = ["connect"]


def connect(scheduler: str, *, set_as_default: bool = False) -> Any:
    """Return a client of a Dask scheduler.

    Parameters
    ----------
    scheduler : str
        Address such as "tcp://127.0.0.1:8786".
    set_as_default : bool, default=False
        Whether libraries that are given no client use this one.

    Returns
    -------
    distributed.Client

    Raises
    ------
    ValueError
        If the address has no port or an unknown protocol.
    OSError
        If the scheduler cannot be reached.

    Examples
    --------
    >>> connect("scheduler.example")
    Traceback (most recent call last):
    ValueError: the address of a Dask scheduler must be like tcp://127.0.0.1:8786, got 'scheduler.example'
    """
    distributed = import_extra("distributed", "dask")
    try:  # a client with a wrong address would wait for its timeout when it is deleted
        import_extra("distributed.comm", "dask").get_address_host_port(scheduler)
    except ValueError as error:
        raise ValueError(
            f"the address of a Dask scheduler must be like tcp://127.0.0.1:8786, got {scheduler!r}"
        ) from error
    try:
        return distributed.Client(scheduler, set_as_default=set_as_default, name="recuse")
    except OSError as error:
        raise OSError(f"the Dask scheduler at {scheduler} cannot be reached: {error!s:.200}") from error
