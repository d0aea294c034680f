"""Conversion of pandas columns of any dtype to numbers, dates or categories."""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from recuse.dataframes import row_name

__all__ = [
    "MISSING_WORDS",
    "Kind",
    "Times",
    "check_finite",
    "kind_of",
    "read_dates",
    "read_levels",
    "read_numbers",
    "zone_of",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Times = NDArray[np.datetime64]

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_LEADING_ZERO = re.compile(r"[+-]?0\d")
MISSING_WORDS = {"", "-", "--", ".", "?", "n/a", "#n/a", "na", "nan", "nil", "none", "null", "missing", "unknown"}

_MIN_NUMBERS = 0.9  # minimum share of numbers in a column of text that is read as numbers
_MIN_NUMBERS_CLEAR = 0.5  # the same if some cells are not text, or all other texts mean "missing"


class Kind(StrEnum):
    """The kinds of columns, which are encoded differently."""

    NUMBER = "numbers"
    DATE = "dates or times"
    CATEGORY = "categories"


_KIND_OF_OBJECTS = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), Kind.NUMBER),
    **dict.fromkeys(("timedelta", "timedelta64", "time"), Kind.NUMBER),
    **dict.fromkeys(("date", "datetime", "datetime64", "period"), Kind.DATE),
    **dict.fromkeys(("boolean", "interval", "bytes"), Kind.CATEGORY),
}


