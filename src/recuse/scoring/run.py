"""Runs over files: the plan, the engine, and the output."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from recuse._version import __version__
from recuse.files.names import STANDARD_STREAM, source_name
from recuse.model_file.served import ServedModel
from recuse.model_file.table_report import IGNORED_COLUMN, TableProblem
from recuse.progress import progress_bar
from recuse.scoring.deciding import BlockScorer, Decided, result_names
from recuse.scoring.inputs import ArrowInputs, Inputs, open_inputs
from recuse.scoring.plan import ModelSource, Plan, chosen_cost, kept_names, model_columns, table_schema
from recuse.scoring.processes import run_here, run_in_processes
from recuse.scoring.sources.arrow_files import PartReader
from recuse.scoring.summary import PartSummary, ScoringSummary, merged_problems
from recuse.scoring.targets import Targets, in_order, targets_of
from recuse.scoring.tasks import Job
from recuse.scoring.working_folder import PartStore, input_facts, working_folder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Engine", "Run", "open_run", "score_files"]

Engine = Literal["local", "dask"]


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
    engine: Engine = "local",
    scheduler: str | None = None,
    encoding: str | None = None,
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
    engine : {"local", "dask"}
    scheduler : str, optional
        Address of the Dask scheduler. Its workers must have the same files under the same paths.
    encoding : str, optional
        Encoding of a CSV file, UTF-8 by default.
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
        model, source, cost=cost, certificate=certificate, keep=keep, keep_all=keep_all, encoding=encoding
    ) as run:
        return run.write(os.fspath(output), jobs=jobs, engine=engine, scheduler=scheduler, progress=progress)


@contextmanager
def open_run(
    model: str | os.PathLike[str] | ServedModel,
    source: str | os.PathLike[str],
    *,
    cost: float | str | None = None,
    certificate: int | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    encoding: str | None = None,
) -> Iterator[Run]:
    """Open the files of a run, and check that they have the columns; the parameters are those of `score_files`."""
    origin = ModelSource.of(model)
    served = origin.load()
    table_schema(served)
    value = chosen_cost(served, cost, certificate)
    with open_inputs(os.fspath(source), encoding) as inputs:
        kept = tuple(inputs.names if keep_all else dict.fromkeys(keep))
        plan = Plan(origin, value, certificate, kept, kept_names(kept, result_names(served)))
        yield Run(os.fspath(source), plan, served, inputs, inputs.columns(served, plan))


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
        for task in self.inputs.tasks(self.columns, 1, set()):
            for part in task.parts:
                block = reader.read(part) if task.rows is None else task.rows
                path = source_name(self.inputs.paths[part.file])
                decided: Decided = scorer.decide(block, part.first, path, task.kept)
                table = decided.table
                yield table if hasattr(table, "iloc") else table.to_pandas(), decided.summary

    def collect(self, most: int | None = None) -> tuple[ScoringSummary, pd.DataFrame]:
        """Decide in this process, and return the summary with the first rows, or all of them, as a pandas table."""
        import pandas as pd

        tables: list[pd.DataFrame] = []
        tally, rows = _Tally(self, {}, show=False), 0
        for number, (table, part) in enumerate(self.frames()):
            list(tally.counted(iter([(number, part)])))
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
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs must be >= 1, got {jobs}")
        targets = targets_of(output, self.source, self.inputs.paths)
        plan = replace(self.plan, output=targets.kind)
        with working_folder(targets.place, self._facts(plan, targets)) as store:
            files = self._files_of_parts()
            starts = {} if not targets.is_folder else {place: number for number, place in reversed(files.items())}
            job = Job(plan, self._absolute_paths(), self.columns, store, frozenset({0, *starts.values()}))
            tally = _Tally(self, store.finished(), show=progress)
            with tally.bar():
                results = in_order(self._results(job, set(tally.done), jobs, engine, scheduler), tally.done)
                targets.write(store, ((files.get(number, 0), number) for number in tally.counted(results)))
            return tally.summary(output)

    def write_stream(self, file: BinaryIO, *, jobs: int | None = None, progress: bool = False) -> ScoringSummary:
        """Decide about all rows and write the decisions as CSV, each part when those before it are written."""
        with TemporaryDirectory(prefix="recuse-") as folder:
            store = PartStore(Path(folder))
            job = Job(self.plan, self._absolute_paths(), self.columns, store)
            tally = _Tally(self, {}, show=progress)
            with tally.bar():
                results = in_order(self._results(job, set(), jobs, "local", None), {})
                for number in tally.counted(results):
                    file.write(store.path(number).read_bytes())
                    store.path(number).unlink()
            return tally.summary(STANDARD_STREAM)

    def _results(
        self, job: Job, done: set[int], jobs: int | None, engine: Engine, scheduler: str | None
    ) -> Iterator[tuple[int, PartSummary]]:
        if engine == "dask":
            from recuse.scoring.dask_engine import run_on_dask

            return run_on_dask(job, self.inputs.tasks(self.columns, 8, done), scheduler)
        count = jobs or (_cores() if self.inputs.is_large else 1)
        tasks = self.inputs.tasks(self.columns, count, done)
        return run_here(job, tasks) if count == 1 else run_in_processes(job, tasks, count)

    def _files_of_parts(self) -> dict[int, int]:
        """Return the position of the file of each part; empty for a CSV file, which is the only one."""
        if not isinstance(self.inputs, ArrowInputs):
            return {}
        return {part.number: part.file for part in self.inputs.parts(self.columns)}

    def _facts(self, plan: Plan, targets: Targets) -> dict[str, Any]:
        """Return everything that the output depends on; no two runs over standard input are the same."""
        known = [] if self.source == STANDARD_STREAM else input_facts(self.inputs.paths)
        inputs: Any = known or secrets.token_hex(16)
        return {"version": __version__, "inputs": inputs, "folder": targets.is_folder, **plan.describe()}

    def _absolute_paths(self) -> tuple[str, ...]:
        """Return paths for processes that may run in other folders."""
        return tuple(path if path == STANDARD_STREAM else str(Path(path).absolute()) for path in self.inputs.paths)

    def problems(self, found: list[TableProblem], rows: int) -> list[TableProblem]:
        """Add up the problems of parts, and add the columns that the model does not use."""
        used = set(model_columns(self.model, self.inputs.names, self.plan.cost, self.source).values())
        schema = table_schema(self.model)
        known = used | {str(column.name) for column in schema.columns if schema.matrix is None}
        if schema.matrix is not None:
            known |= set(self.inputs.names)
        ignored = [TableProblem(name, IGNORED_COLUMN, rows) for name in self.inputs.names if name not in known]
        return merged_problems(schema, found) + ignored


class _Tally:
    """Counts the rows of finished parts, and shows them."""

    def __init__(self, run: Run, done: dict[int, PartSummary], *, show: bool) -> None:
        self.run, self.done, self._show = run, done, show
        self._problems: list[TableProblem] = []
        self._total = ScoringSummary()
        self._tell: Callable[[int], None] = lambda _: None

    @contextmanager
    def bar(self) -> Iterator[None]:
        with progress_bar("deciding", self.run.inputs.total, show=self._show) as self._tell:
            yield

    def counted(self, results: Iterator[tuple[int, PartSummary]]) -> Iterator[int]:
        """Yield the numbers of parts, and count their rows."""
        for number, part in results:
            self._total = self._total.plus(part, resumed=number in self.done)
            self._problems = merged_problems(table_schema(self.run.model), [*self._problems, *part.problems])
            self._tell(self.run.inputs.progress(self._total.rows))
            yield number

    def summary(self, output: str) -> ScoringSummary:
        problems = self.run.problems(self._problems, self._total.rows)
        return replace(self._total, problems=problems, output=output)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
