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
)
from recuse.tabular.codecs import MISSING_TIME, distinct_cells
from recuse.tabular.schema import Column, Kind, TableSchema

if TYPE_CHECKING:
    import pandas as pd

    from recuse.tabular.rows import Rows

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Overlap:
    """Rows that equal training rows in all features and in the target.

    Attributes
    ----------
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
    schema : TableSchema
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

    schema: TableSchema
    hashes: Hashes = field(repr=False)
    repeated: NDArray[np.bool_] = field(repr=False)
    count: int
    singles: Singles
    parts: RowHashes | None = field(default=None, repr=False)

    @classmethod
    def learn(cls, rows: Rows) -> Self:
        """Learn the columns, and hash the rows."""
        none = np.zeros(0, np.uint64)
        nothing = Singles(0, 0, 0, 0, 0), RowHashes(none, none, none, none)
        return cls(TableSchema.learn(rows.X), none, np.zeros(0, np.bool_), 0, *nothing).with_rows(rows)

    def with_rows(self, rows: Rows) -> Self:
        """Return the same with the hashes of more rows."""
        assert self.parts is not None
        new = RowHashes.of_cells(self._cells(rows.X), rows.y)
        copies = np.ones(len(new.rows), np.int64)
        if rows.origin is not None:
            copies = np.bincount(rows.origin.place[rows.origin.place >= 0], minlength=len(new.rows))
        both = [np.concatenate(pair) for pair in zip(vars(self.parts).values(), vars(new).values(), strict=True)]
        hashes, first, inverse = np.unique(both[0], return_index=True, return_inverse=True)
        known = 1 + self.repeated.astype(np.int64)
        repeated = np.bincount(inverse, weights=np.concatenate([known, copies])) > 1
        parts = RowHashes(hashes, *(values[first] for values in both[1:]))
        count = self.count + int(copies.sum())
        every = (np.append(values, values[repeated]) for values in vars(parts).values())
        singles = Singles(count, *map(count_singles, every))
        return type(self)(self.schema, hashes, repeated, count, singles, parts)

    def overlap(self, X: Any, y: Any) -> Overlap:
        """Find rows that equal training rows.

        Parameters
        ----------
        X : array-like, DataFrame of any library, or mapping of column names to values
            Columns are found by name if both tables have names, else by position. Other columns are ignored.
        y : array-like of shape (row,)
        """
        from scipy.special import bdtrc

        parts = RowHashes.of_cells(self._cells(X), y)
        copies = np.isin(parts.rows, self.hashes)
        chance = max(1 - self.singles.rows / self.count, 1 / self.count) if self.count else 0.0
        found = int(copies.sum())
        probability = 1.0 if found == 0 else float(bdtrc(found - 1, len(copies), chance))
        return Overlap(copies, chance * len(copies), probability, parts, self.singles)

    def _cells(self, X: Any) -> list[Hashes]:
        """Return 64 bits for each cell, column by column."""
        import pandas as pd

        columns, used = self.schema.columns, self.schema.used
        table = to_pandas(pd.DataFrame(X) if isinstance(X, dict) else X)
        if not is_frame(table) and any(column.kind != Kind.NUMBER for column in used):
            from recuse.tabular.rows import as_table

            table = as_table(table)
        if not is_frame(table):
            table = pd.DataFrame(np.asarray(table, dtype=np.float64))
        if all(column.name in table.columns for column in used):
            return [_bits(column, table[column.name]) for column in used]
        if table.shape[1] != len(columns):
            raise ValueError(f"X must have {len(columns)} columns, as in training, got {table.shape[1]}")
        cells = [(column, table.iloc[:, place]) for place, column in enumerate(columns) if column.kind != Kind.UNUSED]
        return [_bits(column, series) for column, series in cells]


def _bits(column: Column, cells: pd.Series[Any]) -> Hashes:
    """Return 64 bits for each cell of a column."""
    if column.kind == Kind.CATEGORY:
        codes, values = distinct_cells(cells)
        texts = [column.text_of(value) for value in values]
        bits = np.where([text is None for text in texts], MISSING, bits_of_texts([text or "" for text in texts]))
        return np.append(bits, MISSING)[codes]
    read = column.codec.of_series(cells)
    if column.kind == Kind.NUMBER:
        return bits_of_numbers(read.values)
    return np.where(read.values == MISSING_TIME, MISSING, read.values.view(np.uint64))
