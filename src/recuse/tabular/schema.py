"""What is known of the columns of a training table: kinds, categories, ranges, gaps and zones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recuse.tabular.codecs import (
    PLAIN,
    CategoryCodec,
    Cells,
    DateCodec,
    Dialect,
    Level,
    NumberCodec,
    State,
    cell_text,
    distinct_cells,
    seconds_of,
)

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Unseen = Literal["novel", "error", "keep"]

# Name of the input of a graph for a table without column names.
MATRIX = "X"
# A column with more texts, which differ in most rows, identifies rows.
_MOST_TEXTS = 50
_SHOWN_LEVELS = 10
# A column of text is read as numbers if at least this share of its cells are numbers.
_MIN_NUMBERS = 0.9
# The share if some cells are not text, or all other texts mean "missing".
_MIN_NUMBERS_CLEAR = 0.5
_TEXT_IS_NEW = "had only numbers in training and now holds"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_LEADING_ZERO = re.compile(r"[+-]?0\d")


class Kind(StrEnum):
    """The kinds of columns, which are encoded differently."""

    NUMBER = "number"
    DATE = "date"
    CATEGORY = "category"
    UNUSED = "unused"


_KIND_OF_OBJECTS = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), Kind.NUMBER),
    **dict.fromkeys(("timedelta", "timedelta64", "time"), Kind.NUMBER),
    **dict.fromkeys(("date", "datetime", "datetime64", "period"), Kind.DATE),
    **dict.fromkeys(("boolean", "interval", "bytes"), Kind.CATEGORY),
}


@dataclass(frozen=True)
class Column:
    """One column of a training table.

    Attributes
    ----------
    name : str or int
    kind : Kind
    had_missing : bool
        Whether training rows had missing cells.
    had_text : bool
        Whether a column of numbers had texts such as "n/a" in training; then all texts count as missing.
    low, high : float or None
        Range of numbers in training; of dates in seconds since 1970.
    zone : str or None
        Time zone of dates.
    levels : tuple of Level
        The categories.
    dialect : Dialect
        How texts are written.
    reason : str
        Why a column is not used.
    """

    name: Any
    kind: Kind
    had_missing: bool = False
    had_text: bool = False
    low: float | None = None
    high: float | None = None
    zone: str | None = None
    levels: tuple[Level, ...] = field(default=(), repr=False)
    dialect: Dialect = PLAIN
    reason: str = ""

    @classmethod
    def learn(cls, cells: pd.Series[Any]) -> Self:
        """Learn a column of a training table; warn of a column that is not used, and of texts among numbers.

        Examples
        --------
        >>> import pandas as pd
        >>> Column.learn(pd.Series([1.5, None, 3.0], name="weight"))
        Column(name='weight', kind=<Kind.NUMBER: 'number'>, had_missing=True, had_text=False, low=1.5, high=3.0, ...)
        """
        name = int(cells.name) if isinstance(cells.name, np.integer) else cells.name
        if cells.isna().all():
            return cls._unused(name, "all its values are missing")
        learned = cls(name, kind_of(cells)).learned_from(cells)
        if learned.had_text:
            text = np.isnan(learned.codec.of_series(cells).values) & cells.notna().to_numpy()
            learned.warn_of_text(text, cells.iloc[int(text.argmax())], "holds numbers and")
        return learned

    @classmethod
    def of_numbers(cls, name: Any, values: Floats) -> Self:
        """Learn a column of numbers, where NaN is a missing value."""
        if np.isnan(values).all():
            return cls._unused(name, "all its values are missing")
        check_finite(name, values)
        return cls(name, Kind.NUMBER)._with_range(values)

    @classmethod
    def _unused(cls, name: Any, reason: str) -> Self:
        warnings.warn(f"column {name!r} is not used: {reason}", UserWarning, stacklevel=2)
        return cls(name, Kind.UNUSED, reason=reason)

    def learned_from(self, cells: pd.Series[Any]) -> Self:
        """Return a column of the same kind, learned from other rows; unchanged if these have no value."""
        if self.kind == Kind.UNUSED or cells.isna().all():
            return self
        if self.kind == Kind.CATEGORY:
            return self._learn_levels(cells)
        if self.kind == Kind.DATE:
            dated = replace(self, zone=_zone_of(cells))
            return dated._with_range(dated.numbers(cells))
        values = self.codec.of_series(cells).values
        check_finite(self.name, values, cells.index)
        had_text = bool((np.isnan(values) & cells.notna().to_numpy()).any())
        return replace(self, had_text=had_text)._with_range(values)

    def _with_range(self, values: Floats) -> Self:
        missing = np.isnan(values)
        known = values[~missing]
        if len(known) == 0:  # some rows have texts among the numbers only
            return self
        return replace(self, had_missing=bool(missing.any()), low=float(known.min()), high=float(known.max()))

    def _learn_levels(self, cells: pd.Series[Any]) -> Self:
        import pandas as pd

        codes, values = distinct_cells(cells)
        known = codes >= 0
        declared = isinstance(cells.dtype, pd.CategoricalDtype)
        if not declared and len(values) > _MOST_TEXTS and len(values) > int(known.sum()) / 2:
            return self._unused(self.name, f"{len(values):,} different texts in {len(cells):,} rows identify rows")
        seen = np.bincount(codes[known], minlength=len(values)) > 0
        keeps_all = declared and len(values) <= _MOST_TEXTS
        order = [place for place in (range(len(values)) if declared else _sorted(values)) if keeps_all or seen[place]]
        levels: dict[str, Level] = {}
        for place in order:  # 1 and "1" are one category
            text = cell_text(values[place])
            levels.setdefault(text, Level(text, _plain(values[place]), bool(seen[place])))
        return replace(self, levels=tuple(levels.values()), had_missing=not bool(known.all()))

    @cached_property
    def codec(self) -> NumberCodec | DateCodec | CategoryCodec:
        """Reads the cells of the column."""
        if self.kind == Kind.CATEGORY:
            return CategoryCodec(self.levels)
        return (
            DateCodec(self.zone, self.dialect) if self.kind == Kind.DATE else NumberCodec(self.had_text, self.dialect)
        )

    @property
    def expected(self) -> str:
        """What the column must hold, for messages."""
        if self.kind == Kind.CATEGORY:
            seen = [level.text if level.value is None else level.value for level in self.levels if level.seen]
            shown = ", ".join(map(repr, seen[:_SHOWN_LEVELS]))
            more = f", ... and {len(seen) - _SHOWN_LEVELS:,} more" if len(seen) > _SHOWN_LEVELS else ""
            return f"a category seen in training, one of [{shown}{more}]"
        words = {Kind.NUMBER: "numbers as in training", Kind.DATE: "dates or times as in training"}
        return words.get(self.kind, "anything")

    def text_of(self, cell: Any) -> str | None:
        """Return the text of a category, None if it is missing; cells that are read alike have the same text.

        Examples
        --------
        >>> column = Column("code", Kind.CATEGORY, levels=(Level("1", 1),))
        >>> column.text_of(1.0), column.text_of("1.00"), column.text_of(7), column.text_of("?")
        ('1', '1', '7', None)
        """
        place, state = self.codec.of_scalar(cell)
        if state == State.MISSING:
            return None
        text = cell_text(cell)
        if place >= 0:
            return self.levels[place].text
        return self.codec.canonical(text) if isinstance(self.codec, CategoryCodec) else text

    def numbers(self, cells: pd.Series[Any]) -> Floats:
        """Return the numbers of a column of numbers, or the seconds since 1970 of dates; NaN where there is none.

        Examples
        --------
        >>> import pandas as pd
        >>> Column("sold", Kind.DATE).numbers(pd.Series(["1970-01-02", None]))
        array([86400.,    nan])
        """
        return self.measured(self.codec.of_series(cells))

    def measured(self, cells: Cells) -> Floats:
        """Return the values of cells of numbers or dates as `numbers` does."""
        return seconds_of(cells.values) if self.kind == Kind.DATE else cells.values

    def warn_of_text(self, text: Flags, example: Any, state: str = _TEXT_IS_NEW) -> None:
        """Warn that a column of numbers has texts, with their number and an example."""
        warnings.warn(
            f"column {self.name!r} {state} {int(text.sum()):,} texts such as {example!r:.40}: "
            "they count as missing values",
            UserWarning,
            stacklevel=2,
        )


@dataclass(frozen=True)
class TableSchema:
    """The columns of a training table.

    Attributes
    ----------
    columns : tuple of Column
    matrix : str or None
        Name of the input of a graph if the table was an array without column names.
    unseen : {"novel", "error", "keep"}
        As in `recuse.tabular.encoder.TableEncoder`.

    Examples
    --------
    >>> import pandas as pd
    >>> schema = TableSchema.learn(pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]}))
    >>> [(column.name, str(column.kind)) for column in schema.columns]
    [('weight', 'number'), ('origin', 'category')]
    """

    columns: tuple[Column, ...]
    matrix: str | None = None
    unseen: Unseen = "novel"

    @classmethod
    def learn(cls, X: pd.DataFrame | Floats) -> Self:
        """Learn the columns of a training table; an array has numbers only."""
        if isinstance(X, np.ndarray):
            return cls(tuple(Column.of_numbers(place, values) for place, values in enumerate(X.T)), MATRIX)
        return cls(tuple(Column.learn(X.iloc[:, place]) for place in range(X.shape[1])))

    def learned_from(self, frame: pd.DataFrame) -> Self:
        """Return the same columns, of the same kinds, learned from other rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `learn` has given the warnings about these columns
            return replace(self, columns=tuple(column.learned_from(frame[column.name]) for column in self.columns))

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that are used."""
        return tuple(column for column in self.columns if column.kind != Kind.UNUSED)

    @property
    def names(self) -> list[Any]:
        """The names of the columns that are used."""
        return [column.name for column in self.used]


def kind_of(column: pd.Series[Any]) -> Kind:
    """Return the kind of a column with at least one value.

    A column of text is read as dates if every cell is an ISO date. It is read as numbers if all cells are numbers and
    some are not integers, or if most cells are numbers and the others are text such as "n/a". A column of integers as
    text, or with leading zeros, remains categories, since such numbers are usually codes.

    Examples
    --------
    >>> import pandas as pd
    >>> kind_of(pd.Series(["1.5", "n/a", "2.5"])).value, kind_of(pd.Series(["1", "2"])).value
    ('number', 'category')
    """
    import pandas as pd
    from pandas.api import types

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
    import pandas as pd
    from pandas.api import types

    codes, cells = distinct_cells(column)
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
    codec = NumberCodec()
    read = [codec.of_scalar(cell) for cell in cells]
    numbers = np.array([value for value, _ in read])
    known = ~np.isnan(numbers)
    if not known.any() or any(isinstance(cell, str) and _LEADING_ZERO.match(cell.strip()) for cell in cells):
        return False
    all_text = all(isinstance(cell, str) for cell in cells)
    if known.all():
        return not all_text or bool((np.floor(numbers) != numbers).any())
    only_words = all(state != State.UNKNOWN for _, state in read)
    least = _MIN_NUMBERS_CLEAR if not all_text or only_words else _MIN_NUMBERS
    return bool(count[known].sum() >= least * count.sum())


def check_finite(name: Any, values: Floats, index: pd.Index[Any] | None = None) -> None:
    """Raise an error that names the column and the row if one of its values is infinite.

    Examples
    --------
    >>> check_finite("weight", np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ValueError: column 'weight' must be finite, got inf at row 1
    """
    from recuse.dataframes import row_name

    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise ValueError(f"column {name!r} must be finite, got {values[row]} at {row_name(row, index)}")


def _zone_of(column: pd.Series[Any]) -> str | None:
    """Return the name of the time zone in the dtype of a column of dates, or None."""
    import pandas as pd

    dtype = column.dtype
    zone = getattr(dtype.pyarrow_dtype, "tz", None) if isinstance(dtype, pd.ArrowDtype) else getattr(dtype, "tz", None)
    return None if zone is None else str(zone)


def _sorted(cells: list[Any]) -> Iterable[int]:
    """Return the positions of the levels, sorted by type, then by value."""
    try:
        return sorted(range(len(cells)), key=lambda place: (str(type(cells[place])), cells[place]))
    except TypeError:  # hashable, but without an order
        return sorted(range(len(cells)), key=lambda place: (str(type(cells[place])), repr(cells[place])))


def _plain(value: Any) -> str | int | float | bool | None:
    """Return a value that JSON has, None for others."""
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool) else None


def _complex_error(column: pd.Series[Any]) -> ValueError:
    return ValueError(
        f"column {column.name!r} must hold numbers, text, dates or categories, got complex numbers; "
        "split them into two columns of real numbers"
    )