def kind_of(column: pd.Series[Any]) -> Kind:
    """Return the kind of a column with at least one value.

    A column of text is read as dates if every cell is an ISO date. It is read as numbers if all cells are numbers and
    some are not integers, or if most cells are numbers and the others are text such as "n/a". A column of integers as
    text, or with leading zeros, remains categories, since such numbers are usually codes.

    Examples
    --------
    >>> kind_of(pd.Series(["1.5", "n/a", "2.5"])).value, kind_of(pd.Series(["1", "2"])).value
    ('numbers', 'categories')
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) or types.is_bool_dtype(dtype):
        return Kind.CATEGORY
    if isinstance(dtype, pd.PeriodDtype) or dtype.kind == "M":
        return Kind.DATE
    if dtype.kind == "c":
        raise _complex_error(column)
    if dtype.kind == "m" or types.is_numeric_dtype(dtype):
        return Kind.NUMBER
    return _kind_of_objects(column)


def _kind_of_objects(column: pd.Series[Any]) -> Kind:
    codes, cells = read_levels(column)
    inferred = types.infer_dtype(cells, skipna=True)
    if inferred == "complex":
        raise _complex_error(column)
    if inferred in _KIND_OF_OBJECTS:
        return _KIND_OF_OBJECTS[inferred]
    if inferred == "string" and all(_ISO_DATE.fullmatch(cell) for cell in cells):
        parsed = pd.to_datetime(pd.Series(cells), format="ISO8601", errors="coerce", utc=True)
        return Kind.DATE if parsed.notna().all() else Kind.CATEGORY
    count = np.bincount(codes[codes >= 0], minlength=len(cells))
    return Kind.NUMBER if _are_numbers(cells, count) else Kind.CATEGORY


def _are_numbers(cells: list[Any], count: NDArray[np.intp]) -> bool:
    """Whether distinct cells, which occur in `count` rows each, are numbers except for a few texts."""
    numbers = _parsed(pd.Series(cells, dtype=object))
    known = ~np.isnan(numbers)
    if not known.any() or any(isinstance(cell, str) and _LEADING_ZERO.match(cell.strip()) for cell in cells):
        return False
    all_text = all(isinstance(cell, str) for cell in cells)
    if known.all():
        return not all_text or bool((np.floor(numbers) != numbers).any())
    strays = {str(cell).strip().lower() for cell, number in zip(cells, known, strict=True) if not number}
    least = _MIN_NUMBERS_CLEAR if not all_text or strays <= MISSING_WORDS else _MIN_NUMBERS
    return bool(count[known].sum() >= least * count.sum())


def read_numbers(column: pd.Series[Any]) -> tuple[Floats, Flags]:
    """Return the numbers of a column, NaN for other cells, and a mask of the cells that hold something else.

    Durations are converted to seconds, and times of day to seconds since midnight.

    Examples
    --------
    >>> read_numbers(pd.Series([1.5, None, "n/a"], dtype=object))
    (array([1.5, nan, nan]), array([False, False,  True]))
    """
    dtype = column.dtype
    if dtype.kind in "Mc" or isinstance(dtype, pd.PeriodDtype):
        raise ValueError(f"column {column.name!r} must hold numbers as in training, got {dtype}")
    if dtype.kind == "m":
        seconds: Floats = column.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan)
        return seconds, np.zeros(len(column), np.bool_)
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.zeros(len(column), np.bool_)
    cells = column.astype(object)
    values = _parsed(cells)
    return values, np.isnan(values) & cells.notna().to_numpy()


def _parsed(cells: pd.Series[Any]) -> Floats:
    inferred = types.infer_dtype(cells, skipna=True)
    if inferred in ("timedelta", "timedelta64"):
        return np.asarray(pd.to_timedelta(cells).dt.total_seconds(), dtype=np.float64)
    if inferred == "time":
        cells = cells.map(_seconds_of_day, na_action="ignore")
    try:
        return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    except TypeError:  # tuples, intervals and other objects among the cells
        plain = cells.map(lambda cell: cell if isinstance(cell, str | bool | int | float) else np.nan)
        return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _seconds_of_day(time: dt.time) -> float:
    return time.hour * 3600 + time.minute * 60 + time.second + time.microsecond / 1e6


def check_finite(column: pd.Series[Any], values: Floats) -> None:
    """Raise an error that names the column and the row if one of its values is infinite.

    Examples
    --------
    >>> check_finite(pd.Series([1.0, np.inf], name="weight"), np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ValueError: column 'weight' must be finite, got inf at row 1
    """
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        place = row_name(row, column.index)
        raise ValueError(f"column {column.name!r} must be finite, got {values[row]} at {place}")


def read_dates(column: pd.Series[Any], zone: str | None) -> tuple[Times, Flags]:
    """Return the local times of a column in a time zone, NaT for other cells, and a mask of cells that are not dates.

    Times without a zone are not converted.

    Examples
    --------
    >>> read_dates(pd.Series(["2024-05-01", None, "soon"]), None)
    (array(['2024-05-01T00:00:00.000000', 'NaT', 'NaT'], dtype='datetime64[us]'), array([False, False,  True]))
    """
    gaps = column.isna().to_numpy()
    times = _parsed_dates(column)
    if times.dt.tz is not None:
        times = times.dt.tz_convert(zone or "UTC").dt.tz_localize(None)
    values = times.to_numpy(dtype="datetime64[us]")
    return values, np.isnat(values) & ~gaps


def zone_of(column: pd.Series[Any]) -> str | None:
    """Return the name of the time zone in the dtype of a column of dates, or None.

    Examples
    --------
    >>> zone_of(pd.Series(pd.to_datetime(["2024-05-01"]).tz_localize("Europe/Berlin")))
    'Europe/Berlin'
    """
    dtype = column.dtype
    zone = getattr(dtype.pyarrow_dtype, "tz", None) if isinstance(dtype, pd.ArrowDtype) else getattr(dtype, "tz", None)
    return None if zone is None else str(zone)


def _parsed_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    dtype = column.dtype
    if isinstance(dtype, pd.DatetimeTZDtype) or (isinstance(dtype, np.dtype) and dtype.kind == "M"):
        return column
    if column.isna().all():
        return pd.Series(np.full(len(column), np.datetime64("NaT", "us")))
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype) or dtype.kind == "m":
        raise ValueError(f"column {column.name!r} must hold dates or times as in training, got {dtype}")
    cells = column.astype(object).map(_plain_date, na_action="ignore")
    times: pd.Series[Any] = pd.to_datetime(cells, errors="coerce", utc=True, format="ISO8601")
    return times if _has_zone(cells) else times.dt.tz_localize(None)


def _plain_date(cell: Any) -> Any:
    """Return the cell in a form that pandas parses, or None if it is not a date."""
    if isinstance(cell, pd.Period):
        return cell.to_timestamp()
    return cell if isinstance(cell, str | dt.date | np.datetime64) else None


def _has_zone(cells: pd.Series[Any]) -> bool:
    dates = cells.dropna()
    if len(dates) == 0:
        return False
    first = dates.iloc[0]
    return getattr(first, "tzinfo", None) is not None or bool(re.search(r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$", str(first)))


def read_levels(column: pd.Series[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the position of each row's value among the distinct values, -1 if it is missing, and the distinct values.

    Examples
    --------
    >>> read_levels(pd.Series(["b", None, "a", "b"]))
    (array([ 0, -1,  1,  0]), ['b', 'a'])
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes, dtype=np.intp), list(column.cat.categories)
    try:
        codes, levels = pd.factorize(column.astype(object).to_numpy())
    except TypeError as error:  # lists, dicts and other values that are not hashable
        example = column.dropna().iloc[0]
        raise ValueError(
            f"column {column.name!r} must hold numbers, text, dates or categories, got {example!r:.80}"
        ) from error
    return np.asarray(codes, dtype=np.intp), [
        level.item() if isinstance(level, np.generic) else level for level in levels
    ]


def _complex_error(column: pd.Series[Any]) -> ValueError:
    return ValueError(
        f"column {column.name!r} must hold numbers, text, dates or categories, got complex numbers; "
        "split them into two columns of real numbers"
    )
