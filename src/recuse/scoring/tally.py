"""Counts of the rows of finished parts, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from recuse.model_file.served import ServedModel
from recuse.model_file.table_report import IGNORED_COLUMN, TableProblem
from recuse.progress import progress_bar
from recuse.scoring.inputs import Inputs
from recuse.scoring.plan import Plan, model_columns, table_schema
from recuse.scoring.summary import PartSummary, ScoringSummary, merged_problems

__all__ = ["Tally"]


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
