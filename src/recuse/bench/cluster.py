"""Groups on the workers of a Dask cluster, through joblib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from joblib import parallel_config

from recuse.scoring.engines.dask_clusters import connect

__all__ = ["jobs_on_cluster"]

_ALL = -1  # joblib's number of jobs for every thread of the workers


@contextmanager
def jobs_on_cluster(scheduler: str | None, jobs: int) -> Iterator[int]:
    """Send the work of joblib to a Dask cluster while the block runs, and give the number of jobs to use there.

    Parameters
    ----------
    scheduler : str or None
        Address such as "tcp://127.0.0.1:8786"; None to stay on this machine. The workers must have the
        same files under the same paths, since they store their results themselves.
    jobs : int
        Number of processes without a cluster.

    Raises
    ------
    ValueError
        If the address is none.
    OSError
        If the scheduler cannot be reached.

    Examples
    --------
    >>> with jobs_on_cluster(None, jobs=2) as count:
    ...     print(count)
    2
    """
    if scheduler is None:
        yield jobs
        return
    with connect(scheduler, set_as_default=True), parallel_config(backend="dask"):
        yield _ALL
