"""Hashes of rows, to tell whether rows were used in training without keeping the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import is_frame, to_pandas
from recuse.row_hashes import (
    MISSING,
    RowHashes,
    Singles,
    bits_of_numbers,
    bits_of_texts,
    count_singles,
    hashes_of_targets,
)

if TYPE_CHECKING:
    import pandas as pd

    from recuse.tabular.rows import Rows

__all__ = ["HashedColumn", "Overlap", "TrainingRows"]

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]


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
    parts : RowHashes
        Hashes of the rows and of parts of them.
    training : Singles
        How many training rows are unlike all others.
    """

    hashes: Hashes
    copies: NDArray[np.bool_]
    expected: float
    probability: float
    parts: RowHashes
    training: Singles


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
    singles : Singles
        How many training rows are unlike all others.
    parts : RowHashes or None
        Hashes of the distinct rows and of parts of them, for `with_rows`; None if read from a file.

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
    singles: Singles
    parts: RowHashes | None = field(default=None, repr=False)

    @classmethod
    def learn(cls, rows: Rows) -> Self:
        """Learn the kinds of the columns, and hash the rows."""
        X = rows.X
        columns = _columns_of(X) if is_frame(X) else [HashedColumn(i, i, "numbers") for i in range(X.shape[1])]
        none = np.zeros(0, np.uint64)
        nothing = Singles(0, 0, 0, 0, 0), RowHashes(none, none, none, none)
        return cls(tuple(columns), X.shape[1], none, np.zeros(0, np.bool_), 0, *nothing).with_rows(rows)

    def with_rows(self, rows: Rows) -> Self:
        """Return the same with the hashes of more rows."""
        assert self.parts is not None
        new = self._hashes(rows.X, rows.y)
        copies = np.ones(len(new.rows), np.int64)
        if rows.origin is not None:
            copies = np.bincount(rows.origin.place[rows.origin.place >= 0], minlength=len(new.rows))
        both = [np.concatenate(pair) for pair in zip(vars(self.parts).values(), vars(new).values(), strict=True)]
        hashes, first, inverse = np.unique(both[0], return_index=True, return_inverse=True)
        known = 1 + self.repeated.astype(np.int64)
        repeated = np.bincount(inverse, weights=np.concatenate([known, copies])) > 1
        parts = RowHashes(hashes, *(values[first] for values in both[1:]))
        count = self.count + int(copies.sum())
        singles = Singles(count, *(_count_single_rows(values, repeated) for values in vars(parts).values()))
        return type(self)(self.columns, self.width, hashes, repeated, count, singles, parts)

    def hash_rows(self, X: Any, y: Any) -> Hashes:
        """Return a hash of the features and the target of each row.

        Parameters
        ----------
        X : array-like, DataFrame of any library, or mapping of column names to values
            Columns are found by name if both tables have names, else by position. Other columns are ignored.
        y : array-like of shape (row,) or (row, output)
        """
        return self._hashes(X, y).rows

    def overlap(self, X: Any, y: Any) -> Overlap:
        """Find rows that equal training rows; the parameters are those of `hash_rows`."""
        from scipy.special import bdtrc

        parts = self._hashes(X, y)
        copies = np.isin(parts.rows, self.hashes)
        chance = max(1 - self.singles.rows / self.count, 1 / self.count) if self.count else 0.0
        found = int(copies.sum())
        probability = 1.0 if found == 0 else float(bdtrc(found - 1, len(copies), chance))
        return Overlap(parts.rows, copies, chance * len(copies), probability, parts, self.singles)

    def _hashes(self, X: Any, y: Any) -> RowHashes:
        return RowHashes.of_cells(self._cells(X), hashes_of_targets(y))

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
            return [_bits(column, table[column.name]) for column in self.columns]
        if table.shape[1] != self.width:
            raise ValueError(f"X must have {self.width} columns, as in training, got {table.shape[1]}")
        return [_bits(column, table.iloc[:, column.place]) for column in self.columns]


def _count_single_rows(hashes: Hashes, repeated: NDArray[np.bool_]) -> int:
    """Return how many rows have a hash of their own, from the hashes of the distinct rows."""
    return count_singles(np.concatenate([hashes, hashes[repeated]]))


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


def _bits(column: HashedColumn, cells: pd.Series[Any]) -> Hashes:
    """Return 64 bits for each cell of a column."""
    from recuse.tabular.cells import Kind, read_dates, read_levels, read_numbers

    match column.kind:
        case Kind.NUMBER:
            return bits_of_numbers(read_numbers(cells)[0])
        case Kind.DATE:
            times = read_dates(cells, column.zone)[0]
            return np.where(np.isnat(times), MISSING, times.astype(np.int64).view(np.uint64))
    codes, levels = read_levels(cells)
    return np.append(bits_of_texts([str(_whole(level)) for level in levels]), MISSING)[codes]


def _whole(level: Any) -> Any:
    """Return a whole number as an int, since gaps turn a column of ints into floats."""
    return int(level) if isinstance(level, float) and level.is_integer() else level
