"""Checks of the columns of a table, with errors that name the column and the row of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from recuse.phrases import short

if TYPE_CHECKING:
    import pandas as pd


def check_column(frame: pd.DataFrame, name: str, role: str, source: str) -> None:
    """Raise an error that suggests similar names if a table does not have a column."""
    check_name(list(frame.columns), name, role, source)


def check_name(names: Sequence[str], name: str, role: str, source: str) -> None:
    """Raise an error that suggests similar names if a name is not among those of the columns."""
    if name in names:
        return
    by_lower = {column.lower(): column for column in reversed(names)}
    near = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"it has the {'column' if len(names) == 1 else 'columns'} {short(names, 10)}"
    raise ValueError(f"the {role} {name!r} is not in {source}; {hint}")


def costs_of(frame: pd.DataFrame, name: str, source: str) -> pd.Series[float]:
    """Return a column as the costs of the rows."""
    return not_negative(frame, name, "cost column", source)


def check_finite(frame: pd.DataFrame, names: Iterable[Any], source: str) -> None:
    """Raise an error if a column of numbers has an infinite value."""
    import pandas as pd

    from recuse.tabular.codecs import NumberCodec
    from recuse.tabular.schema import Kind, kind_of

    for name in names:
        column = frame[name]
        if column.dtype.kind not in "iubMm" and column.notna().any() and kind_of(column) is Kind.NUMBER:
            values = pd.Series(NumberCodec().of_series(column).values, index=column.index)
            check_cells(values, values.abs() == math.inf, f"column {name!r} of {source} must be finite")


def check_range(values: pd.Series[float], low: float, high: float, name: str) -> None:
    """Raise an error if a cost is outside the range that a model was fitted for."""
    check_cells(values, (values < low) | (values > high), f"{name} must be from {low:g} to {high:g}, as in training")


def not_negative(frame: pd.DataFrame, name: str, role: str, source: str) -> pd.Series[float]:
    """Return a column as finite numbers >= 0."""
    values = numbers_of(frame, name, role, source)
    wrong = ~((values >= 0) & (values < math.inf))
    check_cells(values, wrong, f"the {role} {name!r} of {source} must hold numbers >= 0")
    return values


def check_cells(cells: pd.Series[Any], wrong: pd.Series[bool], rule: str) -> None:
    """Raise an error that names the first wrong cell."""
    if wrong.any():
        from recuse.dataframes import row_name

        row = int(wrong.to_numpy().argmax())
        cell = cells.iloc[row]
        shown = "a missing value" if cell != cell else f"{cell!r:.40}" if isinstance(cell, str) else f"{cell:g}"
        more = "" if wrong.sum() == 1 else f" and {wrong.sum() - 1:,} more"
        raise ValueError(f"{rule}, got {shown} at {row_name(row, cells.index)}{more}")


def numbers_of(frame: pd.DataFrame, name: str, role: str, source: str) -> pd.Series[float]:
    """Return a column as numbers, NaN for missing values and words such as "n/a"."""
    import pandas as pd

    from recuse.tabular.codecs import NumberCodec
    from recuse.tabular.schema import Kind, kind_of

    column = frame[name]
    if column.dtype.kind == "M" or (column.notna().any() and kind_of(column) is Kind.DATE):
        raise ValueError(f"the {role} {name!r} of {source} must hold numbers, got dates")
    cells = NumberCodec().of_series(column)
    words = column.astype(object)[cells.unknown].map(lambda cell: str(cell).strip())
    check_cells(words, words.notna(), f"the {role} {name!r} of {source} must hold numbers")
    return pd.Series(cells.values, index=column.index, name=name)
