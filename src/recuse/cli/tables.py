"""Tables of users: rows with targets, to fit a model to or to apply a saved model to."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from recuse.cli.options import GivenCost
from recuse.cli.printing import Output, escape
from recuse.phrases import counted, short
from recuse.scoring.data_rows import data_rows
from recuse.tabular.column_checks import (
    check_cells,
    check_column,
    check_finite,
    check_range,
    costs_of,
    not_negative,
    numbers_of,
)
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from recuse.decision import Decision
    from recuse.model_file.served import ServedModel
    from recuse.model_file.table_report import TableProblem

__all__ = [
    "LabelledTable",
    "Roles",
    "decide",
    "kinds_of",
    "labelled_table",
    "print_problems",
    "problem_records",
    "read_labelled",
    "row_counters",
    "split_rows",
    "table_to_test",
    "text_columns",
]

_KINDS = {"number": "numbers", "date": "dates or times", "category": "categories"}
_ROLES = {"targets": "--target", "cost": "--cost", "groups": "--groups", "weights": "--weights", "dropped": "--drop"}
_PROBLEMS = {
    "wrong type": "{rows} with {example!r} where training had {expected}",
    "new category": "{rows} with a category that training did not have, such as {example!r}",
    "new missing value": "{rows} without a value, which training always had",
    "outside the training range": "{rows} outside the training range {expected}, such as {example}",
}


@dataclass(frozen=True)
class Roles:
    """The names of the columns of a training table that are not features."""

    targets: tuple[str, ...]
    cost: str | None = None
    groups: str | None = None
    weights: str | None = None
    dropped: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise an error if a column has two roles."""
        if len(set(self.targets)) < len(self.targets):
            raise UsageError(f"--target must be given once for each column, got {short(list(self.targets))}")
        given = {option: getattr(self, role) or () for role, option in _ROLES.items()}
        _check_roles({option: [names] if isinstance(names, str) else names for option, names in given.items()})


def _check_roles(names: dict[str, Iterable[str]]) -> None:
    """Raise an error if two options name the same column."""
    found: dict[str, str] = {}
    for option, each in names.items():
        for name in dict.fromkeys(each):
            if name in found:
                raise UsageError(f"column {name!r} must have one role, got {found[name]} and {option}")
            found[name] = option


@dataclass(frozen=True)
class LabelledTable:
    """The rows of a table that have a target.

    Attributes
    ----------
    X : DataFrame
        The features and, if there is one, the column of the cost; for a saved model, the rows as the model reads them.
    y : Series or DataFrame
    source : str
        Name of the table in messages.
    left_out : int
        Number of rows without a target.
    cost : float, Series or None
        The cost for the decisions of a saved model.
    cells : DataFrame or None
        The same rows with all columns and the names of the file.
    groups : Series or None
    weights : Series or None
    judge_weights : Series or None
        Weights to judge a model by, if they are not those to fit it by.
    problems : list of TableProblem
        Differences from the training rows of a saved model.
    """

    X: pd.DataFrame
    y: Any
    source: str
    left_out: int
    cost: Any = None
    cells: Any = None
    groups: Any = None
    weights: Any = None
    judge_weights: Any = None
    problems: list[TableProblem] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.X)

    def to_frame(self) -> pd.DataFrame:
        """Return all columns as one table."""
        import pandas as pd

        parts = (self.X, self.y, self.groups, self.weights)
        table: pd.DataFrame = pd.concat([part for part in parts if part is not None], axis=1)
        return table

    def take(self, rows: Any) -> LabelledTable:
        """Return some of the rows, by a mask."""
        columns = {name: getattr(self, name) for name in ("X", "y", "groups", "weights", "judge_weights")}
        return replace(self, **{name: column[rows] for name, column in columns.items() if column is not None})

    def columns_of_groups(self, names: Sequence[str]) -> pd.DataFrame | None:
        """Return columns of the file by which rows are grouped; None without names."""
        for name in names:
            check_column(self.cells, name, "column of groups", self.source)
        return self.cells[list(names)] if names else None

    def describe(self) -> str:
        """Return the number of rows in words."""
        note = f" ({counted(self.left_out, 'row')} without a target left out)" if self.left_out else ""
        return f"{counted(len(self), 'row')} of {escape(self.source)}{note}"


