"""Tables of users: rows with a target, to fit a model to or to apply a saved model to."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from recuse.cli.options import GivenCost
from recuse.cli.printing import Output
from recuse.files.names import source_name
from recuse.phrases import counted
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
    from recuse.reviews.learning import AnsweredRows

_ROLES = {"target": "--target", "cost": "--cost", "groups": "--groups", "weights": "--weights", "dropped": "--drop"}


@dataclass(frozen=True)
class Roles:
    """The names of the columns of a training table that are not features."""

    target: str
    cost: str | None = None
    groups: str | None = None
    weights: str | None = None
    dropped: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise an error if a column has two roles."""
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
    y : Series
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

    def split(self, share: float, seed: int) -> tuple[LabelledTable, LabelledTable]:
        """Hold out a share of the rows, or of the groups, at random."""
        import numpy as np
        import pandas as pd

        units = np.arange(len(self)) if self.groups is None else pd.factorize(self.groups)[0]
        count = int(units.max()) + 1
        held_count = round(share * count)
        if not 0 < held_count < count:
            what = "rows" if self.groups is None else "groups"
            raise ValueError(f"{count} {what} are too few to hold out a share of {share:g} for the test")
        held = np.isin(units, np.random.default_rng(seed).permutation(count)[:held_count])
        names = ("X", "y", "groups", "weights", "judge_weights")
        columns = {name: column for name in names if (column := getattr(self, name)) is not None}
        training, rest = ({name: column[rows] for name, column in columns.items()} for rows in (~held, held))
        return replace(self, **training), replace(self, **rest)

    def columns_of_groups(self, names: Sequence[str]) -> pd.DataFrame | None:
        """Return columns of the file by which rows are grouped; None without names."""
        for name in names:
            check_column(self.cells, name, "column of groups", self.source)
        return self.cells[list(names)] if names else None

    def describe(self) -> str:
        """Return the number of rows in words."""
        note = f" ({counted(self.left_out, 'row')} without a target left out)" if self.left_out else ""
        return f"{counted(len(self), 'row')} of {escape(self.source)}{note}"


def read_rows(path: str, encoding: str | None, text_columns: Iterable[str] = ()) -> pd.DataFrame:
    """Read a table whose rows have the numbers that errors count by."""
    from recuse.dataframes import file_rows
    from recuse.files.tables import read_table

    frame = read_table(path, encoding=encoding, text_columns=text_columns)
    return frame.set_axis(file_rows(len(frame)), axis=0)


def training_table(frame: pd.DataFrame, roles: Roles, source: str) -> LabelledTable:
    """Divide a training table by the roles of its columns, and leave out rows without a target."""
    for role, name in (("cost", roles.cost), ("groups", roles.groups), ("weights", roles.weights)):
        if name is not None:
            check_column(frame, name, f"{role} column", source)
    for name in roles.dropped:
        check_column(frame, name, "column to drop", source)
    y, known = _target(frame, roles.target, source)
    others = {roles.target, *roles.dropped, roles.groups, roles.weights}
    features = [name for name in frame.columns if name not in others]
    if not set(features) - {roles.cost}:
        raise ValueError(f"{source} has no columns for features")
    rows, X = frame[known], frame.loc[known, features].copy()
    if roles.cost is not None:
        X[roles.cost] = costs_of(rows, roles.cost, source)
    check_finite(X, [name for name in features if name != roles.cost], source)
    weights = None if roles.weights is None else not_negative(rows, roles.weights, "weights column", source)
    groups = None if roles.groups is None else frame[roles.groups]
    if groups is not None and groups.isna().any():
        gaps = counted(int(groups.isna().sum()), "missing value")
        raise ValueError(f"the groups column {groups.name!r} of {source} has {gaps}")
    groups = None if groups is None else groups.astype(str)[known]
    return LabelledTable(X, y, source, int((~known).sum()), groups=groups, weights=weights)


def _target(frame: pd.DataFrame, name: str, source: str) -> tuple[Any, Any]:
    """Return the target of the rows that have one, and which these are."""
    check_column(frame, name, "target", source)
    y = numbers_of(frame, name, "target", source)
    check_cells(y, y.abs() == math.inf, f"the target {name!r} of {source} must be finite")
    known = y.notna()
    if not known.any():
        raise ValueError(f"no row of {source} has a target in {name}")
    return y[known], known


