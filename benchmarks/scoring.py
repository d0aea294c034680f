"""Speed and memory of `recuse predict` on large Parquet files, against a plain loop of pyarrow and torch, and kills.

python benchmarks/scoring.py                                        1 and 10 million rows, 16 columns, two processes
python benchmarks/scoring.py --rows 1000000 --auto-rows 0 --kills 0

The files are written to a temporary folder and removed. Everything is read from and written to Parquet.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import recuse
from recuse import AutoRejector, RcRRegressor, datasets

COLUMNS = 16
GROUP = 2**20  # rows of a row group, as pyarrow writes them by default
LOOP = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq, torch
torch.set_num_threads(1)
pa.set_cpu_count(1)
sizes = [(16, 20), (20, 30), (30, 10), (10, 1)]
def network():
    layers = [part for sizes_ in sizes for part in (torch.nn.Linear(*sizes_), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1]).double()
regressor, rejector = network(), network()
types = {"prediction": pa.float64(), "accepted": pa.bool_(), "score": pa.float64(), "cost": pa.float64()}
schema = pa.schema(types)
with pq.ParquetWriter(sys.argv[2], schema) as writer, torch.no_grad():
    for batch in pq.ParquetFile(sys.argv[1]).iter_batches(65536):
        x = torch.from_numpy(np.column_stack([column.to_numpy() for column in batch.columns]))
        prediction, score = regressor(x)[:, 0].numpy(), rejector(x)[:, 0].numpy()
        arrays = [pa.array(each) for each in (prediction, score > 0, score, np.full(len(x), 1.0))]
        writer.write_batch(pa.record_batch(arrays, schema=schema))
"""


@dataclass(frozen=True)
class Measured:
    """Seconds on the clock and of processors, and the largest resident memory of a process in MB."""

    wall: float
    processor: float
    memory: float


def write_rows(path: Path, rows: int, seed: int = 0, like: pd.DataFrame | None = None) -> None:
    """Write random rows, or rows near those of a table."""
    random_state = np.random.default_rng(seed)
    names = [f"x{place}" for place in range(COLUMNS)] if like is None else list(like.columns)
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            count = min(GROUP, rows - start)
            if like is None:
                values = random_state.uniform(-1, 1, size=(len(names), count))
            else:
                chosen = like.to_numpy(float)[random_state.integers(len(like), size=count)]
                values = (chosen * random_state.uniform(0.97, 1.03, size=chosen.shape)).T
            writer.write_table(pa.table(dict(zip(names, values, strict=True)), schema), row_group_size=GROUP)


def measured(command: list[str]) -> Measured:
    """Run a command to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peaks: dict[int, int] = {}
    watcher = threading.Thread(target=_watch, args=(process, peaks))
    watcher.start()
    code = process.wait()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    watcher.join()
    if code:
        raise SystemExit(f"the command ended with exit code {code}: {' '.join(command)}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, used, max(peaks.values()) / 1e3)


def _watch(process: subprocess.Popen[bytes], peaks: dict[int, int]) -> None:
    """Record the peak of the resident memory of a process and of its children, while it runs."""
    while process.poll() is None:
        for pid in [process.pid, *_children(process.pid)]:
            try:
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:  # it has just ended
                continue
            found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
            peaks[pid] = max([peaks.get(pid, 0), *found])
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def predict(model: Path, source: Path, output: Path, jobs: int) -> list[str]:
    """Return the command to measure."""
    options = ["-o", str(output), "--jobs", str(jobs), "--quiet"]
    return [sys.executable, "-m", "recuse.cli", "predict", str(model), str(source), *options]


def save_networks(folder: Path) -> dict[str, Path]:
    """Fit and save RcRRegressor with one member and with five; few epochs do for the speed."""
    X, y, _, variance = datasets.make_heteroscedastic(4000, n_features=COLUMNS, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(COLUMNS)])
    paths = {}
    for members in (1, 5):
        settings = {"epochs": 20, "slow_start": 5, "random_state": 0, "n_members": members}
        model = RcRRegressor(float(np.median(variance)), **settings).fit(frame, y)
        paths[f"RcRRegressor, {members} member{'s' * (members > 1)}"] = folder / f"{members}.recuse"
        recuse.save(model, folder / f"{members}.recuse")
    return paths


def line(name: str, rows: int, result: Measured) -> None:
    """Print one line of the table."""
    speed, cost = rows / result.wall, 1e6 * result.processor / rows
    print(
        f"{name:42} {rows:>11,} {result.wall:>8.1f} s {speed:>11,.0f} {cost:>7.2f} us {result.memory:>7.0f} MB",
        flush=True,
    )


def kills(model: Path, source: Path, folder: Path, count: int, jobs: int) -> None:
    """Kill a run at random moments, run it to its end, and compare the output with that of a run without kills."""
    whole, output, moments = folder / "whole.parquet", folder / "killed.parquet", random.Random(0)
    seconds = measured(predict(model, source, whole, jobs)).wall
    killed = complete = attempts = partial = 0
    while killed < count and attempts < 4 * count:
        attempts += 1
        process = subprocess.Popen(predict(model, source, output, jobs), stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.1, 0.9) * seconds)
        process.kill()
        killed += process.wait() != 0  # else the run had ended before
        if output.exists():
            complete += 1
            partial += not same(whole, output)
            output.unlink()
    measured(predict(model, source, output, jobs))
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    print(
        f"\n{killed} runs killed in {attempts} attempts; outputs after an attempt: {complete}, partial: {partial}; "
        f"last output identical: {same(whole, output)}; hidden files left: {left}"
    )


def same(first: Path, second: Path) -> bool:
    """Whether two files have the same bytes."""
    checksums = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)}
    return len(checksums) == 1


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--auto-rows", type=int, default=1_000_000, help="rows for AutoRejector; 0 to leave it out")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder for the temporary files")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        networks = save_networks(folder)
        print(f"{'':42} {'rows':>11} {'time':>10} {'rows/s':>11} {'CPU/row':>10} {'memory':>10}")
        for rows in arguments.rows:
            source = folder / f"{rows}.parquet"
            write_rows(source, rows)
            line(
                "pyarrow + torch, one process",
                rows,
                measured([sys.executable, "-c", LOOP, str(source), str(folder / "loop.parquet")]),
            )
            for title, model in networks.items():
                for jobs in dict.fromkeys((1, arguments.jobs)):
                    output = folder / "out.parquet"
                    line(f"{title}, --jobs {jobs}", rows, measured(predict(model, source, output, jobs)))
        if arguments.auto_rows:
            auto(folder, arguments.auto_rows, arguments.jobs)
        if arguments.kills:
            smallest = folder / f"{min(arguments.rows)}.parquet"
            kills(next(iter(networks.values())), smallest, folder, arguments.kills, arguments.jobs)


def auto(folder: Path, rows: int, jobs: int) -> None:
    """Measure AutoRejector on rows near those of concrete."""
    (X, y), (more, more_y), (test, _) = datasets.split(datasets.load("concrete"), repeat=0)
    model = AutoRejector(20.0, random_state=0).fit(pd.concat([X, more]), np.concatenate([y, more_y]))
    recuse.save(model, folder / "auto.recuse")
    source = folder / "concrete.parquet"
    write_rows(source, rows, like=test)
    command = predict(folder / "auto.recuse", source, folder / "auto.parquet", jobs)
    line(f"AutoRejector on concrete, --jobs {jobs}", rows, measured(command))


if __name__ == "__main__":
    main()
