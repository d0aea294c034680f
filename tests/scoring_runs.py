"""Tables to score, and processes that are started, awaited and killed."""

import contextlib
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

NAMES = [f"x{place}" for place in range(4)]


def numbers(rows, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(rows, 4)), columns=NAMES)


def write_parquet(frame, path, group=1000):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=group)
    return path


def start_dask(*arguments):
    command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *map(str, arguments[1:])]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(condition, limit=120):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition did not become true")
        time.sleep(0.02)


def children_of(process):
    """Return the processes that the threads of a process have started."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended
        files = Path(f"/proc/{process.pid}/task").glob("*/children")
        return [child for file in files for child in file.read_text().split()]
    return []


@contextlib.contextmanager
def small_files(most):
    """Let the operating system refuse files of more than `most` bytes, as a full disk does."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)


def stopped(model, source, output, *, most=150_000, **options):
    """Leave the finished parts of a run that could not write its output, and return its working folder."""
    from recuse.scoring import score_files

    with small_files(most), pytest.raises(OSError, match="cannot be written: File too large"):
        score_files(model, source, output, **options)
    return output.parent / f".{output.name}.recuse"