def read_labelled(
    model: ServedModel,
    data: str,
    cost: GivenCost,
    printer: Output,
    *,
    target: str | None = None,
    used: Sequence[str] = (),
    encoding: str | None = None,
    options: tuple[str, str] = ("--target", "--group"),
) -> LabelledTable:
    """Read a table with a target for a saved model, and print how it differs from the training rows.

    Cells of categories and dates stay text, as the model reads them.

    Parameters
    ----------
    model : ServedModel
    data : str
        Path of the table.
    cost : GivenCost
    printer : Output
    target : str, optional
        Name of the target, if it differs from training.
    used : sequence of str
        Other columns that are used, such as those of groups. The model may read them too.
    encoding : str, optional
    options : pair of str
        The options that give the target and the used columns, for errors.
    """
    from recuse.model_file.table_report import table_report
    from recuse.scoring.plan import table_schema

    schema, source = table_schema(model), source_name(data)
    names = [target] if target is not None else model.info()["targets"]["names"]
    if not names:
        raise UsageError(f"the model file has no name of the target: give {options[0]}")
    _check_roles({options[0]: names, "--cost": [] if cost.column is None else [cost.column]})
    _check_roles({options[0]: names, options[1]: used})
    table = read_rows(data, encoding, [str(column.name) for column in schema.used if column.kind != "number"])
    y, known = _target(table, names[0], source)
    table = table[known]
    row_cost: Any = cost.value
    if cost.column is not None:
        check_column(table, cost.column, "cost column", source)
        row_cost = costs_of(table, cost.column, source)
        if model.cost_range_ is not None:
            check_range(row_cost, *model.cost_range_, f"the cost column {cost.column!r} of {source}")
    other = {*names, *(each for each in (cost.value, model.cost_) if isinstance(each, str))}
    X = _as_read(model, table, other, used, source)
    problems = table_report(schema, X)
    printer.problems(problems, {*other, *used})
    return LabelledTable(X, y, source, int((~known).sum()), row_cost, cells=table, problems=problems)


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


def read_decisions(path: str, target: str, loss: str, encoding: str | None) -> tuple[LabelledTable, Decision]:
    """Read decisions, as `recuse predict` writes them, from a table that has the target, too."""
    from recuse import Decision

    frame, source = read_rows(path, encoding), source_name(path)
    names = ("prediction", "accepted", "score", "cost")
    for name in names:
        check_column(frame, name, "column of decisions", source)
    y, known = _target(frame, target, source)
    frame = frame[known]
    numbers = {name: numbers_of(frame, name, "column of decisions", source) for name in names}
    accepted = numbers["accepted"]
    check_cells(accepted, ~accepted.isin([0, 1]), f"the column 'accepted' of {source} must hold True or False")
    decision = Decision.from_frame(frame.assign(**{**numbers, "accepted": accepted == 1}), loss=loss)
    return LabelledTable(frame, y, source, int((~known).sum())), decision


