"""Counts, costs and problems of scored rows, of one part or of a whole run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from recuse.model_file import table_report as kinds
from recuse.model_file.table_report import TableProblem
from recuse.tabular.schema import Column, Kind, TableSchema

_ORDER = (
    *(kinds.MISSING_COLUMN, kinds.WRONG_TYPE, kinds.NEW_CATEGORY, kinds.NEW_MISSING),
    *(kinds.OUT_OF_RANGE, kinds.IGNORED_COLUMN),
)


@dataclass(frozen=True)
class ScoringSummary:
    """What `score_files` did, or what is known of one part of its output.

    Attributes
    ----------
    rows, accepted : int
    lowest_cost, highest_cost : float
        Costs of the rows.
    problems : list of TableProblem
        Differences from the training rows, with the numbers of rows over all files.
    formula_cells : int
        Text cells of CSV files that spreadsheets would run as formulas; with `spreadsheet_safe` they got an apostrophe.
    resumed_rows : int
        Rows that an earlier, interrupted run had finished.
    output : str
        The file or the folder that was written.

    Examples
    --------
    >>> summary = ScoringSummary(rows=10, accepted=7, lowest_cost=6.0, highest_cost=6.0)
    >>> summary.rejected, summary.rejection_rate
    (3, 0.3)
    """

    rows: int = 0
    accepted: int = 0
    lowest_cost: float = math.inf
    highest_cost: float = -math.inf
    problems: list[TableProblem] = field(default_factory=list)
    formula_cells: int = 0
    resumed_rows: int = 0
    output: str = ""

    @property
    def rejected(self) -> int:
        """Number of rejected rows."""
        return self.rows - self.accepted

    @property
    def rejection_rate(self) -> float:
        """Share of rejected rows."""
        return self.rejected / self.rows if self.rows else math.nan

    def plus(self, part: ScoringSummary, schema: TableSchema, *, resumed: bool = False) -> Self:
        """Add a part."""
        return replace(
            self,
            rows=self.rows + part.rows,
            accepted=self.accepted + part.accepted,
            lowest_cost=min(self.lowest_cost, part.lowest_cost),
            highest_cost=max(self.highest_cost, part.highest_cost),
            problems=merged_problems(schema, [*self.problems, *part.problems]) if part.problems else self.problems,
            formula_cells=self.formula_cells + part.formula_cells,
            resumed_rows=self.resumed_rows + part.rows * resumed,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the values that `dataclasses.asdict` gives."""
        return cls(**{**values, "problems": [TableProblem(**each) for each in values["problems"]]})


def merged_problems(schema: TableSchema, problems: Iterable[TableProblem]) -> list[TableProblem]:
    """Add up the problems of parts, in the order of the columns.

    Examples
    --------
    >>> schema = TableSchema((Column("weight", Kind.NUMBER, low=0.0, high=5.0),))
    >>> far = TableProblem("weight", kinds.OUT_OF_RANGE, 2, "9", "0 to 5")
    >>> farther = TableProblem("weight", kinds.OUT_OF_RANGE, 1, "-7", "0 to 5")
    >>> [(each.rows, each.example) for each in merged_problems(schema, [far, farther])]
    [(3, '-7')]
    """
    columns = {column.name: column for column in schema.columns}
    merged: dict[tuple[str | int, str], TableProblem] = {}
    for problem in problems:
        key = problem.column, problem.problem
        merged[key] = _sum(columns.get(problem.column), merged[key], problem) if key in merged else problem
    places = {name: place for place, name in enumerate(columns)}
    return sorted(merged.values(), key=lambda each: (places.get(each.column, len(places)), _ORDER.index(each.problem)))


def _sum(column: Column | None, first: TableProblem, second: TableProblem) -> TableProblem:
    farther = (
        column is not None
        and first.problem == kinds.OUT_OF_RANGE
        and _distance(column, second.example) > _distance(column, first.example)
    )
    return replace(second if farther else first, rows=first.rows + second.rows)


def _distance(column: Column, example: str) -> float:
    """Return how far the example of a problem is outside the training range."""
    assert column.low is not None
    assert column.high is not None
    date = column.kind == Kind.DATE
    value = np.datetime64(example, "s").astype(np.int64).item() if date else float(example)
    return max(column.low - value, value - column.high)
