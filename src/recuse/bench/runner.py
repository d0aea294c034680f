"""Runs groups in several processes and stores each result when it is finished."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from recuse import surrogates
from recuse.bench.images.spec import ImageProtocol
from recuse.bench.spec import Paper, Protocol
from recuse.bench.store import GroupStore, write_text
from recuse.bench.work_unit import SUPERVISED, Group, run_group
from recuse.estimators.advice import RejectionWarning
from recuse.progress import progress_bar
from recuse.surrogates import Surrogate
from recuse.tasks import run_tasks

__all__ = ["environment", "group_seconds", "record_environment", "run_groups", "share_groups", "table_groups"]

Work = Callable[[Group, Any], dict[str, Any]]  # the second argument is the protocol of the store
Tidy = Callable[[Group, Any], None]
_PACKAGES = ("recuse", "torch", "numpy", "scikit-learn", "pandas", "joblib")


def table_groups(
    paper: Paper,
    tables: Iterable[str],
    *,
    repeats: int | None = None,
    datasets: Sequence[str] | None = None,
    costs: Sequence[float] | None = None,
) -> list[Group]:
    """List the groups of some tables, each once."""
    groups = [
        Group(dataset, model, surrogate, repeat, () if surrogate == SUPERVISED else chosen)
        for table in tables
        for model in paper.tables[table].models
        for surrogate in (*paper.tables[table].surrogates, SUPERVISED)
        for dataset, chosen in _chosen_costs(paper.costs, datasets, costs).items()
        for repeat in range(repeats or paper.protocol.repeats)
    ]
    return list(dict.fromkeys(groups))  # Sup is shared by the tables of one model


def share_groups(paper: Paper, *, repeats: int | None = None, datasets: Sequence[str] | None = None) -> list[Group]:
    """List the groups of the figure on growing training data."""
    figure = paper.training_share
    return [
        Group(dataset, figure.model, figure.surrogate, repeat, costs, share)
        for dataset, costs in _chosen_costs(figure.costs, datasets, None).items()
        for share in figure.shares
        for repeat in range(repeats or paper.protocol.repeats)
    ]


def _chosen_costs(
    all_costs: dict[str, tuple[float, ...]], datasets: Sequence[str] | None, costs: Sequence[float] | None
) -> dict[str, tuple[float, ...]]:
    chosen = {
        name: tuple(cost for cost in group if costs is None or cost in costs)
        for name, group in all_costs.items()
        if datasets is None or name in datasets
    }
    return {name: group for name, group in chosen.items() if group}


def run_groups(
    groups: Sequence[Group],
    protocol: Protocol | ImageProtocol,
    folder: Path,
    *,
    work: Work = run_group,
    tidy: Tidy | None = None,
    reuse: Path | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    progress: bool = True,
) -> pd.DataFrame:
    """Run the groups that are not stored yet, and give one record for each group and cost.

    Parameters
    ----------
    groups : sequence of Group
    protocol : Protocol or ImageProtocol
    folder : Path
        Finished groups are stored here; an interrupted run continues from them.
    work : callable
        Runs one group.
    tidy : callable, optional
        Called with each group that was run and the protocol, once its result is stored.
    reuse : Path, optional
        Another folder of finished groups, which is only read.
    jobs : int
        Number of processes; it does not change the numbers. Surrogates that the user registered are known in them.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers run the groups instead. They must have the same files under the same
        paths, since they store their results themselves.
    threads : int
        Threads of each process; their number may change the rounding of sums.
    progress : bool
    """
    store = GroupStore(folder.absolute(), protocol, None if reuse is None else reuse.absolute())
    missing = [group for group in groups if store.load(group) is None]
    run = partial(_run_and_store, store=store, work=work, tidy=tidy, threads=threads)
    tasks = [(group, _surrogate_of(group)) for group in missing]
    with progress_bar("running groups", total=len(groups), show=progress) as tell:
        tell(len(groups) - len(missing))
        finished = run_tasks(run, tasks, jobs=jobs, scheduler=scheduler)
        for done, _ in enumerate(finished, start=len(groups) - len(missing) + 1):
            tell(done)
    return pd.DataFrame([record for group in groups for record in _records(group, store)])


def _surrogate_of(group: Group) -> Surrogate | None:
    """Give the surrogate of a group, which may be one that only this process has registered."""
    return surrogates.get(group.surrogate) if group.surrogate in surrogates.names() else None


def _run_and_store(
    task: tuple[Group, Surrogate | None], store: GroupStore, work: Work, tidy: Tidy | None, threads: int
) -> None:
    """Run in a worker, which stores the result itself, so that it is not lost if the parent process ends."""
    group, surrogate = task
    _make_known(surrogate)
    start = time.process_time()  # processor time, which does not depend on other processes
    with threadpool_limits(limits=threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", RejectionWarning)  # the tables show the losses anyway
        result = work(group, store.protocol)
    store.save(group, result | {"seconds": round(time.process_time() - start, 2)})
    if tidy is not None:
        tidy(group, store.protocol)


def _make_known(surrogate: Surrogate | None) -> None:
    """Register a surrogate in a worker process that does not have it."""
    if surrogate is None or (surrogate.name in surrogates.names() and surrogates.get(surrogate.name) == surrogate):
        return
    function, slope = surrogate.function, surrogate.analytic_derivative
    surrogates.register(surrogate.name, function, derivative=slope, overwrite=True)


def _records(group: Group, store: GroupStore) -> list[dict[str, Any]]:
    result = store.load(group)
    if result is None:
        raise RuntimeError(f"the result of {group.key} was removed during the run: start it again")
    identity = {
        "dataset": group.dataset,
        "model": group.model,
        "surrogate": group.surrogate,
        "share": group.share,
        "repeat": group.repeat,
    }
    return [identity | cell for cell in result["cells"]]


def group_seconds(groups: Sequence[Group], protocol: Protocol | ImageProtocol, folder: Path) -> pd.DataFrame:
    """Processor time of each group that was run in this folder: columns dataset, model, surrogate, repeat, seconds."""
    store = GroupStore(folder, protocol)
    names = ["dataset", "model", "surrogate", "repeat", "seconds"]
    found = [(group, store.load(group) or {}) for group in groups]
    rows = [
        (g.dataset, g.model, g.surrogate, g.repeat, result["seconds"]) for g, result in found if "seconds" in result
    ]
    return pd.DataFrame(rows, columns=names)


def record_environment(path: Path) -> None:
    """Write the versions and the kind of machine to a file."""
    write_text(path, json.dumps(environment(), indent=1) + "\n")


def environment(packages: Sequence[str] = _PACKAGES) -> dict[str, Any]:
    """Give the versions and the kind of machine."""
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "system": sys.platform,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