def decide(model: ServedModel, table: LabelledTable, certificate: int | None = None) -> Decision:
    """Decide about rows, by a certificate if its number is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the problems of the table have these
        if certificate is None:
            return model.decide(table.X, cost=table.cost)
        certified = model.certified(certificate - 1)
        known = certified.cost_given != "per row" and certified.cost_ is not None
        return certified.decide(table.X, cost=None if known else table.cost)


@dataclass(frozen=True)
class AddedReviews:
    """What answers added to a training table.

    Attributes
    ----------
    table : LabelledTable
        The rows of the table, then the answered ones; with weights to fit by, and weights to judge by.
    model : str
        Name of the model in the queue.
    rejected, accepted : int
        Numbers of answered rows.
    weight, fit_weight : float
        Largest weight of an answered row, and the same after the cap.
    effective_rows : float
        Rows of equal weight that all rows count as.
    """

    table: LabelledTable
    model: str
    rejected: int
    accepted: int
    weight: float
    fit_weight: float
    effective_rows: float

    def facts(self) -> dict[str, Any]:
        """Return all but the table as plain values."""
        return {name: fact for name, fact in vars(self).items() if name != "table"}

    def describe(self) -> str:
        """Return the numbers in words."""
        cap = f", capped at {self.fit_weight:.3g}" if self.fit_weight < self.weight else ""
        return (
            f"{counted(self.rejected + self.accepted, 'answer')} of model {self.model}: {self.rejected:,} rejected "
            f"rows with weight 1, {self.accepted:,} accepted rows with weights up to {self.weight:.3g}{cap}; "
            f"all rows count as {self.effective_rows:,.0f} of equal weight"
        )


def add_reviews(table: LabelledTable, roles: Roles, path: Path, model: str | None) -> AddedReviews:
    """Add the answered rows of a queue to a training table.

    Rows of the table have weight 1, or their own. An answered row has the weight of the rows of the service that it
    represents; `recuse.reviews.learning.capped` caps the weights for the fit.

    Raises
    ------
    ValueError
        If the queue has no answers, or if the target or columns are not those of the table.
    """
    import numpy as np
    import pandas as pd

    from recuse.reviews.learning import answered_rows, capped, effective_rows

    found = answered_rows(path, model)
    if found.target not in (None, roles.target):
        raise ValueError(f"{path} has answers for the target {found.target}, got --target {roles.target}")
    own = np.ones(len(table)) if table.weights is None else table.weights.to_numpy(dtype=float)
    unit = float(own.mean())
    fit_weight = capped(found.weight, own / unit)
    y = pd.Series(found.answers, name=roles.target)
    joined = replace(
        table,
        X=pd.concat([table.X, _features(found, table.X, roles, path)], ignore_index=True),
        y=pd.concat([table.y, y], ignore_index=True),
        groups=None if table.groups is None else pd.concat([table.groups, _groups(found, roles)], ignore_index=True),
        weights=pd.Series(np.concatenate([own, unit * fit_weight])),
        judge_weights=pd.Series(np.concatenate([own, unit * found.weight])),
    )
    rejected = int(found.rejected.sum())
    largest, kept = float(found.weight.max()), float(fit_weight.max())
    effective = effective_rows(joined.weights.to_numpy())
    return AddedReviews(joined, found.model, rejected, len(found) - rejected, largest, kept, effective)


def _features(found: AnsweredRows, X: pd.DataFrame, roles: Roles, path: Path) -> pd.DataFrame:
    """Return the columns of the table for the answered rows, with the types of the table."""
    import pandas as pd

    absent = [name for name in X.columns if name not in found.rows.columns and name != roles.cost]
    if absent:
        raise ValueError(
            f"the rows of {path} have no column {absent[0]!r}, which the model did not read: leave it out by --drop"
        )
    columns = {
        name: pd.Series(found.cost) if name == roles.cost else _conformed(found.rows[name], X[name])
        for name in X.columns
    }
    return pd.DataFrame(columns)


def _conformed(cells: pd.Series[Any], example: pd.Series[Any]) -> pd.Series[Any]:
    """Return cells of JSON with the type of a column of the table; what it cannot hold becomes missing."""
    import pandas as pd

    from recuse.tabular.schema import Kind, kind_of

    if example.dtype.kind in "iuf":
        return pd.to_numeric(cells, errors="coerce")
    if example.dtype.kind == "M":
        times = pd.to_datetime(cells, errors="coerce", utc=True, format="ISO8601")
        zone = getattr(example.dtype, "tz", None)
        return times.dt.tz_localize(None) if zone is None else times.dt.tz_convert(zone)
    is_text = example.notna().any() and kind_of(example) is Kind.CATEGORY and example.dtype.kind != "b"
    if not is_text:
        return cells
    return cells.map(lambda cell: cell if isinstance(cell, str) or pd.isna(cell) else str(cell))


def _groups(found: AnsweredRows, roles: Roles) -> pd.Series[str]:
    """Return the groups of the answered rows; a row without one is a group of its own."""
    import pandas as pd

    if roles.groups in found.rows.columns:
        return found.rows[roles.groups].astype(str)
    return pd.Series([f"\0review {place}" for place in range(len(found))])
