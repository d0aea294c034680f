"""Reading of cells as numbers, times or categories, from plain values, texts, and columns of pandas and Arrow.

A cell has the same value and the same state in every form: the number 1.5, the text "1.5" of a CSV file, and both as
cells of a column. Pandas is imported when a column of it is read.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import MISSING_WORDS

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Scalar = tuple[Any, int]  # the value and the state of one cell

# The number that stands for NaT in numpy.
MISSING_TIME = -(2**63)

_ISO_TIME = re.compile(r"(?!0000)\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", re.ASCII)
# Dates start with a year and a hyphen; pandas would also take texts such as "-1" and "2020" for years.
_YEAR = re.compile(r"\d{4}-", re.ASCII)
# Nanoseconds are dropped, since pandas has no years before 1677 and after 2262 with them.
_NANOSECONDS = re.compile(r"(?<=[.,]\d{6})\d+")
_ZONE = re.compile(r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TRUTH = {"true": 1.0, "false": 0.0}


class State(IntEnum):
    """What a cell holds: a value, nothing, or something that the column cannot hold."""

    KNOWN = 0
    MISSING = 1
    UNKNOWN = 2


_KNOWN, _MISSING, _UNKNOWN = int(State.KNOWN), int(State.MISSING), int(State.UNKNOWN)
_NO_NUMBER: Scalar = (math.nan, _MISSING)
_NO_TIME: Scalar = (MISSING_TIME, _MISSING)
_NO_LEVEL: Scalar = (-1, _MISSING)


@dataclass(frozen=True)
class Dialect:
    """How the texts of a column are written.

    Attributes
    ----------
    decimal : str
        The decimal mark of numbers.
    thousands : str
        The mark between groups of three digits; "" if there is none.
    unit : str
        A text behind each number, such as "kg".
    date_order : str
        The order of year, month and day.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    date_order: str = "ymd"

    def number_of(self, text: str) -> float | None:
        """Return the number that a text means, NaN for "nan", or None.

        Examples
        --------
        >>> Dialect().number_of(" 1.5 "), Dialect(decimal=",").number_of("1,5"), Dialect().number_of("1_000")
        (1.5, 1.5, None)
        """
        if self.decimal != "." or self.thousands or self.unit:
            text = text.strip().removesuffix(self.unit)
            text = (text.replace(self.thousands, "") if self.thousands else text).replace(self.decimal, ".")
        if "_" in text:  # a number in Python only
            return None
        try:
            return float(text)
        except ValueError:
            return _TRUTH.get(text.strip().lower())


PLAIN = Dialect()


class Cells(NamedTuple):
    """The cells of a column.

    Attributes
    ----------
    values : ndarray of shape (row,)
        Numbers, NaN where there is none; microseconds since 1970, `MISSING_TIME` where there is none; or positions
        among the levels of a category, -1 where there is none.
    state : ndarray of int8 of shape (row,)
        The `State` of each cell.
    """

    values: NDArray[Any]
    state: NDArray[np.int8]

    @property
    def unknown(self) -> Flags:
        """Where a cell holds something that the column cannot hold, such as a new category."""
        return np.asarray(self.state == _UNKNOWN)

    @property
    def missing(self) -> Flags:
        """Where a cell holds nothing."""
        return np.asarray(self.state == _MISSING)


def _of_numbers(values: Floats) -> Cells:
    return Cells(values, np.isnan(values).view(np.int8))  # NaN is missing


def _of_scalars(scalars: Sequence[Scalar], dtype: Any) -> Cells:
    values, state = zip(*scalars, strict=True) if scalars else ((), ())
    return Cells(np.array(values, dtype), np.array(state, np.int8))


