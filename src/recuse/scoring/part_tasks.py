"""Work that one process does: read parts, decide about their rows, and store the results."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from recuse.files.names import source_name
from recuse.scoring.deciding import BlockScorer
from recuse.scoring.part_formats import encode_part
from recuse.scoring.plan import Plan
from recuse.scoring.sources.arrow_files import PartReader
from recuse.scoring.sources.parts import Part
from recuse.scoring.summary import PartSummary
from recuse.scoring.working_folder import PartStore

__all__ = ["Job", "PartRunner", "Task", "tasks_of"]


@dataclass(frozen=True)
class Job:
    """What all tasks of a run have in common.

    Attributes
    ----------
    plan : Plan
    paths : tuple of str
        The files to read.
    columns : tuple of str
        Columns to read, of Parquet and Arrow files.
    store : PartStore
    headers : frozenset of int
        Numbers of the parts that start a file of the output.
    """

    plan: Plan
    paths: tuple[str, ...]
    columns: tuple[str, ...]
    store: PartStore
    headers: frozenset[int] = frozenset({0})


@dataclass(frozen=True)
class Task:
    """Some successive parts and, for CSV files, the rows and the kept columns of the one part."""

    parts: tuple[Part, ...]
    rows: Any = field(default=None, repr=False)
    kept: Any = field(default=None, repr=False)


def tasks_of(parts: Sequence[Part], jobs: int) -> Iterator[Task]:
    """Put successive parts of the same row group together, for several processes: about eight tasks for each of them.

    A process that continues a row group need not read its start again.
    """
    most = 1 if jobs == 1 else max(1, min(8, len(parts) // (8 * jobs)))
    task: list[Part] = []
    for part in parts:
        if task and (len(task) == most or (task[-1].file, task[-1].chunks) != (part.file, part.chunks)):
            yield Task(tuple(task))
            task = []
        task.append(part)
    if task:
        yield Task(tuple(task))


class PartRunner:
    """Decides about the rows of a task and stores each part.

    The model is loaded at the first task, and the reader continues where the last task ended. So each thread has one
    runner; a pickle calls that of the thread in which it is used.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._scorer: BlockScorer | None = None
        self._reader = PartReader(job.paths, job.columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (_run_in_thread, self.job)

    def __call__(self, task: Task) -> list[tuple[int, PartSummary]]:
        """Return the number and the summary of each part of the task."""
        return [(part.number, self._run(part, task)) for part in task.parts]

    def _run(self, part: Part, task: Task) -> PartSummary:
        job, plan = self.job, self.job.plan
        self._scorer = self._scorer or BlockScorer(plan.model.load(), plan)
        block = self._reader.read(part) if task.rows is None else task.rows
        decided = self._scorer.decide(block, part.first, source_name(job.paths[part.file]), task.kept)
        header = part.number in job.headers
        encoded = encode_part(decided.table, plan.output, header=header, spreadsheet_safe=plan.spreadsheet_safe)
        summary = replace(decided.summary, formula_cells=encoded.formula_cells)
        job.store.save(part.number, encoded.data, summary)
        return summary


_of_thread = threading.local()


def _run_in_thread(job: Job, task: Task) -> list[tuple[int, PartSummary]]:
    runner: PartRunner | None = getattr(_of_thread, "runner", None)
    if runner is None or runner.job != job:
        runner = _of_thread.runner = PartRunner(job)
    return runner(task)
