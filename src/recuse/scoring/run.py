"""Decisions about files of any size, as tables, as a stream, or as files."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import pandas as pd

from recuse.files.names import STANDARD_STREAM, source_name
from recuse.model_file.served import ServedModel
from recuse.model_file.table_report import IGNORED_COLUMN, TableProblem
from recuse.progress import progress_bar
from recuse.scoring.deciding import BlockScorer, Job, PartRunner
from recuse.scoring.inputs import ArrowInputs, Inputs, PartReader, open_inputs
from recuse.scoring.outputs import targets_of
from recuse.scoring.plan import ModelSource, ScoringPlan, chosen_cost, kept_names, model_columns, table_schema
from recuse.scoring.summary import ScoringSummary
from recuse.scoring.working_folder import PartStore, check_unchanged, input_facts, run_facts, working_folder
from recuse.tasks import run_tasks

Results = Generator[tuple[int, ScoringSummary]]

_MOST_JOBS = 1000
# Processes or threads of a cluster, whose number may change, for the sizes of tasks.
_ON_CLUSTER = 8


def score_files(
    model: str | os.PathLike[str] | ServedModel,
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    cost: float | str | None = None,
    certificate: int | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    jobs: int | None = None,
    scheduler: str | None = None,
    encoding: str | None = None,
    spreadsheet_safe: bool = False,
    progress: bool = False,
) -> ScoringSummary:
    """Decide about the rows of a file or of a folder of Parquet files, and write the decisions.

    Memory does not grow with the size of the files. The output appears under its name when it is complete. A run that
    was interrupted or killed continues if it is started again with the same arguments; its finished parts are in a
    hidden folder beside the output. The output does not depend on the number of processes, nor on interruptions.

    Parameters
    ----------
    model : path-like or ServedModel
    source : path-like
        A Parquet, Arrow or CSV file, or a folder of Parquet files, which are one table in the order of their names.
    output : path-like
        A file, whose ending gives the format; or a folder, if it ends with "/" or is one: then each input has a file of
        its name there.
    cost : float or str, optional
        Used instead of the cost of the model: a number, or the name of a column.
    certificate : int, optional
        Decide by this certificate of the model file, counted from 1.
    keep : sequence of str
        Columns of the data to write, too.
    keep_all : bool, default=False
        Write all columns of the data, too.
    jobs : int, optional
        Number of processes; by default one for small files, else one for each core.
    scheduler : str, optional
        Address of a Dask scheduler whose workers decide; they must have the same files under the same paths.
    encoding : str, optional
        Encoding of a CSV file, UTF-8 by default.
    spreadsheet_safe : bool, default=False
        Write an apostrophe before cells of a CSV file that spreadsheets would run as formulas: texts that start with
        =, +, -, @, a tab or a line break, and are not numbers.
    progress : bool, default=False
        Whether to show a progress bar on standard error.

    Returns
    -------
    ScoringSummary

    Raises
    ------
    ValueError
        If the data or the arguments cannot be used; the message names the file and the row.
    OSError
        If a file cannot be read or written, or another run is writing the same output.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import recuse
    >>> cars = pd.DataFrame({"weight": range(60)})
    >>> model = recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(cars, cars["weight"] * 2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "cars.csv"
    ...     cars.to_csv(file, index=False)
    ...     recuse.save(model, Path(folder) / "cars.recuse")
    ...     summary = score_files(Path(folder) / "cars.recuse", file, Path(folder) / "decisions.csv")
    >>> summary.rows
    60
    """
    with open_run(
        model,
        source,
        cost=cost,
        certificate=certificate,
        keep=keep,
        keep_all=keep_all,
        encoding=encoding,
        spreadsheet_safe=spreadsheet_safe,
    ) as run:
        return run.write(os.fspath(output), jobs=jobs, scheduler=scheduler, progress=progress)


@contextmanager
def open_run(
    model: str | os.PathLike[str] | ServedModel | ModelSource,
    source: str | os.PathLike[str],
    *,
    cost: float | str | None = None,
    certificate: int | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    encoding: str | None = None,
    spreadsheet_safe: bool = False,
) -> Iterator[Run]:
    """Open the files of a run, and check that they have the columns; the parameters are those of `score_files`."""
    if isinstance(keep, str):
        raise ValueError(f"keep must be a sequence of names, got the text {keep!r}")
    origin = ModelSource.of(model)
    served = origin.load()
    table_schema(served)
    value = chosen_cost(served, cost, certificate)
    with open_inputs(os.fspath(source), encoding) as inputs:
        kept = tuple(inputs.names if keep_all else dict.fromkeys(keep))
        names = kept_names(kept, list(served.result_types))
        texts: Any = {"encoding": encoding, "spreadsheet_safe": spreadsheet_safe}
        plan = ScoringPlan(origin, value, certificate, kept, names, **texts)
        yield Run(os.fspath(source), plan, served, inputs, inputs.columns(served, plan))


@dataclass(frozen=True)
class Run:
    """A run whose files are open.

    Attributes
    ----------
    source : str
    plan : ScoringPlan
    model : ServedModel
    inputs : ArrowInputs or CsvInputs
    columns : tuple of str
        Columns to read.
    """

    source: str
    plan: ScoringPlan
    model: ServedModel
    inputs: Inputs
    columns: tuple[str, ...]

    def collect(self, most: int | None = None) -> tuple[ScoringSummary, pd.DataFrame]:
        """Decide in this process, and return the summary with the first rows, or all of them, as a pandas table."""
        scorer, reader = BlockScorer(self.model, self.plan), PartReader(self.inputs.paths, self.columns)
        tally, tables, schema = _Tally(self), [], table_schema(self.model)
        for task in self.inputs.tasks(self.plan, self.columns, 1, set()):
            for part in task.parts:
                block = reader.read(part) if task.rows is None else task.rows
                source = source_name(self.inputs.paths[part.file])
                table, summary = scorer.decide(block, part.first, source, task.kept)
                wanted = None if most is None else max(0, most - tally.total.rows)
                tables.append((table if hasattr(table, "iloc") else table.to_pandas())[:wanted])
                tally.total = tally.total.plus(summary, schema)
        return tally.summary(""), pd.concat(tables, ignore_index=True)

    def write(
        self, output: str, *, jobs: int | None = None, scheduler: str | None = None, progress: bool = False
    ) -> ScoringSummary:
        """Decide about all rows and write the decisions; the parameters are those of `score_files`."""
        targets = targets_of(output, self.source, self.inputs.paths)
        if self.plan.spreadsheet_safe and targets.kind in ("parquet", "arrow"):
            raise ValueError(f"spreadsheet_safe needs an output of CSV, got {targets.kind} for {output}")
        plan, read = replace(self.plan, output=targets.kind), (len(self.columns), len(self.inputs.names))
        inputs = [] if self.source == STANDARD_STREAM else input_facts(self.inputs.paths)
        facts = run_facts(plan, inputs, read, folder=targets.is_folder)
        parts = self.inputs.parts(self.columns) if isinstance(self.inputs, ArrowInputs) else []
        files = {part.number: part.file for part in parts}
        starts = {file: number for number, file in reversed(files.items())} if targets.is_folder else {}
        with working_folder(targets.place, facts, targets.mode) as store:
            job = self._job(plan, store, frozenset({0, *starts.values()}))
            tally = _Tally(self, store.finished())
            with closing(self._results(job, set(tally.done), jobs, scheduler)) as results:
                numbers = tally.counted(in_order(results, tally.done), show=progress)
                placed = ((files.get(number, 0), number) for number in numbers)
                drafts = targets.drafts(store, placed)
            check_unchanged(inputs)
            targets.publish(drafts)
            return tally.summary(output)

    def write_stream(self, file: BinaryIO, *, jobs: int | None = None, progress: bool = False) -> ScoringSummary:
        """Decide about all rows and write the decisions as CSV, each part when those before it are written."""
        with TemporaryDirectory(prefix="recuse-") as folder:
            store, tally = PartStore(Path(folder)), _Tally(self)
            job = self._job(replace(self.plan, output="csv"), store)
            with closing(self._results(job, set(), jobs)) as results:
                for number in tally.counted(in_order(results, {}), show=progress):
                    file.write(store.path(number).read_bytes())
                    store.path(number).unlink()
            return tally.summary(STANDARD_STREAM)

    def _job(self, plan: ScoringPlan, store: PartStore, headers: frozenset[int] = frozenset({0})) -> Job:
        """Return what all tasks have in common, with paths for processes that may run in other folders."""
        paths = [path if path == STANDARD_STREAM else str(Path(path).absolute()) for path in self.inputs.paths]
        return Job(plan, tuple(paths), self.columns, store, headers)

    def _results(self, job: Job, done: set[int], jobs: int | None, scheduler: str | None = None) -> Results:
        if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
            raise ValueError(f"jobs must be from 1 to {_MOST_JOBS:,}, got {jobs:,}")
        count = jobs or (_cores() if self.inputs.is_large else 1)
        count = count if scheduler is None else _ON_CLUSTER
        tasks = self.inputs.tasks(job.plan, self.columns, count, done)
        with closing(run_tasks(PartRunner(job), tasks, jobs=count, scheduler=scheduler)) as results:
            yield from chain.from_iterable(results)


@dataclass
class _Tally:
    """Adds up the summaries of parts.

    Attributes
    ----------
    run : Run
    done : dict of int to ScoringSummary
        Parts that an earlier run has finished.
    total : ScoringSummary
    """

    run: Run
    done: dict[int, ScoringSummary] = field(default_factory=dict)
    total: ScoringSummary = field(default_factory=ScoringSummary)

    def counted(self, results: Iterable[tuple[int, ScoringSummary]], *, show: bool) -> Iterator[int]:
        """Add parts, and yield their numbers; a progress bar is shown meanwhile."""
        inputs, schema = self.run.inputs, table_schema(self.run.model)
        with progress_bar("deciding", inputs.total, show=show) as tell:
            for number, part in results:
                self.total = self.total.plus(part, schema, resumed=number in self.done)
                tell(inputs.progress(self.total.rows))
                yield number

    def summary(self, output: str) -> ScoringSummary:
        """Return the sums; columns that the model does not use are among the problems."""
        model, names, schema = self.run.model, self.run.inputs.names, table_schema(self.run.model)
        ignored: list[TableProblem] = []
        if schema.matrix is None:
            used = model_columns(model, names, self.run.plan.cost, self.run.inputs.paths[0]).values()
            known = {*used, *(str(column.name) for column in schema.columns)}
            ignored = [TableProblem(name, IGNORED_COLUMN, self.total.rows) for name in names if name not in known]
        return replace(self.total, problems=self.total.problems + ignored, output=output)


def in_order(
    results: Iterable[tuple[int, ScoringSummary]], done: dict[int, ScoringSummary]
) -> Iterator[tuple[int, ScoringSummary]]:
    """Yield results by number, with those that were done before, as soon as all before them are there.

    Examples
    --------
    >>> list(in_order([(2, "c"), (1, "b")], {0: "a"}))
    [(0, 'a'), (1, 'b'), (2, 'c')]
    """
    waiting, number = dict(done), 0
    for found, result in chain([(-1, None)], results):
        if result is not None:
            waiting[found] = result
        while number in waiting:
            yield number, waiting.pop(number)
            number += 1
    if waiting:
        raise RuntimeError(f"part {number} is missing: start the run again")


def _cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