@dataclass(frozen=True)
class NumberCodec:
    """Reads numbers; durations are seconds, times of day seconds since midnight, and true and false are 1 and 0.

    Parameters
    ----------
    texts_are_missing : bool, default=False
        Whether every text without a number is a missing value, as in a column that had such texts in training.
    dialect : Dialect

    Examples
    --------
    >>> codec = NumberCodec()
    >>> codec.of_scalar("1.5"), codec.of_scalar("n/a"), codec.of_scalar("large")
    ((1.5, 0), (nan, 1), (nan, 2))
    """

    texts_are_missing: bool = False
    dialect: Dialect = PLAIN

    def of_scalar(self, cell: Any) -> Scalar:
        """Return the value and the state of one cell."""
        kind = type(cell)
        if kind is float:
            return (cell, _KNOWN) if cell == cell else _NO_NUMBER
        if kind is int or kind is bool:
            return float(cell), _KNOWN
        if kind is str:
            return self._of_word(cell)
        if _is_gap(cell):
            return _NO_NUMBER
        value = _number_of_object(cell)
        if value is None:
            return math.nan, _UNKNOWN
        return (value, _KNOWN) if value == value else _NO_NUMBER

    def _of_word(self, text: str) -> Scalar:
        value = self.dialect.number_of(text)
        if value is not None:
            return (value, _KNOWN) if value == value else _NO_NUMBER
        if self.texts_are_missing or text.strip().lower() in MISSING_WORDS:
            return _NO_NUMBER
        return math.nan, _UNKNOWN

    def of_text(self, texts: Sequence[str | None]) -> Cells:
        """Return the cells of texts, where None is a gap."""
        if self.dialect == PLAIN and not any(text is not None and "_" in text for text in texts):
            try:
                return _of_numbers(np.array(texts, dtype=object).astype(np.float64))
            except ValueError:  # a text that is no number
                pass
        return _of_scalars([_NO_NUMBER if text is None else self._of_word(text) for text in texts], np.float64)

    def of_series(self, column: pd.Series[Any]) -> Cells:
        """Return the cells of a column of pandas; raise a ValueError for a column of dates or complex numbers."""
        import pandas as pd
        from pandas.api import types

        dtype = column.dtype
        if dtype.kind in "Mc" or isinstance(dtype, pd.PeriodDtype):
            raise ValueError(f"column {column.name!r} must hold numbers as in training, got {dtype}")
        if dtype.kind == "m":
            return _of_numbers(column.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan))
        if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
            return _of_numbers(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if types.is_string_dtype(dtype) and not types.is_object_dtype(dtype):
            return self.of_text(column.astype(object).where(column.notna(), None).tolist())
        cells = column.to_numpy(dtype=object)
        return _of_scalars([self.of_scalar(cell) for cell in cells], np.float64)

    def of_arrow(self, column: Any) -> Cells:
        """Return the cells of a column of Arrow."""
        from pyarrow import float64, types

        if not (types.is_integer(column.type) or types.is_floating(column.type)):
            return self.of_series(_series_of_arrow(column))
        return _of_numbers(_whole(column.cast(float64(), safe=False)).to_numpy(zero_copy_only=False))


def _number_of_object(cell: Any) -> float | None:
    """Return the number that an object stands for, or None."""
    if isinstance(cell, np.generic) and cell.dtype.kind in "biuf":
        return float(cell)
    if isinstance(cell, dt.timedelta):
        return cell.total_seconds()
    if isinstance(cell, np.timedelta64):
        return float(cell / np.timedelta64(1, "s"))
    if isinstance(cell, dt.time):
        return cell.hour * 3600 + cell.minute * 60 + cell.second + cell.microsecond / 1e6
    return float(cell) if isinstance(cell, int | float | Decimal) else None


@dataclass(frozen=True)
class DateCodec:
    """Reads dates and times as microseconds since 1970; those with a zone are converted to local time.

    Parameters
    ----------
    zone : str or None
        The local time zone; UTC if None.
    dialect : Dialect

    Examples
    --------
    >>> codec = DateCodec()
    >>> codec.of_scalar("1970-01-02"), codec.of_scalar("soon")[1] == State.UNKNOWN
    ((86400000000, 0), True)
    """

    zone: str | None = None
    dialect: Dialect = PLAIN

    def of_scalar(self, cell: Any) -> Scalar:
        """Return the value and the state of one cell."""
        if type(cell) is str and _ISO_TIME.fullmatch(cell):
            try:
                passed = dt.datetime.fromisoformat(cell).replace(tzinfo=dt.UTC) - _EPOCH
            except ValueError:  # such as the 30th of February
                return MISSING_TIME, _UNKNOWN
            return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds, _KNOWN
        if _is_gap(cell) or (type(cell) is str and cell.strip().lower() in MISSING_WORDS):
            return _NO_TIME
        if type(cell) in (bool, int, float):
            return MISSING_TIME, _UNKNOWN
        import pandas as pd

        values, state = self._of_objects(pd.Series([cell], dtype=object))
        return int(values[0]), int(state[0])

    def of_text(self, texts: Sequence[str | None]) -> Cells:
        """Return the cells of texts, where None is a gap."""
        if all(text is None or _ISO_TIME.fullmatch(text) for text in texts):
            return _of_scalars([self.of_scalar(text) for text in texts], np.int64)
        import pandas as pd

        return self._of_objects(pd.Series(texts, dtype=object))

    def of_series(self, column: pd.Series[Any]) -> Cells:
        """Return the cells of a column of pandas; raise a ValueError for a column of numbers."""
        import pandas as pd
        from pandas.api import types

        dtype = column.dtype
        if isinstance(dtype, pd.DatetimeTZDtype) or (isinstance(dtype, np.dtype) and dtype.kind == "M"):
            return _of_times(self._local(column))
        if column.isna().all():
            return Cells(np.full(len(column), MISSING_TIME), np.full(len(column), _MISSING, np.int8))
        if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype) or dtype.kind == "m":
            raise ValueError(f"column {column.name!r} must hold dates or times as in training, got {dtype}")
        return self._of_objects(column.astype(object))

    def of_arrow(self, column: Any) -> Cells:
        """Return the cells of a column of Arrow."""
        from pyarrow import types

        if not types.is_timestamp(column.type) or column.type.tz is not None:
            return self.of_series(_series_of_arrow(column))
        return _of_times(_whole(column).to_numpy(zero_copy_only=False).astype("datetime64[us]"))

    def _of_objects(self, cells: pd.Series[Any]) -> Cells:
        import pandas as pd

        plain = cells.map(_plain_date, na_action="ignore")
        moments: pd.Series[Any] = pd.to_datetime(plain, errors="coerce", utc=True, format="ISO8601")
        times = moments.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
        zoned = np.array([_has_zone(cell) for cell in plain], np.bool_)
        if self.zone is not None and zoned.any():
            times = np.where(zoned, self._local(moments), times)
        read = _of_times(times)
        words = [type(cell) is str and cell.strip().lower() in MISSING_WORDS for cell in cells]
        gaps = cells.isna().to_numpy() | np.array(words, np.bool_)
        return Cells(read.values, np.where(gaps, _MISSING, read.state * _UNKNOWN).astype(np.int8))

    def _local(self, times: pd.Series[Any]) -> NDArray[np.datetime64]:
        if times.dt.tz is not None:
            times = times.dt.tz_convert(self.zone or "UTC").dt.tz_localize(None)
        return times.to_numpy(dtype="datetime64[us]")


