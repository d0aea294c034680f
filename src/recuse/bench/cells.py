"""Cells of the experiments: the decisions of a method about the test rows of one split, at each cost.

A finished cell is one file, named by a hash of everything that changes it. Tables, ranks and figures are views of the
measures of these files.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from recuse import datasets, metrics
from recuse.bench.method import BenchMethod, BenchSplit
from recuse.bench.spec import Paper
from recuse.decision import Decision
from recuse.estimators.advice import RejectionWarning
from recuse.files.atomic import new_file
from recuse.files.tables import write_table
from recuse.guarantees.thresholds import by_budget
from recuse.progress import progress_bar
from recuse.tasks import run_tasks
from recuse.threads import one_thread
from recuse.validation import require

# Names of the measures, those of the paper first, and those of `recuse.metrics.evaluate`.
MEASURES = {
    "rcrloss": "rcr_loss",
    "al": "accepted_loss",
    "rl": "rejected_loss",
    "rej": "rejection_rate",
    "ar": "false_rejection_rate",
    "ra": "false_acceptance_rate",
    "oracle": "oracle",
    "aurc": "aurc",
}
_PERCENT = {"rej", "ar", "ra"}
_PACKAGES = ("recuse", "numpy", "scikit-learn", "pandas", "joblib")


@dataclass(frozen=True)
class BenchOptions:
    """What to run of an experiment, and how.

    Attributes
    ----------
    repeats, datasets, costs : optional
        Run only a part.
    jobs : int
        Processes; the numbers do not depend on it.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers run the cells instead. They store results themselves, so they must
        have the same files under the same paths.
    reuse : Path, optional
        Another output folder, whose finished cells are read.
    fresh : bool
        Compute finished cells again.
    predictions : bool
        Also write the predictions and scores of all test rows.
    figures : str or None
        Format of the figures, "png" or "pdf"; None for no figures.
    progress : bool
    command : str
        The command that reproduces the run, for the page.
    """

    repeats: int | None = None
    datasets: Sequence[str] | None = None
    costs: Sequence[float] | None = None
    jobs: int = 1
    scheduler: str | None = None
    reuse: Path | None = None
    fresh: bool = False
    predictions: bool = False
    figures: str | None = "png"
    progress: bool = True
    command: str = ""

    def costs_of(self, costs: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        """Return the chosen data sets with their chosen costs."""
        known = sorted({cost for some in costs.values() for cost in some})
        for name, given, among in (("datasets", self.datasets, list(costs)), ("costs", self.costs, known)):
            for value in given or ():
                require(value in among, name, f"among {', '.join(map(str, among))}", value)
        chosen = {
            name: tuple(cost for cost in some if self.costs is None or cost in self.costs)
            for name, some in costs.items()
            if self.datasets is None or name in self.datasets
        }
        require(any(chosen.values()), "costs", f"costs of {', '.join(chosen)}", self.costs)
        return {name: some for name, some in chosen.items() if some}


@dataclass(frozen=True, eq=False)
class BenchCells:
    """Cells of one method on one split, which are computed at once and stored in one file.

    Attributes
    ----------
    rates : tuple of float or None
        Share of the rows to reject at each cost.
    share : float
        Share of the training rows used.
    """

    paper: Paper = field(repr=False)
    method: BenchMethod
    dataset: str
    repeat: int
    costs: tuple[float, ...]
    rates: tuple[float, ...] | None = None
    share: float = 1.0

    @cached_property
    def file(self) -> str:
        """The name of the file, with a hash of everything that changes the cells."""
        settings = {name: value for name, value in vars(self.method).items() if not name.startswith("_")}
        protocol = {name: value for name, value in asdict(self.paper.protocol).items() if name != "repeats"}
        of_cells = [self.costs, self.rates, self.share, self.repeat, self.paper.rows(self.dataset).digest]
        versions = [version(name) for name in _PACKAGES[:3]]
        key = json.dumps([settings, self.method.code(), protocol, of_cells, versions], sort_keys=True, default=repr)
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return f"{self.dataset}-{self.method.name}-{self.repeat}-{digest}.npz"

    @property
    def task(self) -> tuple[object, ...]:
        """Cells of equal tasks are computed together."""
        return self.dataset, self.repeat, self.share, self.rates, self.method.family or self.method.name

    def split(self) -> tuple[BenchSplit, NDArray[np.float64]]:
        """Return the split, and the targets of its test rows."""
        train, validation, (X, y) = datasets.split(self.paper.rows(self.dataset), self.repeat)
        count = max(2, round(self.share * len(train[1])))
        part = (train[0].iloc[:count], train[1].iloc[:count])
        split = BenchSplit(part, validation, X, self.costs, self.rates, self.repeat, self.paper.protocol)
        return split, np.asarray(y, dtype=np.float64)


def list_cells(
    paper: Paper,
    methods: Iterable[BenchMethod],
    costs: Mapping[str, tuple[float, ...]],
    options: BenchOptions,
    *,
    rates: Mapping[str, tuple[float, ...]] | None = None,
    share: float = 1.0,
) -> list[BenchCells]:
    """List the cells of some methods on all splits of some data sets.

    Parameters
    ----------
    paper : Paper
    methods : iterable of BenchMethod
    costs : mapping
        Costs of each data set.
    options : BenchOptions
    rates : mapping, optional
        Rejection rates of each data set, one for each cost.
    share : float
    """
    return [
        BenchCells(paper, method, name, repeat, group, None if rates is None else rates[name], share)
        for method in methods
        for name, chosen in costs.items()
        for repeat in range(options.repeats or paper.protocol.repeats)
        for group in ([chosen] if method.family is None else [(cost,) for cost in chosen])
    ]


@dataclass(frozen=True)
class Finished:
    """Finished cells: decisions, one for each cost, the targets of the test rows, and seconds of processor time."""

    cells: BenchCells
    decisions: list[Decision]
    target: NDArray[np.float64]
    seconds: float


def finished(cells: Sequence[BenchCells], output: Path, options: BenchOptions) -> list[Finished]:
    """Compute the cells that are not stored in `output` yet, and read all of them."""
    folders = [folder.absolute() / "cells" for folder in (output, options.reuse) if folder is not None]
    folders[0].mkdir(parents=True, exist_ok=True)
    if options.fresh:
        for each in cells:
            (folders[0] / each.file).unlink(missing_ok=True)
        folders = folders[:1]
    tasks, different = defaultdict[tuple[object, ...], list[BenchCells]](list), {each.file: each for each in cells}
    for each in different.values():
        if _read(each, folders) is None:
            tasks[each.task].append(each)
    done = len(different) - sum(map(len, tasks.values()))
    with progress_bar("computing cells", total=len(different), show=options.progress) as report:
        report(done)
        run = partial(_run_and_store, folder=folders[0])
        for count in run_tasks(run, tasks.values(), jobs=options.jobs, scheduler=options.scheduler):
            done += count
            report(done)
    results = [_read(each, folders) for each in cells]
    if lost := [each.file for each, result in zip(cells, results, strict=True) if result is None]:
        raise OSError(f"{lost[0]} was removed during the run: start it again")
    return [result for result in results if result is not None]


def _run_and_store(task: list[BenchCells], folder: Path) -> int:
    """Compute cells in a worker, which stores them itself, so that they are not lost if the parent process ends."""
    start = time.process_time()  # processor time, which does not depend on other processes
    (split, target), methods = task[0].split(), [(each.method, each.costs) for each in task]
    with threadpool_limits(limits=1), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RejectionWarning)  # the tables show the losses anyway
        decided = type(task[0].method).decide_together(methods, split)
    seconds = (time.process_time() - start) / len(task)
    for cells, decisions in zip(task, decided, strict=True):
        require(
            [len(each) for each in decisions] == [len(target)] * len(cells.costs),
            f"the result of {cells.method.name}",
            f"one Decision about {len(target)} rows for each of {len(cells.costs)} costs",
            decisions,
        )
        columns: dict[str, Any] = {name: np.stack([getattr(each, name) for each in decisions]) for name in _COLUMNS}
        columns |= {"target": target, "seconds": round(seconds, 2)}
        with new_file(folder / cells.file) as file:
            np.savez_compressed(file, **columns)
    return len(task)


_COLUMNS = ("prediction", "accepted", "score", "cost")


def _read(cells: BenchCells, folders: Sequence[Path]) -> Finished | None:
    for folder in folders:
        try:
            with (folder / cells.file).open("rb") as stream, np.load(stream) as file:
                rows = zip(*(file[name] for name in _COLUMNS), strict=True)
                return Finished(cells, [Decision(*row) for row in rows], file["target"], float(file["seconds"]))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            continue  # never computed, or damaged: compute it
    return None


def measures(results: Iterable[Finished], rates: Mapping[Any, float] | None = None) -> pd.DataFrame:
    """Measure decisions: one row for each cell, a column for each of `MEASURES`, in the units of the paper.

    Parameters
    ----------
    results : iterable of Finished
    rates : mapping of (dataset, cost) to float, optional
        Reject these shares of the test rows instead, those with the lowest scores, as on a risk-coverage curve.
        Cells without a rate are left out.
    """
    rows = []
    for result in results:
        for cost, decision in zip(result.cells.costs, result.decisions, strict=True):
            if rates is not None:
                if (result.cells.dataset, cost) not in rates:
                    continue
                rate = rates[result.cells.dataset, cost]
                decision = decision.at_threshold(by_budget(decision.score, rate, finite_sample=False))
            seconds = {"seconds": result.seconds / len(result.cells.costs)}
            rows.append(_identity(result.cells, cost) | _measured(decision, result.target) | seconds)
    return pd.DataFrame(rows)


def _identity(cells: BenchCells, cost: float) -> dict[str, Any]:
    of_cell = {"dataset": cells.dataset, "method": cells.method.name, "cost": cost}
    return of_cell | {"share": cells.share, "repeat": cells.repeat}


def _measured(decision: Decision, target: NDArray[np.float64]) -> dict[str, float]:
    measured = decision.evaluate(target)
    measured["aurc"] = metrics.area_under_risk_coverage(target, decision.prediction, decision.score)
    return {short: measured[name] * (100 if short in _PERCENT else 1) for short, name in MEASURES.items()}


def _rows(result: Finished) -> Iterator[pd.DataFrame]:
    for cost, decision in zip(result.cells.costs, result.decisions, strict=True):
        identity = _identity(result.cells, cost)
        yield decision.to_frame().assign(**identity, target=result.target)[[*identity, "target", *_COLUMNS[:3]]]


def write_results(
    tables: Mapping[str, pd.DataFrame], results: Sequence[Finished], output: Path, options: BenchOptions
) -> None:
    """Write tables with six significant digits, versions and kind of machine and, on request, all predictions."""
    environment = {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "system": sys.platform,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
    texts = {"environment.json": json.dumps(environment, indent=1) + "\n"}
    for name, table in tables.items():
        texts[f"{name}.csv"] = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    for name, text in texts.items():
        with new_file(output / name) as file:
            file.write(text.encode())
    if options.predictions:
        write_table(pd.concat(chain.from_iterable(map(_rows, results))), str(output / "predictions.csv.gz"))
