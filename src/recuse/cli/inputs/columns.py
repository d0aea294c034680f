"""Columns of a user's table by their role: target, cost, groups, weights and features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recuse.phrases import counted, short
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

__all__ = [
    "LabelledTable",
    "Roles",
    "check_column",
    "check_finite",
    "check_range",
    "costs_of",
    "kinds_of",
    "labelled_table",
    "row_counters",
    "table_to_test",
    "target_of",
    "text_columns",
]

_ROLES = {"targets": "--target", "cost": "--cost", "groups": "--groups", "weights": "--weights", "dropped": "--drop"}


@dataclass(frozen=True)
class Roles:
    """The names of the columns that are not features."""

    targets: tuple[str, ...]
    cost: str | None = None
    groups: str | None = None
    weights: str | None = None
    dropped: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise an error if a column has two roles."""
        if len(set(self.targets)) < len(self.targets):
            raise UsageError(f"--target must be given once for each column, got {short(list(self.targets))}")
        found: dict[str, str] = {}
        for role, option in _ROLES.items():
            names = getattr(self, role)
            for name in dict.fromkeys([names] if isinstance(names, str) else names or ()):
                if name in found:
                    raise UsageError(f"column {name!r} must have one role, got {found[name]} and {option}")
                found[name] = option


@dataclass(frozen=True)
class LabelledTable:
    """The rows with a target.

    Attributes
    ----------
    X : DataFrame
        The features and, if there is one, the column of the cost.
    y : Series or DataFrame
    groups, weights : Series or None
    left_out : int
        Number of rows without a target.
    judge_weights : Series or None
        Weights to judge a model by, if they are not those to fit it by.
    """

    X: pd.DataFrame
    y: Any
    groups: Any
    weights: Any
    left_out: int
    judge_weights: Any = None

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
        groups, weights, judge = (
            None if column is None else column[rows] for column in (self.groups, self.weights, self.judge_weights)
        )
        return LabelledTable(self.X[rows], self.y[rows], groups, weights, self.left_out, judge)


def labelled_table(frame: pd.DataFrame, roles: Roles, source: str) -> LabelledTable:
    """Divide a table by the roles of its columns, and leave out rows without a target."""
    for role, name in (("cost", roles.cost), ("groups", roles.groups), ("weights", roles.weights)):
        if name is not None:
            check_column(frame, name, f"{role} column", source)
    for name in roles.dropped:
        check_column(frame, name, "column to drop", source)
    y = target_of(frame, roles.targets, source)
    known = y.notna() if y.ndim == 1 else y.notna().all(axis=1)
    if not known.any():
        raise ValueError(f"no row of {source} has a target in {short(list(roles.targets))}")
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
    return LabelledTable(X, y[known], groups, weights, int((~known).sum()))


def table_to_test(frame: pd.DataFrame, roles: Roles, source: str) -> LabelledTable:
    """Divide a table to test on, which needs no columns of groups and no columns that are dropped."""
    given = (*roles.dropped, *([] if roles.groups is None else [roles.groups]))
    unused = tuple(name for name in given if name in frame.columns)
    return labelled_table(frame, replace(roles, groups=None, dropped=unused), source)


def target_of(frame: pd.DataFrame, names: Sequence[str], source: str) -> Any:
    """Return the target as a Series, or several targets as a DataFrame; NaN where it is missing."""
    for name in names:
        check_column(frame, name, "target", source)
    columns = {name: numbers_of(frame, name, "target", source) for name in names}
    for name, values in columns.items():
        check_cells(values, values.abs() == math.inf, f"the target {name!r} of {source} must be finite")
    if len(columns) == 1:
        return columns[names[0]]
    import pandas as pd

    return pd.DataFrame(columns)


def _complete(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    gaps = int(column.isna().sum())
    if gaps:
        raise ValueError(f"the groups column {column.name!r} of {source} has {counted(gaps, 'missing value')}")
    return column.astype(str)


def kinds_of(frame: pd.DataFrame) -> dict[str, int]:
    """Count the columns of each kind, in words."""
    from recuse.tabular.cells import kind_of

    counts: dict[str, int] = {}
    for name in frame.columns:
        kind = kind_of(frame[name]).value if frame[name].notna().any() else "empty"
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def row_counters(frame: pd.DataFrame) -> list[str]:
    """Return the columns of whole numbers that grow by one from row to row."""
    whole = [name for name in frame.columns if frame[name].dtype.kind in "iu"]
    return [name for name in whole if len(frame) > 2 and (frame[name].diff().iloc[1:] == 1).all()]


def text_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are neither numbers nor dates."""
    return [name for name in frame.columns if frame[name].dtype.kind not in "iufcMm"]
