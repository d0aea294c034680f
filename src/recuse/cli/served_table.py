"""A model file and a table to apply it to, read together."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recuse.cli.options import escaped
from recuse.cli.output import Output, counted, short
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from recuse.cli.costs import CostChoice
    from recuse.model_file.schema import ColumnSchema, TableSchema
    from recuse.model_file.served import ServedModel
    from recuse.model_file.table_report import TableProblem

__all__ = ["checked_cost", "print_problems", "problem_records", "problems_of", "read_for", "table_schema"]

_LINES = {
    "wrong type": "{rows} with {example!r} where training had {expected}",
    "new category": "{rows} with a category that training did not have, such as {example!r}",
    "new missing value": "{rows} without a value, which training always had",
    "outside the training range": "{rows} outside the training range {expected}, such as {example}",
}


def table_schema(model: ServedModel) -> TableSchema:
    """Return the columns that a model reads; raise an error if it reads images."""
    from recuse.model_file.schema import TableSchema

    if not isinstance(model.schema, TableSchema):
        raise ValueError(f"{model.estimator} reads images, not tables: load the model in Python, with recuse.load")
    return model.schema


def read_for(model: ServedModel, path: str, encoding: str | None) -> pd.DataFrame:
    """Read a table with the types that a model expects."""
    from recuse.table_files import read_table

    categories = {str(column.name): column for column in table_schema(model).columns if column.kind == "category"}
    text = {name for name, column in categories.items() if any(isinstance(each.value, str) for each in column.levels)}
    table = read_table(path, encoding=encoding, text_columns=text)
    for name in categories:
        if name in table.columns:
            table[name] = _as_text(table[name]) if name in text else _as_values(table[name], categories[name])
    return table


def _as_text(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Return whole numbers and truth values of a Parquet or Arrow file as the text that a CSV file has."""
    return cells if cells.dtype.kind not in "iub" else cells.map(str)


def _as_values(cells: pd.Series[Any], column: ColumnSchema) -> pd.Series[Any]:
    """Return the truth values of a CSV file, where the training rows had truth values."""
    values = {level.text.lower(): level.value for level in column.levels if isinstance(level.value, bool)}
    if not values or cells.dtype.kind == "b":
        return cells
    return cells.astype(object).map(lambda cell: values.get(str(cell).lower(), cell), na_action="ignore")


def problems_of(model: ServedModel, table: pd.DataFrame, path: str) -> list[TableProblem]:
    """Compare a table with the training rows; raise an error if columns are missing."""
    from recuse.model_file.table_report import MISSING_COLUMN, table_report

    schema = table_schema(model)
    problems = table_report(schema, table)
    absent = [str(problem.column) for problem in problems if problem.problem == MISSING_COLUMN]
    if absent and schema.matrix is not None:
        raise ValueError(f"{path} must have {len(schema.columns)} columns, as in training, got {absent[0]}")
    if absent:
        several = "the columns" if len(absent) > 1 else "the column"
        raise ValueError(f"{path} must have {several} {short(absent, 10)}, as in training")
    return problems


def checked_cost(choice: CostChoice | None, model: ServedModel, table: pd.DataFrame, path: str) -> float | str | None:
    """Return the cost for `decide`; raise an error if there is none or if its column is missing."""
    from recuse.cli.columns import check_column

    cost = None if choice is None else choice.value
    column = cost if cost is not None else model.cost_
    if column is None:
        raise UsageError("the model has no cost of its own: give --cost, a number or column:NAME")
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
