"""Hashes of rows, to tell whether rows were used in training without keeping the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import is_frame, to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from recuse.tabular.rows import Rows

__all__ = ["HashedColumn", "Overlap", "TrainingRows"]

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

_MISSING = np.uint64(0x9AE16A3B2F90404F)
_START = np.uint64(0xC3A5C85C97CB3127)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class HashedColumn:
    """A column that is part of the hash of a row.

    Attributes
    ----------
    name : str or int
    place : int
        Position of the column in the training table.
    kind : {"numbers", "dates or times", "categories"}
    zone : str or None
        Time zone of dates.
    """

    name: str | int
    place: int
    kind: str
    zone: str | None = None


@dataclass(frozen=True)
class Overlap:
    """Rows that equal training rows in all features and in the target.

    Attributes
    ----------
    hashes : ndarray of uint64 of shape (row,)
        A hash of the features and the target of each row.
    copies : ndarray of bool of shape (row,)
        Whether a training row has the same hash.
    expected : float
        Number of copies to expect among as many fresh rows. By Good and Turing, a fresh row repeats a training row
        about as often as a training row repeats another one.
    probability : float
        Probability of at least as many copies among fresh rows.
    """

    hashes: Hashes
    copies: NDArray[np.bool_]
    expected: float
    probability: float


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Hashes of the distinct rows that a model was trained on, and how to hash other rows.

    Numbers are hashed as float32, so that a file with fewer digits has the same hashes; dates as microseconds;
    categories as text, in which whole numbers have no decimals. All missing values are alike. Columns without values
    and texts that identify rows are left out, as they are by the encoder.

    Attributes
    ----------
    columns : tuple of HashedColumn
    width : int
        Number of columns of the training table.
    hashes : ndarray of uint64 of shape (distinct row,), sorted
    repeated : ndarray of bool of shape (distinct row,)
        Whether several training rows have the hash.
    count : int
        Number of training rows.
    exact : bool
        Whether numbers are hashed as float64 and categories as they are, as in older model files.

    Examples
    --------
    >>> import pandas as pd
    >>> from recuse.tabular.rows import Rows
    >>> cars = pd.DataFrame({"weight": [1.5, 2.5, 3.5], "origin": ["eu", "us", None]})
    >>> y = np.array([30.0, 20.0, 10.0])
    >>> known = TrainingRows.learn(Rows.canonical(cars, y, np.ones(3)))
    >>> known.overlap(cars.iloc[[2, 0]], [10.0, 99.0]).copies
    array([ True, False])
    """

    columns: tuple[HashedColumn, ...]
    width: int
    hashes: Hashes = field(repr=False)
    repeated: NDArray[np.bool_] = field(repr=False)
    count: int
    exact: bool = False

    @classmethod
    def learn(cls, rows: Rows) -> Self:
        """Learn the kinds of the columns, and hash the rows."""
        X = rows.X
        columns = _columns_of(X) if is_frame(X) else [HashedColumn(i, i, "numbers") for i in range(X.shape[1])]
        none = np.zeros(0, np.uint64)
        return cls(tuple(columns), X.shape[1], none, np.zeros(0, np.bool_), 0).with_rows(rows)

    def with_rows(self, rows: Rows) -> Self:
        """Return the same with the hashes of more rows."""
        new = self.hash_rows(rows.X, rows.y)
        copies = np.ones(len(new), np.int64)
        if rows.origin is not None:
            copies = np.bincount(rows.origin.place[rows.origin.place >= 0], minlength=len(new))
        hashes, inverse = np.unique(np.concatenate([self.hashes, new]), return_inverse=True)
        known = 1 + self.repeated.astype(np.int64)
        total = np.bincount(inverse, weights=np.concatenate([known, copies]))
        return type(self)(self.columns, self.width, hashes, total > 1, self.count + int(copies.sum()), self.exact)

    def hash_rows(self, X: Any, y: Any) -> Hashes:
        """Return a hash of the features and the target of each row.

        Parameters
        ----------
        X : array-like, DataFrame of any library, or mapping of column names to values
            Columns are found by name if both tables have names, else by position. Other columns are ignored.
        y : array-like of shape (row,) or (row, output)
        """
        cells = [*self._cells(X), *_bits_of_targets(y, self.exact)]
        state = np.full(len(cells[-1]), _START)
        with np.errstate(over="ignore"):
            for column in cells:
                state = _mixed(state * _STEP + _mixed(column))
        return state

    def overlap(self, X: Any, y: Any) -> Overlap:
        """Find rows that equal training rows; the parameters are those of `hash_rows`."""
        from scipy.special import bdtrc

        hashes = self.hash_rows(X, y)
        copies = np.isin(hashes, self.hashes)
        single = int((~self.repeated).sum())
        chance = max(1 - single / self.count, 1 / self.count) if self.count else 0.0
        found = int(copies.sum())
        probability = 1.0 if found == 0 else float(bdtrc(found - 1, len(hashes), chance))
        return Overlap(hashes, copies, chance * len(hashes), probability)

    def _cells(self, X: Any) -> list[Hashes]:
        """Return 64 bits for each cell, column by column."""
        import pandas as pd

        table = to_pandas(pd.DataFrame(X) if isinstance(X, dict) else X)
        if not is_frame(table) and any(column.kind != "numbers" for column in self.columns):
            from recuse.tabular.table import as_table

            table = as_table(table)
        if not is_frame(table):
            table = pd.DataFrame(np.asarray(table, dtype=np.float64))
        if all(column.name in table.columns for column in self.columns):
            return [_bits(column, table[column.name], self.exact) for column in self.columns]
        if table.shape[1] != self.width:
            raise ValueError(f"X must have {self.width} columns, as in training, got {table.shape[1]}")
        return [_bits(column, table.iloc[:, column.place], self.exact) for column in self.columns]


