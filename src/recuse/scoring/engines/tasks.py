"""Work that one process does: read parts, decide about their rows, and store the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recuse.files.names import source_name
from recuse.scoring.deciding import BlockScorer
from recuse.scoring.outputs.part_formats import encode_part
from recuse.scoring.outputs.part_store import PartStore
from recuse.scoring.plan import Plan
from recuse.scoring.sources.arrow_files import PartReader
from recuse.scoring.sources.parts import Part
from recuse.scoring.summary import PartSummary

__all__ = ["Job", "PartError", "Task", "TaskRunner", "tasks_of"]


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


class PartError(Exception):
    """An error in a part; `cause` is the error itself."""

    def __init__(self, number: int, cause: BaseException) -> None:
        super().__init__(number, cause)
        self.number, self.cause = number, cause


def tasks_of(parts: Sequence[Part], jobs: int) -> list[Task]:
    """Put successive parts of the same row group together: about eight tasks for each process."""
    most = max(1, min(8, len(parts) // (8 * jobs)))
    tasks: list[list[Part]] = []
    for part in parts:
        last = tasks[-1] if tasks else None
        if last and len(last) < most and (last[-1].file, last[-1].chunks) == (part.file, part.chunks):
            last.append(part)
        else:
            tasks.append([part])
    return [Task(tuple(task)) for task in tasks]


class TaskRunner:
    """Runs tasks in one process.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._scorer = BlockScorer(job.plan.model.load(), job.plan)
        self._reader = PartReader(job.paths, job.columns)

    def run(self, task: Task) -> Iterator[tuple[int, PartSummary]]:
        """Decide about the rows of a task and store each part; yield its number and summary.

        Raises
        ------
        PartError
            If a part cannot be read or decided.
        """
        for part in task.parts:
            try:
                yield part.number, self._run_part(part, task)
            except Exception as error:
                raise PartError(part.number, error) from error

    def _run_part(self, part: Part, task: Task) -> PartSummary:
        block = self._reader.read(part) if task.rows is None else task.rows
        source = source_name(self.job.paths[part.file])
        decided, plan = self._scorer.decide(block, part.first, source, task.kept), self.job.plan
        header = part.number in self.job.headers
        encoded = encode_part(decided.table, plan.output, header=header, spreadsheet_safe=plan.spreadsheet_safe)
        summary = replace(decided.summary, formula_cells=encoded.formula_cells)
        self.job.store.save(part.number, encoded.data, summary)
        return summary
