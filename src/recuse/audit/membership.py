"""Groups of rows: the levels of columns, bins of numbers and dates, and intersections of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.dataframes import aligned, is_frame, is_pandas
from recuse.tabular.codecs import MISSING_TIME, distinct_cells
from recuse.tabular.schema import Column, Kind, kind_of

__all__ = ["Levels", "RowGroup", "levels_of", "pooled", "read_groups"]

Flags = NDArray[np.bool_]
Codes = NDArray[np.intp]

MISSING = "missing"
OTHER = "other"
_MOST_LEVELS = 10  # numbers and dates with more distinct values are binned


@dataclass(frozen=True)
class Levels:
    """The level of every row in one column: positions in `labels`, the last of which may be that of missing values."""

    column: str
    codes: Codes
    labels: list[str]
    has_missing: bool = False


@dataclass(frozen=True)
class RowGroup:
    """The rows of one group; `pooled` is the number of small groups that it replaces, 0 if it is none of these."""

    column: str
    label: str
    rows: Flags
    pooled: int = 0


def read_groups(
    group: Any, index: pd.Index[Any] | None, n_rows: int, *, bins: int, min_rows: int, intersections: int
) -> list[RowGroup]:
    """Return the groups of all columns, and of the intersections of up to that many columns.

    Examples
    --------
    >>> found = read_groups(["a", "b", "a"], None, 3, bins=4, min_rows=1, intersections=1)
    >>> [(one.column, one.label, int(one.rows.sum())) for one in found]
    [('group', 'a', 2), ('group', 'b', 1)]
    """
    frame = _as_frame(aligned(group, index, "group"))
    if len(frame) != n_rows:
        raise ValueError(f"group must have one value for each of {n_rows} rows, got {len(frame)}")
    columns = [levels_of(frame.iloc[:, place], bins) for place in range(frame.shape[1])]
    found = [one for column in columns for one in pooled(column, min_rows)]
    for count in range(2, intersections + 1):
        for chosen in combinations(columns, count):
            found += pooled(_product(chosen), min_rows)
    return found


def levels_of(column: pd.Series[Any], bins: int) -> Levels:
    """Return the levels of a column: categories, or numbers and dates, binned by quantiles if they differ much.

    Examples
    --------
    >>> levels_of(pd.Series(["b", None, "a"], name="site"), bins=4)
    Levels(column='site', codes=array([1, 2, 0]), labels=['a', 'b', 'missing'], has_missing=True)
    >>> levels_of(pd.Series(np.arange(40), name="age"), bins=4).labels
    ['≤ 9.75', '(9.75, 19.5]', '(19.5, 29.2]', '> 29.2']
    """
    codes, labels = _known_levels(column, bins)
    present, places = np.unique(codes[codes >= 0], return_inverse=True)
    result = np.full(len(codes), len(present), np.intp)
    result[codes >= 0] = places
    names = [labels[place] for place in present]
    has_missing = bool((codes < 0).any())
    return Levels(str(column.name), result, [*names, _free(MISSING, names)] if has_missing else names, has_missing)


def pooled(levels: Levels, min_rows: int) -> Iterator[RowGroup]:
    """Return the groups of a column; those with fewer rows are one group, except for the missing values."""
    counts = np.bincount(levels.codes, minlength=len(levels.labels))
    small = counts < min_rows
    if levels.has_missing:
        small[-1] = False
    for place in np.flatnonzero(~small & (counts > 0)):
        yield RowGroup(levels.column, levels.labels[place], levels.codes == place)
    few = np.flatnonzero(small & (counts > 0))
    if len(few):
        yield RowGroup(levels.column, _free(OTHER, levels.labels), np.isin(levels.codes, few), len(few))


def _as_frame(values: Any) -> pd.DataFrame:
    if is_frame(values):
        if values.shape[1] == 0:
            raise ValueError("group must have at least one column, got none")
        return values
    if is_pandas(values):
        return pd.DataFrame({"group" if values.name is None else values.name: values})
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pd.DataFrame({f"group {place}": column for place, column in enumerate(values.T)})
    if np.ndim(values) == 0 or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise ValueError(f"group must have one value per row, got {values!r:.80}")
    return pd.DataFrame({"group": pd.Series(values)})


def _known_levels(column: pd.Series[Any], bins: int) -> tuple[Codes, list[str]]:
    """Return the position of each row's level, -1 where it is missing, and the names of the levels."""
    if column.isna().all():
        return np.full(len(column), -1, np.intp), []
    kind = kind_of(column)
    if kind is not Kind.CATEGORY:
        values = Column(column.name, kind).learned_from(column).codec.of_series(column).values
        if kind is Kind.NUMBER:
            return _binned(values, np.isnan(values), bins)
        return _binned(values.astype("datetime64[us]"), values == MISSING_TIME, bins)
    codes, cells = distinct_cells(column)
    names = [str(cell) for cell in cells]
    if len(set(names)) < len(names):  # 1 and "1", for example
        names = [repr(cell) for cell in cells]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return codes, names
    order = sorted(range(len(names)), key=names.__getitem__)
    places = np.append(np.argsort(order), -1)
    return places[codes], [names[place] for place in order]


def _binned(values: NDArray[Any], missing: Flags, bins: int) -> tuple[Codes, list[str]]:
    codes = np.full(len(values), -1, np.intp)
    known = values[~missing]
    distinct = np.unique(known)
    if len(distinct) <= _MOST_LEVELS:
        codes[~missing] = np.searchsorted(distinct, known)
        return codes, _texts(distinct)
    shares = np.arange(1, bins) / bins
    if values.dtype.kind == "M":
        edges = np.unique(np.quantile(known.astype(np.int64), shares, method="lower")).astype(values.dtype)
    else:
        edges = np.unique(np.quantile(known, shares))
    codes[~missing] = np.searchsorted(edges, known)
    ends = _texts(edges)
    between = [f"({low}, {high}]" for low, high in pairwise(ends)]
    return codes, [f"≤ {ends[0]}", *between, f"> {ends[-1]}"] if ends else ["all"]


def _texts(values: NDArray[Any]) -> list[str]:
    """Return short texts of sorted numbers or times, which differ."""
    if values.dtype.kind == "M":
        days = [str(day) for day in values.astype("datetime64[D]")]
        return days if len(set(days)) == len(days) else [str(time) for time in values]
    for digits in (3, 6, 17):
        texts = [f"{value:.{digits}g}" if abs(value) < 1e6 else f"{value:.{max(digits, 6)}g}" for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _product(columns: tuple[Levels, ...]) -> Levels:
    cells = np.stack([column.codes for column in columns], axis=1)
    present, codes = np.unique(cells, axis=0, return_inverse=True)
    labels = [" & ".join(column.labels[place] for column, place in zip(columns, row, strict=True)) for row in present]
    return Levels(" & ".join(column.column for column in columns), codes.reshape(-1).astype(np.intp), labels)


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name = f"({name})"
    return name