def _columns_of(X: pd.DataFrame) -> list[HashedColumn]:
    """Return the columns that the encoder would use."""
    from recuse.tabular.cells import Kind, kind_of, zone_of
    from recuse.tabular.columns import identifies_rows

    columns = []
    for place, name in enumerate(X.columns):
        cells = X.iloc[:, place]
        if cells.isna().all():
            continue
        kind = kind_of(cells)
        if kind is Kind.CATEGORY and identifies_rows(cells):
            continue
        columns.append(
            HashedColumn(_plain_name(name), place, kind.value, zone_of(cells) if kind is Kind.DATE else None)
        )
    return columns


def _plain_name(name: Any) -> Any:
    return int(name) if isinstance(name, np.integer) else name


def _bits(column: HashedColumn, cells: pd.Series[Any], exact: bool) -> Hashes:
    """Return 64 bits for each cell of a column."""
    from recuse.tabular.cells import Kind, read_dates, read_levels, read_numbers

    match column.kind:
        case Kind.NUMBER:
            return _bits_of_numbers(read_numbers(cells)[0], exact)
        case Kind.DATE:
            times = read_dates(cells, column.zone)[0]
            return np.where(np.isnat(times), _MISSING, times.astype(np.int64).view(np.uint64))
    codes, levels = read_levels(cells)
    return np.append(_bits_of_texts([str(level if exact else _whole(level)) for level in levels]), _MISSING)[codes]


def _whole(level: Any) -> Any:
    """Return a whole number as an int, since gaps turn a column of ints into floats."""
    return int(level) if isinstance(level, float) and level.is_integer() else level


def _bits_of_numbers(values: Floats, exact: bool) -> Hashes:
    """Return the bits of numbers; zeros of both signs are alike, and so are all missing numbers."""
    plain = np.ascontiguousarray(values, dtype=np.float64) + 0.0
    if not exact:
        with np.errstate(over="ignore", under="ignore"):
            rounded = plain.astype(np.float32).astype(np.float64) + 0.0
        plain = np.where(np.isinf(rounded), plain, rounded)  # too large for float32
    return np.where(np.isnan(plain), _MISSING, plain.view(np.uint64))


def _bits_of_texts(texts: Sequence[str]) -> Hashes:
    digests = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _bits_of_targets(y: Any, exact: bool) -> list[Hashes]:
    targets = np.asarray(y, dtype=np.float64)
    columns = targets[:, None] if targets.ndim == 1 else targets
    return [_bits_of_numbers(column, exact) for column in columns.T]


def _mixed(bits: Hashes) -> Hashes:
    """Return bits that each depend on all given bits; this is the last step of the generator SplitMix64."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return bits ^ (bits >> np.uint64(31))
