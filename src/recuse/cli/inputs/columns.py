"""Columns of a user's table by their role: target, cost, groups, weights and features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from recuse.cli.printing.output import counted, short
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
    weights = None if roles.weights is None else _not_negative(rows, roles.weights, "weights column", source)
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
    columns = {name: _numbers(frame, name, "target", source) for name in names}
    for name, values in columns.items():
        _check_cells(values, values.abs() == math.inf, f"the target {name!r} of {source} must be finite")
    if len(columns) == 1:
        return columns[names[0]]
    import pandas as pd

    return pd.DataFrame(columns)


def check_column(frame: pd.DataFrame, name: str, role: str, source: str) -> None:
    """Raise an error that suggests similar names if a table does not have a column."""
    if name in frame.columns:
        return
    by_lower = {column.lower(): column for column in reversed(frame.columns)}
    near = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"it has the {'column' if len(frame.columns) == 1 else 'columns'} {short(list(frame.columns), 10)}"
    raise ValueError(f"the {role} {name!r} is not in {source}; {hint}")


def costs_of(frame: pd.DataFrame, name: str, source: str) -> pd.Series[float]:
    """Return a column as the costs of the rows."""
    return _not_negative(frame, name, "cost column", source)


def check_finite(frame: pd.DataFrame, names: Iterable[Any], source: str) -> None:
    """Raise an error if a column of numbers has an infinite value."""
    import pandas as pd

    from recuse.tabular.cells import Kind, kind_of, read_numbers

    for name in names:
        column = frame[name]
        if column.dtype.kind not in "iubMm" and column.notna().any() and kind_of(column) is Kind.NUMBER:
            values = pd.Series(read_numbers(column)[0], index=column.index)
            _check_cells(values, values.abs() == math.inf, f"column {name!r} of {source} must be finite")


def check_range(values: pd.Series[float], low: float, high: float, name: str) -> None:
    """Raise an error if a cost is outside the range that a model was fitted for."""
    _check_cells(values, (values < low) | (values > high), f"{name} must be from {low:g} to {high:g}, as in training")


def _not_negative(frame: pd.DataFrame, name: str, role: str, source: str) -> pd.Series[float]:
    values = _numbers(frame, name, role, source)
    wrong = ~((values >= 0) & (values < math.inf))
    _check_cells(values, wrong, f"the {role} {name!r} of {source} must hold numbers >= 0")
    return values


def _check_cells(cells: pd.Series[Any], wrong: pd.Series[bool], rule: str) -> None:
    """Raise an error that names the first wrong cell; rows count from 1, without the header."""
    if wrong.any():
        row = cells.index[wrong][0]
        cell = cells[row]
        shown = "a missing value" if cell != cell else f"{cell!r:.40}" if isinstance(cell, str) else f"{cell:g}"
        more = "" if wrong.sum() == 1 else f" and {wrong.sum() - 1:,} more"
        raise ValueError(f"{rule}, got {shown} in data row {row + 1:,}{more}")


def _numbers(frame: pd.DataFrame, name: str, role: str, source: str) -> pd.Series[float]:
    """Return a column as numbers, NaN for missing values and words such as "n/a"."""
    import pandas as pd

    from recuse.tabular.cells import MISSING_WORDS, Kind, kind_of, read_numbers

    column = frame[name]
    if column.dtype.kind == "M" or (column.notna().any() and kind_of(column) is Kind.DATE):
        raise ValueError(f"the {role} {name!r} of {source} must hold numbers, got dates")
    values, text = read_numbers(column)
    cells = column.astype(object)
    words = cells[text].map(lambda cell: str(cell).strip())
    wrong = ~words.str.lower().isin(MISSING_WORDS) if len(words) else words.astype(bool)
    _check_cells(words, wrong, f"the {role} {name!r} of {source} must hold numbers")
    return pd.Series(values, index=column.index, name=name)


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