def labelled_table(frame: pd.DataFrame, roles: Roles, source: str) -> LabelledTable:
    """Divide a training table by the roles of its columns, and leave out rows without a target."""
    for role, name in (("cost", roles.cost), ("groups", roles.groups), ("weights", roles.weights)):
        if name is not None:
            check_column(frame, name, f"{role} column", source)
    for name in roles.dropped:
        check_column(frame, name, "column to drop", source)
    y, known = _targets(frame, roles.targets, source)
    others = {*roles.targets, *roles.dropped, roles.groups, roles.weights}
    features = [name for name in frame.columns if name not in others]
    if not set(features) - {roles.cost}:
        raise ValueError(f"{source} has no columns for features")
    rows, X = frame[known], frame.loc[known, features].copy()
    if roles.cost is not None:
        X[roles.cost] = costs_of(rows, roles.cost, source)
    check_finite(X, [name for name in features if name != roles.cost], source)
    weights = None if roles.weights is None else not_negative(rows, roles.weights, "weights column", source)
    groups = None if roles.groups is None else _complete(frame[roles.groups], source)[known]
    return LabelledTable(X, y, source, int((~known).sum()), groups=groups, weights=weights)


def table_to_test(frame: pd.DataFrame, roles: Roles, source: str) -> LabelledTable:
    """Divide a table to test on, which needs no columns of groups and no columns that are dropped."""
    given = (*roles.dropped, *([] if roles.groups is None else [roles.groups]))
    unused = tuple(name for name in given if name in frame.columns)
    return labelled_table(frame, replace(roles, groups=None, dropped=unused), source)


def _targets(frame: pd.DataFrame, names: Sequence[str], source: str) -> tuple[Any, Any]:
    """Return the targets of the rows that have them, a Series or, of several targets, a DataFrame; and these rows."""
    import pandas as pd

    for name in names:
        check_column(frame, name, "target", source)
    y = pd.DataFrame({name: numbers_of(frame, name, "target", source) for name in names})
    for name in names:
        check_cells(y[name], y[name].abs() == math.inf, f"the target {name!r} of {source} must be finite")
    known = y.notna().all(axis=1)
    if not known.any():
        raise ValueError(f"no row of {source} has a target in {short(list(names))}")
    return (y[known] if len(names) > 1 else y.loc[known, names[0]]), known


