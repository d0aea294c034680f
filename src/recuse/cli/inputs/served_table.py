"""A model file and a table to apply it to, read together."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recuse.cli.inputs.options import escaped
from recuse.cli.printing.output import Output, counted, short
from recuse.scoring.data_rows import data_rows
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from recuse.cli.inputs.costs import CostChoice
    from recuse.decision import Decision
    from recuse.model_file.schema import TableSchema
    from recuse.model_file.served import ServedModel
    from recuse.model_file.table_report import TableProblem

__all__ = [
    "check_cost",
    "chosen_cost",
    "data_rows",
    "decide",
    "load_model",
    "print_problems",
    "problem_records",
    "problems_of",
    "read_for",
    "row_costs",
    "rows_for",
    "table_schema",
]

_LINES = {
    "wrong type": "{rows} with {example!r} where training had {expected}",
    "new category": "{rows} with a category that training did not have, such as {example!r}",
    "new missing value": "{rows} without a value, which training always had",
    "outside the training range": "{rows} outside the training range {expected}, such as {example}",
}


def load_model(path: Path, choice: CostChoice | None) -> ServedModel:
    """Load a model, and check that it can use the cost that is given."""
    from recuse import load
    from recuse.cli.inputs.costs import check_money

    model = load(path)
    check_money(choice, model.loss_.name)
    return model


def table_schema(model: ServedModel) -> TableSchema:
    """Return the columns that a model reads; raise an error if it reads images."""
    from recuse.scoring.plan import table_schema as schema_of_table

    return schema_of_table(model)


def read_for(model: ServedModel, path: str, encoding: str | None) -> pd.DataFrame:
    """Read a table with the types that a model expects."""
    from recuse.files.tables import read_table
    from recuse.scoring.cell_types import as_expected, text_columns

    columns = {str(column.name): column for column in table_schema(model).columns if column.kind == "category"}
    table = read_table(path, encoding=encoding, text_columns=text_columns(columns))
    for name, column in columns.items():
        if name in table.columns:
            table[name] = as_expected(column, table[name])
    return table


def rows_for(model: ServedModel, table: pd.DataFrame, others: Iterable[str]) -> pd.DataFrame:
    """Return the table as the model reads it.

    The names of columns can be numbers, which are text in a CSV file. A model of an array reads columns by position, so
    the columns of the target and of the cost, `others`, are left out.
    """
    schema = table_schema(model)
    if schema.matrix is not None:
        known = {*others, *(model.info()["targets"]["names"] or ())}
        return table[[name for name in table.columns if name not in known]]
    return table.rename(columns={str(each.name): each.name for each in schema.columns})


def problems_of(model: ServedModel, table: pd.DataFrame, path: str) -> list[TableProblem]:
    """Compare the rows of `rows_for` with the training rows; raise an error if columns are missing."""
    from recuse.cli.inputs.columns import check_finite
    from recuse.model_file.table_report import MISSING_COLUMN, table_report

    schema = table_schema(model)
    problems = table_report(schema, table)
    absent = [str(problem.column) for problem in problems if problem.problem == MISSING_COLUMN]
    if absent and schema.matrix is not None:
        raise ValueError(f"{path} must have {len(schema.columns)} columns, as in training, got {absent[0]}")
    if absent:
        several = "the columns" if len(absent) > 1 else "the column"
        raise ValueError(f"{path} must have {several} {short(absent, 10)}, as in training")
    named = table if schema.matrix is None else table.set_axis([column.name for column in schema.columns], axis=1)
    check_finite(named, [column.name for column in schema.columns if column.kind == "number"], path)
    return problems


def chosen_cost(choice: CostChoice | None, model: ServedModel) -> float | str:
    """Return the cost that is given, or else that of the model: a number or the name of a column."""
    cost = model.cost_ if choice is None else choice.value
    if cost is None:
        raise UsageError("the model has no cost of its own: give --cost, a number or column:NAME")
    return cost


def check_cost(cost: float | str, model: ServedModel) -> None:
    """Raise an error if a number is outside the range of costs that a model was fitted for."""
    if model.cost_range_ is not None and not isinstance(cost, str):
        low, high = model.cost_range_
        if not low <= cost <= high:
            raise ValueError(f"--cost must be from {low:g} to {high:g}, as in training, got {cost:g}")


def row_costs(cost: float | str, model: ServedModel, table: pd.DataFrame, path: str) -> float | pd.Series[float]:
    """Return the cost for `decide`; raise an error if its column is missing or holds anything else."""
    from recuse.cli.inputs.columns import check_column, check_range, costs_of

    if isinstance(cost, str):
        check_column(table, cost, "cost column", path)
        values = costs_of(table, cost, path)
        if model.cost_range_ is not None:
            check_range(values, *model.cost_range_, f"the cost column {cost!r} of {path}")
        return values
    check_cost(cost, model)
    return cost


def decide(
    model: ServedModel, rows: pd.DataFrame, cost: float | pd.Series[float], certificate: int | None = None
) -> Decision:
    """Decide about rows, by a certificate if its number is given; errors count the rows from 1, without the header."""
    with data_rows(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report of the table has these problems
        if certificate is None:
            return model.decide(rows, cost=cost)
        certified = model.certified(certificate - 1)
        known = certified.cost_given != "per row" and certified.cost_ is not None
        return certified.decide(rows, cost=None if known else cost)


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
