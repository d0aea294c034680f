"""Decisions about files that are open, as tables, as a stream, or as files."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from recuse.files.names import STANDARD_STREAM, source_name
from recuse.model_file.served import ServedModel
from recuse.model_file.table_report import IGNORED_COLUMN, TableProblem
from recuse.progress import progress_bar
from recuse.scoring.deciding import BlockScorer
from recuse.scoring.inputs import ArrowInputs, Inputs
from recuse.scoring.part_tasks import Job, PartRunner
from recuse.scoring.plan import Plan, model_columns, table_schema
from recuse.scoring.run_key import check_unchanged, input_facts, run_facts
from recuse.scoring.sources.arrow_files import PartReader
from recuse.scoring.summary import PartSummary, ScoringSummary, merged_problems
from recuse.scoring.targets import in_order, targets_of
from recuse.scoring.working_folder import PartStore, working_folder
from recuse.tasks import run_tasks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Engine", "Run"]

Engine = Literal["local", "dask"]
Results = Generator[tuple[int, PartSummary]]

_MOST_JOBS = 1000


@dataclass(frozen=True)
class Run:
    """A run whose files are open.

    Attributes
    ----------
    source : str
    plan : Plan
    model : ServedModel
    inputs : ArrowInputs or CsvInputs
    columns : tuple of str
        Columns to read.
    """

    source: str
    plan: Plan
    model: ServedModel
    inputs: Inputs
    columns: tuple[str, ...]

    def frames(self) -> Iterator[tuple[pd.DataFrame, PartSummary]]:
        """Decide in this process, and yield the decisions of each part as a pandas table, with its summary."""
        scorer = BlockScorer(self.model, self.plan)
        reader = PartReader(self.inputs.paths, self.columns)
        for task in self.inputs.tasks(self.plan, self.columns, 1, set()):
            for part in task.parts:
                block = reader.read(part) if task.rows is None else task.rows
                decided = scorer.decide(block, part.first, source_name(self.inputs.paths[part.file]), task.kept)
                table = decided.table
                yield table if hasattr(table, "iloc") else table.to_pandas(), decided.summary

    def collect(self, most: int | None = None) -> tuple[ScoringSummary, pd.DataFrame]:
        """Decide in this process, and return the summary with the first rows, or all of them, as a pandas table."""
        import pandas as pd

        tables: list[pd.DataFrame] = []
        tally, rows = self._tally({}), 0
        for table, part in self.frames():
            tally.add(part)
            if most is None or rows < most:
                tables.append(table if most is None else table[: most - rows])
            rows += len(table)
        return tally.summary(""), pd.concat(tables, ignore_index=True)

    def write(
        self,
        output: str,
        *,
        jobs: int | None = None,
        engine: Engine = "local",
        scheduler: str | None = None,
        progress: bool = False,
    ) -> ScoringSummary:
        """Decide about all rows and write the decisions; the parameters are those of `score_files`."""
        if engine not in ("local", "dask"):
            raise ValueError(f"engine must be local or dask, got {engine!r}")
        targets = targets_of(output, self.source, self.inputs.paths)
        if self.plan.spreadsheet_safe and targets.kind in ("parquet", "arrow"):
            raise ValueError(f"spreadsheet_safe needs an output of CSV, got {targets.kind} for {output}")
        plan, inputs = replace(self.plan, output=targets.kind), self._input_facts()
        read = (len(self.columns), len(self.inputs.names))
        facts = run_facts(plan, inputs, read, folder=targets.is_folder)
        with working_folder(targets.place, facts, targets.mode) as store:
            files = self._files_of_parts()
            starts = {} if not targets.is_folder else {place: number for number, place in reversed(files.items())}
            job = Job(plan, self._absolute_paths(), self.columns, store, frozenset({0, *starts.values()}))
            tally = self._tally(store.finished(), show=progress)
            with tally.bar(), closing(self._results(job, set(tally.done), jobs, engine, scheduler)) as results:
                numbers = tally.counted(in_order(results, tally.done))
                targets.write(store, _until_end(((files.get(number, 0), number) for number in numbers), inputs))
            return tally.summary(output)

    def write_stream(self, file: BinaryIO, *, jobs: int | None = None, progress: bool = False) -> ScoringSummary:
        """Decide about all rows and write the decisions as CSV, each part when those before it are written."""
        with TemporaryDirectory(prefix="recuse-") as folder:
            store = PartStore(Path(folder))
            job = Job(replace(self.plan, output="csv"), self._absolute_paths(), self.columns, store)
            tally = self._tally({}, show=progress)
            with tally.bar(), closing(self._results(job, set(), jobs, "local", None)) as results:
                for number in tally.counted(in_order(results, {})):
                    file.write(store.path(number).read_bytes())
                    store.path(number).unlink()
            return tally.summary(STANDARD_STREAM)

    def _tally(self, done: dict[int, PartSummary], *, show: bool = False) -> Tally:
        return Tally(self.model, self.plan, self.inputs, done, show=show)

    def _results(self, job: Job, done: set[int], jobs: int | None, engine: Engine, scheduler: str | None) -> Results:
        if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
            raise ValueError(f"jobs must be from 1 to {_MOST_JOBS:,}, got {jobs:,}")
        if engine == "dask" and scheduler is None:
            raise ValueError("the engine dask needs the address of its scheduler, such as tcp://127.0.0.1:8786")
        count = 8 if engine == "dask" else jobs or (_cores() if self.inputs.is_large else 1)
        tasks = self.inputs.tasks(job.plan, self.columns, count, done)
        address = scheduler if engine == "dask" else None
        with closing(run_tasks(PartRunner(job), tasks, jobs=count, scheduler=address)) as results:
            yield from chain.from_iterable(results)

    def _files_of_parts(self) -> dict[int, int]:
        """Return the position of the file of each part; empty for a CSV file, which is the only one."""
        if not isinstance(self.inputs, ArrowInputs):
            return {}
        return {part.number: part.file for part in self.inputs.parts(self.columns)}

    def _input_facts(self) -> list[dict[str, Any]]:
        return [] if self.source == STANDARD_STREAM else input_facts(self.inputs.paths)

    def _absolute_paths(self) -> tuple[str, ...]:
        """Return paths for processes that may run in other folders."""
        return tuple(path if path == STANDARD_STREAM else str(Path(path).absolute()) for path in self.inputs.paths)


class Tally:
    """Adds up the summaries of parts.

    Parameters
    ----------
    model : ServedModel
    plan : Plan
    inputs : ArrowInputs or CsvInputs
    done : dict of int to PartSummary
        Parts that an earlier run has finished.
    show : bool
        Whether `bar` shows a progress bar.
    """

    def __init__(
        self, model: ServedModel, plan: Plan, inputs: Inputs, done: dict[int, PartSummary], *, show: bool = False
    ) -> None:
        self.done = done
        self._model, self._plan, self._inputs, self._show = model, plan, inputs, show
        self._schema = table_schema(model)
        self._problems: list[TableProblem] = []
        self._total = ScoringSummary()
        self._tell: Callable[[int], None] = lambda _: None

    @contextmanager
    def bar(self) -> Iterator[None]:
        """Show a progress bar on standard error while the block runs."""
        if not self._show:
            yield
            return
        with progress_bar("deciding", self._inputs.total) as self._tell:
            yield

    def add(self, part: PartSummary, *, resumed: bool = False) -> None:
        """Add a part."""
        self._total = self._total.plus(part, resumed=resumed)
        self._problems = merged_problems(self._schema, [*self._problems, *part.problems])
        self._tell(self._inputs.progress(self._total.rows))

    def counted(self, results: Iterator[tuple[int, PartSummary]]) -> Iterator[int]:
        """Add parts, and yield their numbers."""
        for number, part in results:
            self.add(part, resumed=number in self.done)
            yield number

    def summary(self, output: str) -> ScoringSummary:
        """Return the sums; columns that the model does not use are among the problems."""
        ignored = [TableProblem(name, IGNORED_COLUMN, self._total.rows) for name in self._ignored_columns()]
        return replace(self._total, problems=self._problems + ignored, output=output)

    def _ignored_columns(self) -> Sequence[str]:
        names = self._inputs.names
        if self._schema.matrix is not None:
            return ()
        used = model_columns(self._model, names, self._plan.cost, self._inputs.paths[0]).values()
        known = {*used, *(str(column.name) for column in self._schema.columns)}
        return [name for name in names if name not in known]


def _until_end(parts: Iterator[tuple[int, int]], inputs: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield all parts, and then check that the inputs are still the files of the first part."""
    yield from parts
    check_unchanged(inputs)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