def _of_times(times: NDArray[np.datetime64]) -> Cells:
    return Cells(times.astype("datetime64[us]").astype(np.int64), np.isnat(times).astype(np.int8))


def _plain_date(cell: Any) -> Any:
    """Return the cell in a form that pandas parses, or None if it is not a date."""
    import pandas as pd

    if isinstance(cell, pd.Period):
        return cell.to_timestamp()
    if isinstance(cell, str):
        return _NANOSECONDS.sub("", cell) if _YEAR.match(cell.strip()) else None
    return cell if isinstance(cell, dt.date | np.datetime64) else None


def _has_zone(cell: Any) -> bool:
    return getattr(cell, "tzinfo", None) is not None or (type(cell) is str and _ZONE.search(cell) is not None)


def seconds_of(times: NDArray[np.int64]) -> Floats:
    """Return seconds since 1970 of the values of a `DateCodec`, NaN where there is none.

    Examples
    --------
    >>> seconds_of(np.array([1_500_000, MISSING_TIME]))
    array([1.5, nan])
    """
    return np.where(times == MISSING_TIME, np.nan, times / 1e6)


@dataclass(frozen=True)
class Level:
    """A category.

    Attributes
    ----------
    text : str
        The text of the category, as `cell_text` gives it.
    value : str, int, float, bool or None
        The value in the table; None for one that JSON does not have, such as an interval.
    seen : bool
        False for a category that was declared but has no training row.
    """

    text: str
    value: str | int | float | bool | None = None
    seen: bool = True


