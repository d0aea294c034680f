"""A model file and a table to apply it to, read together."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recuse.cli.options import escaped
from recuse.cli.output import Output, counted, short

if TYPE_CHECKING:
    import pandas as pd

    from recuse.cli.costs import CostChoice
    from recuse.model_file.served import ServedModel
    from recuse.model_file.table_report import TableProblem

__all__ = ["checked_cost", "print_problems", "problem_records", "problems_of", "read_for"]

_LINES = {
    "wrong type": "{rows} with {example!r} where training had {expected}",
    "new category": "{rows} with a category that training did not have, such as {example!r}",
    "new missing value": "{rows} without a value, which training always had",
    "outside the training range": "{rows} outside the training range {expected}, such as {example}",
}


def read_for(model: ServedModel, path: str, encoding: str | None) -> pd.DataFrame:
    """Read a table with the types that a model expects."""
    from recuse.table_files import read_table

    text = [
        str(column.name)
        for column in model.schema.columns
        if column.kind in ("category", "date") and any(isinstance(level.value, str) for level in column.levels)
    ]
    return read_table(path, encoding=encoding, text_columns=text)


def problems_of(model: ServedModel, table: pd.DataFrame, path: str) -> list[TableProblem]:
    """Compare a table with the training rows; raise an error if columns are missing."""
    from recuse.model_file.table_report import MISSING_COLUMN, table_report

    problems = table_report(model.schema, table)
    absent = [str(problem.column) for problem in problems if problem.problem == MISSING_COLUMN]
    if absent and model.schema.matrix is not None:
        raise ValueError(f"{path} must have {len(model.schema.columns)} columns, as in training, got {absent[0]}")
    if absent:
        several = "the columns" if len(absent) > 1 else "the column"
        raise ValueError(f"{path} must have {several} {short(absent, 10)}, as in training")
    return problems


def checked_cost(choice: CostChoice | None, model: ServedModel, table: pd.DataFrame, path: str) -> float | str | None:
    """Return the cost for `decide`; raise an error if its column is missing."""
    from recuse.cli.columns import check_column

    cost = None if choice is None else choice.value
    column = cost if cost is not None else model.cost_
    if isinstance(column, str):
        check_column(table, column, "cost column", path)
    return cost


def print_problems(problems: list[TableProblem], used: set[str], output: Output) -> None:
    """Print each problem as one line; `used` are columns that are not features but have another use."""
    from recuse.model_file.table_report import IGNORED_COLUMN

    for problem in problems:
        if problem.problem != IGNORED_COLUMN:
            facts = {**asdict(problem), "rows": counted(problem.rows, "row")}
            output.warn(f"column {problem.column}: {_LINES[problem.problem].format(**facts)}")
    ignored = [str(each.column) for each in problems if each.problem == IGNORED_COLUMN and each.column not in used]
    if ignored:
        output.say(f"Columns that the model does not use: {escaped(short(ignored, 10))}.")


def problem_records(problems: list[TableProblem]) -> list[dict[str, Any]]:
    """Return the problems as plain records."""
    return [asdict(problem) for problem in problems]
