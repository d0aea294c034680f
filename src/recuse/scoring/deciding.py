"""Decisions about blocks of rows, and the tasks of a run, which decide about parts of files and store the results."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.dataframes import file_rows
from recuse.files.names import source_name
from recuse.model_file.served import ServedModel
from recuse.scoring.inputs import PartReader, Task
from recuse.scoring.outputs import encode_part
from recuse.scoring.plan import ScoringPlan, model_columns
from recuse.scoring.summary import ScoringSummary
from recuse.scoring.working_folder import PartStore
from recuse.tabular.column_checks import check_range, costs_of


class BlockScorer:
    """Decides about blocks of rows.

    Parameters
    ----------
    model : ServedModel
    plan : ScoringPlan
    """

    def __init__(self, model: ServedModel, plan: ScoringPlan) -> None:
        self.model, self.plan = model, plan
        self._certified = None if plan.certificate is None else model.certified(plan.certificate - 1)
        if self._certified is not None:
            self._certified.check_model()
            self._certified.model_cost(plan.cost)  # raises an error if the certificate is for another

    def decide(self, block: Any, first: int, source: str, kept: Any = None) -> tuple[Any, ScoringSummary]:
        """Decide about a block; return the kept columns with the decisions, and what is known of them.

        Parameters
        ----------
        block : DataFrame or pyarrow.Table
            The returned table is of the same library.
        first : int
            Number of the first row in its file, counted from 0.
        source : str
            Name of the file in errors.
        kept : DataFrame, optional
            The columns to keep, if they are not those of the block.
        """
        names = [str(name) for name in (block.columns if hasattr(block, "iloc") else block.column_names)]
        columns, cost = model_columns(self.model, names, self.plan.cost, source), self.plan.cost
        index = file_rows(len(block), first)
        given = self._costs(block, cost, index, source) if isinstance(cost, str) else cost
        # The problems of the reading have what its warnings say.
        reading = self.model.read(block, warn=False, columns=columns, index=index, source=source)
        decision, expected = self.model.decide_reading(reading, given)
        decision = decision if self._certified is None else self._certified.apply(decision)
        results = decision.to_frame().reset_index(drop=True)
        if expected is not None:
            results["expected_loss"] = expected
        assert reading.comparison is not None
        low, high = float(decision.cost.min()), float(decision.cost.max())
        counts = len(decision), int(decision.accepted.sum()), low, high
        return self._table(block if kept is None else kept, results), ScoringSummary(
            *counts, reading.comparison.problems()
        )

    def _costs(self, block: Any, name: str, index: pd.Index[Any], source: str) -> NDArray[np.float64]:
        """Return the cost of each row; raise an error if the column of costs holds anything else."""
        cells = block[[name]] if hasattr(block, "iloc") else block.select([name]).to_pandas()
        values = costs_of(cells.set_axis(index, axis=0), name, source)
        if self.model.cost_range_ is not None:
            check_range(values, *self.model.cost_range_, f"the cost column {name!r} of {source}")
        return np.asarray(values, dtype=np.float64)

    def _table(self, block: Any, results: pd.DataFrame) -> Any:
        """Put the kept columns before the decisions."""
        keep, names = list(self.plan.keep), list(self.plan.kept_as)
        if isinstance(block, pd.DataFrame):
            return pd.concat([block[keep].reset_index(drop=True).set_axis(names, axis=1), results], axis=1)
        import pyarrow as pa

        decided = [pa.array(results[name].to_numpy()) for name in results.columns]
        return pa.table([*block.select(keep).columns, *decided], names=[*names, *results.columns])


@dataclass(frozen=True)
class Job:
    """What all tasks of a run have in common.

    Attributes
    ----------
    plan : ScoringPlan
    paths : tuple of str
        The files to read.
    columns : tuple of str
        Columns to read, of Parquet and Arrow files.
    store : PartStore
    headers : frozenset of int
        Numbers of the parts that start a file of the output.
    """

    plan: ScoringPlan
    paths: tuple[str, ...]
    columns: tuple[str, ...]
    store: PartStore
    headers: frozenset[int] = frozenset({0})


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

    def __call__(self, task: Task) -> list[tuple[int, ScoringSummary]]:
        """Return the number and the summary of each part of the task."""
        job, plan, found = self.job, self.job.plan, []
        self._scorer = self._scorer or BlockScorer(plan.model.load(), plan)
        for part in task.parts:
            block = self._reader.read(part) if task.rows is None else task.rows
            table, summary = self._scorer.decide(block, part.first, source_name(job.paths[part.file]), task.kept)
            header, safe = part.number in job.headers, plan.spreadsheet_safe
            data, formulas = encode_part(table, plan.output, header=header, spreadsheet_safe=safe)
            summary = replace(summary, formula_cells=formulas)
            job.store.save(part.number, data, summary)
            found.append((part.number, summary))
        return found


_of_thread = threading.local()


def _run_in_thread(job: Job, task: Task) -> list[tuple[int, ScoringSummary]]:
    runner: PartRunner | None = getattr(_of_thread, "runner", None)
    if runner is None or runner.job != job:
        runner = _of_thread.runner = PartRunner(job)
    return runner(task)