@dataclass(frozen=True)
class CategoryCodec:
    """Reads categories as positions among levels, which are found by their texts.

    Where all levels are numbers or truth values, texts of equal numbers and words in any case are the same category.

    Parameters
    ----------
    levels : tuple of Level

    Examples
    --------
    >>> codec = CategoryCodec((Level("eu", "eu"), Level("1", 1)))
    >>> codec.of_scalar("eu"), codec.of_scalar(1.0), codec.of_scalar("NA"), codec.of_scalar("mars")
    ((0, 0), (1, 0), (-1, 1), (-1, 2))
    """

    levels: tuple[Level, ...] = field(repr=False)

    @cached_property
    def _scalars(self) -> Mapping[str, Scalar]:
        states = [_KNOWN if level.seen else _UNKNOWN for level in self.levels]
        return {
            level.text: (place, state) for place, (level, state) in enumerate(zip(self.levels, states, strict=True))
        }

    @cached_property
    def _truth(self) -> Mapping[float, str]:
        """The texts of truth values by their numbers, if no level is anything else."""
        truths = all(isinstance(level.value, bool) for level in self.levels)
        return {float(level.value or 0): level.text for level in self.levels} if truths else {}

    @cached_property
    def _numeric(self) -> bool:
        """Whether all levels are numbers or truth values."""
        return bool(self.levels) and all(isinstance(level.value, int | float) for level in self.levels)

    def of_scalar(self, cell: Any) -> Scalar:
        """Return the position, -1 if there is none, and the state of one cell; a level without rows is unknown."""
        kind = type(cell)
        if kind is str:
            text = cell
        elif kind is int:
            text = str(cell)
        elif _is_gap(cell):
            return _NO_LEVEL
        else:
            text = cell_text(cell)
        found = self._scalars.get(text) or self._scalars.get(self.canonical(text))
        if found is not None:
            return found
        return _NO_LEVEL if text.strip().lower() in MISSING_WORDS else (-1, _UNKNOWN)

    def canonical(self, text: str) -> str:
        """Return the text of the level that a text may mean, without spaces around it."""
        text = text.strip()
        number = PLAIN.number_of(text) if self._numeric else None
        if number is None:
            return text
        return self._truth.get(number, cell_text(number))

    def of_text(self, texts: Sequence[str | None]) -> Cells:
        """Return the cells of texts, where None is a gap."""
        known = {text: self.of_scalar(text) for text in dict.fromkeys(texts)}
        return _of_scalars([known[text] for text in texts], np.intp)

    def of_series(self, column: pd.Series[Any]) -> Cells:
        """Return the cells of a column of pandas."""
        codes, distinct = distinct_cells(column)
        if column.dtype == np.dtype(object) and any(type(cell) is not str and cell in (0, 1) for cell in distinct):
            return _of_scalars([self.of_scalar(cell) for cell in column], np.intp)  # pandas takes True for 1
        return self._taken(codes, distinct)

    def of_arrow(self, column: Any) -> Cells:
        """Return the cells of a column of Arrow."""
        from pyarrow import types

        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if not (types.is_string(kind) or types.is_large_string(kind)):
            return self.of_series(_series_of_arrow(column))
        encoded = _whole(column if types.is_dictionary(column.type) else column.dictionary_encode())
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return self._taken(codes, encoded.dictionary.to_pylist())

    def _taken(self, codes: NDArray[Any], distinct: Sequence[Any]) -> Cells:
        """Return the cells of codes, -1 for gaps, of distinct cells."""
        read = _of_scalars([*map(self.of_scalar, distinct), _NO_LEVEL], np.intp)
        return Cells(read.values[codes], read.state[codes])


def cell_text(cell: Any) -> str:
    """Return the text of a category; equal values have equal texts.

    Examples
    --------
    >>> cell_text("eu"), cell_text(3), cell_text(3.0), cell_text(True), cell_text(Decimal("1.00"))
    ('eu', '3', '3', 'True', '1')
    """
    value = cell.item() if isinstance(cell, np.generic) and not isinstance(cell, np.datetime64) else cell
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return (
            str(int(value)) if value == int(value) else str(value.normalize() if isinstance(value, Decimal) else value)
        )
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).isoformat()
    return str(value)


def distinct_cells(column: pd.Series[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the position of each row's value among the distinct values, -1 if it is missing, and the distinct values.

    Examples
    --------
    >>> import pandas as pd
    >>> distinct_cells(pd.Series(["b", None, "a", "b"]))
    (array([ 0, -1,  1,  0]), ['b', 'a'])
    """
    import pandas as pd

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


def _is_gap(cell: Any) -> bool:
    """Whether a cell is None, NaN, or a missing value of pandas."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, float | Decimal | np.floating) and math.isnan(cell)


def _whole(column: Any) -> Any:
    """Return the one array of a chunked array."""
    if not hasattr(column, "chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _series_of_arrow(column: Any) -> pd.Series[Any]:
    from pyarrow import types

    if types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks):
        column = column.cast(column.type.value_type)  # pandas has no missing category
    series: pd.Series[Any] = column.to_pandas()
    return series