def _complete(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    gaps = int(column.isna().sum())
    if gaps:
        raise ValueError(f"the groups column {column.name!r} of {source} has {counted(gaps, 'missing value')}")
    return column.astype(str)


def split_rows(table: LabelledTable, share: float, seed: int) -> tuple[LabelledTable, LabelledTable]:
    """Hold out a share of the rows, or of the groups, at random."""
    import numpy as np
    import pandas as pd

    units = np.arange(len(table)) if table.groups is None else pd.factorize(table.groups)[0]
    count = int(units.max()) + 1
    held_count = round(share * count)
    if not 0 < held_count < count:
        what = "rows" if table.groups is None else "groups"
        raise ValueError(f"{count} {what} are too few to hold out a share of {share:g} for the test")
    held = np.isin(units, np.random.default_rng(seed).permutation(count)[:held_count])
    return table.take(~held), table.take(held)


def kinds_of(frame: pd.DataFrame) -> dict[str, int]:
    """Count the columns of each kind, in words."""
    from recuse.tabular.schema import kind_of

    counts: dict[str, int] = {}
    for name in frame.columns:
        kind = _KINDS[kind_of(frame[name])] if frame[name].notna().any() else "empty"
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def row_counters(frame: pd.DataFrame) -> list[str]:
    """Return the columns of whole numbers that grow by one from row to row."""
    whole = [name for name in frame.columns if frame[name].dtype.kind in "iu"]
    return [name for name in whole if len(frame) > 2 and (frame[name].diff().iloc[1:] == 1).all()]


def text_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are neither numbers nor dates."""
    return [name for name in frame.columns if frame[name].dtype.kind not in "iufcMm"]


def read_labelled(
    model: ServedModel,
    data: str,
    cost: GivenCost,
    printer: Output,
    *,
    targets: Sequence[str] | None = None,
    used: Sequence[str] = (),
    encoding: str | None = None,
    options: tuple[str, str] = ("--target", "--group"),
) -> LabelledTable:
    """Read a table with targets for a saved model, and print how it differs from the training rows.

    Parameters
    ----------
    model : ServedModel
    data : str
        Path of the table.
    cost : GivenCost
    printer : Output
    targets : sequence of str, optional
        Names of the target columns, if they differ from training.
    used : sequence of str
        Other columns that are used, such as those of groups. The model may read them too.
    encoding : str, optional
    options : pair of str
        The options that give the targets and the used columns, for errors.
    """
    from recuse.files.names import source_name
    from recuse.model_file.table_report import table_report
    from recuse.scoring.plan import table_schema

    names, source = _target_names(model, targets, options[0]), source_name(data)
    _check_roles({options[0]: names, "--cost": [] if cost.column is None else [cost.column]})
    _check_roles({options[0]: names, options[1]: used})
    table = _read_table(model, data, encoding)
    y, known = _targets(table, names, source)
    table = table[known]
    row_cost = cost.value if cost.column is None else _costs(model, table, cost.column, source)
    other = {*names, *(each for each in (cost.value, model.cost_) if isinstance(each, str))}
    X = _as_read(model, table, other, used, source)
    problems = table_report(table_schema(model), X)
    print_problems(problems, {*other, *used}, printer)
    return LabelledTable(X, y, source, int((~known).sum()), row_cost, cells=table, problems=problems)


def _target_names(model: ServedModel, given: Sequence[str] | None, option: str) -> list[str]:
    stored: Any = model.info()["targets"]
    if given is None and stored["names"] is None:
        raise UsageError(f"the model file has no name of the target: give {option}")
    names = list(given or stored["names"])
    if len(names) != stored["count"]:
        raise UsageError(f"{option} must be given {counted(stored['count'], 'time')}, once for each target")
    return names


def _read_table(model: ServedModel, path: str, encoding: str | None) -> pd.DataFrame:
    """Read a table; cells of categories and dates stay text, as the model reads them."""
    from recuse.files.tables import read_table
    from recuse.scoring.plan import table_schema

    columns = [str(column.name) for column in table_schema(model).used if column.kind != "number"]
    return read_table(path, encoding=encoding, text_columns=columns)


def _costs(model: ServedModel, table: pd.DataFrame, name: str, source: str) -> pd.Series[float]:
    """Return the cost of each row; raise an error if the column is missing or holds anything else."""
    check_column(table, name, "cost column", source)
    values = costs_of(table, name, source)
    if model.cost_range_ is not None:
        check_range(values, *model.cost_range_, f"the cost column {name!r} of {source}")
    return values


def _as_read(
    model: ServedModel, table: pd.DataFrame, other: set[str], used: Sequence[str], source: str
) -> pd.DataFrame:
    """Return the table as the model reads it; raise an error if columns are missing or numbers are infinite.

    The names of columns can be numbers, which are text in a CSV file. A model of an array reads columns by position:
    for it, columns of targets and costs are left out and, of a table with too many columns, the used ones.
    """
    from recuse.scoring.plan import model_columns, table_schema

    schema, names = table_schema(model), list(table.columns)
    if schema.matrix is not None:
        left = [name for name in names if name not in other]
        names = [name for name in left if len(left) <= len(schema.columns) or name not in used]
    columns = model_columns(model, names, 0.0, source)
    if schema.matrix is None:
        X = table.rename(columns={given: name for name, given in columns.items()})
    else:
        X = table[list(columns.values())].set_axis(list(columns), axis=1)
    check_finite(X, [column.name for column in schema.columns if column.kind == "number"], source)
    return X


def decide(model: ServedModel, table: LabelledTable, certificate: int | None = None) -> Decision:
    """Decide about rows, by a certificate if its number is given; errors count the rows from 1, without the header."""
    with data_rows(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the problems of the table have these
        if certificate is None:
            return model.decide(table.X, cost=table.cost)
        certified = model.certified(certificate - 1)
        known = certified.cost_given != "per row" and certified.cost_ is not None
        return certified.decide(table.X, cost=None if known else table.cost)


def print_problems(problems: list[TableProblem], used: set[str], printer: Output) -> None:
    """Print each problem as one line; `used` are columns that are not features but have another use."""
    from recuse.model_file.table_report import IGNORED_COLUMN

    for problem in problems:
        if problem.problem != IGNORED_COLUMN:
            facts = {**asdict(problem), "rows": counted(problem.rows, "row")}
            printer.warn(f"column {problem.column}: {_PROBLEMS[problem.problem].format(**facts)}")
    ignored = [str(each.column) for each in problems if each.problem == IGNORED_COLUMN and each.column not in used]
    if ignored:
        printer.say(f"Columns that the model does not use: {escape(short(ignored, 10))}.")


def problem_records(problems: list[TableProblem]) -> list[dict[str, Any]]:
    """Return the problems as plain records."""
    return [asdict(problem) for problem in problems]
