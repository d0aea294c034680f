"""Encoding of tables with numbers, dates, categories and missing values as standardised float64 features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.dataframes import row_name
from recuse.tabular.codecs import Cells
from recuse.tabular.encodings import ColumnEncoding, encoding_of
from recuse.tabular.schema import Column, Kind, TableSchema, Unseen, check_finite
from recuse.validation import require

__all__ = ["Encoded", "TableEncoder", "check_seen"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Encoded:
    """An encoded table.

    `novelty` is 0 for a cell as in training and 1 for a cell without information: an unseen category, a missing value
    in a column that had none in training, or a number far outside the range of training. It lies between for a number
    just outside that range.
    """

    features: Floats  # (row, feature)
    novelty: Floats  # (row, column)


class TableEncoder:
    """Encode tables as float64 features.

    - Numbers and durations are standardised. A missing number is replaced by the mean, with a flag if training had
      missing numbers. Outside the training range, the novelty increases from 0 to 1 over half the width of the range,
      and numbers beyond that are clipped.
    - Text, booleans and pandas categories have one feature for each level, and one for missing cells if training had
      any. Of more than 50 levels, the 49 most frequent have a feature each and the others share one. A column of text
      with more than 50 levels, and more levels than half the number of rows, identifies rows and is dropped.
    - Dates and times become a trend and the sine and cosine of month, weekday and time of day, if these vary.
    - A few texts such as "n/a" among numbers count as missing. A column without any value is dropped. Both give a
      warning.

    A category without training rows, declared or not, is encoded as missing and has novelty 1. A missing value in a
    column that had none in training also has novelty 1.

    Parameters
    ----------
    unseen : {"novel", "error", "keep"}, default="novel"
        With "error", unseen categories and new missing values raise a ValueError. With "keep", the novelty is the same,
        but numbers are not clipped, and a category that was declared but not seen has its own feature, as in published
        experiments.

    Attributes
    ----------
    schema_ : TableSchema
        What is known of the columns.
    columns_ : list of ColumnEncoding
        The learned encoding of each column: frozen dataclasses of numbers, text and tuples.

    Examples
    --------
    >>> cars = pd.DataFrame({"weight": [1.0, 3.0], "origin": ["eu", "us"]})
    >>> encoder = TableEncoder().fit(cars)
    >>> encoder.transform(cars)
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    >>> encoder.encode(pd.DataFrame({"weight": [3.5], "origin": ["mars"]}))
    Encoded(features=array([[1.5, 0. , 0. ]]), novelty=array([[0.5, 1. ]]))
    """

    schema_: TableSchema
    columns_: list[ColumnEncoding]

    def __init__(self, unseen: Unseen = "novel") -> None:
        self.unseen = unseen

    def fit(
        self, X: pd.DataFrame | Floats, sample_weight: Floats | None = None, schema: TableSchema | None = None
    ) -> TableEncoder:
        """Learn means, scales, ranges and levels; `schema` is that of these rows, where it is known."""
        require(self.unseen in ("novel", "error", "keep"), "unseen", "'novel', 'error' or 'keep'", self.unseen)
        if X.shape[1] == 0:
            raise ValueError("X must have at least one column to learn from, got none")
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        schema = TableSchema.learn(X) if schema is None else schema
        if not schema.used:
            raise ValueError(f"X must have at least one column to learn from, got none, {X.shape[1]} dropped")
        return self._learn(replace(schema, unseen=self.unseen), X, weight)

    def refitted(self, X: pd.DataFrame | Floats, sample_weight: Floats, unseen: Unseen) -> TableEncoder:
        """Return an encoder that learned the same columns, as of the same kinds, from other rows."""
        schema = replace(self.schema_.learned_from(self._frame(X)), unseen=unseen)
        return TableEncoder(unseen)._learn(schema, X, sample_weight)

    def _learn(self, schema: TableSchema, X: pd.DataFrame | Floats, weight: Floats) -> TableEncoder:
        self.schema_ = schema
        frame = self._frame(X)
        self.columns_ = [encoding_of(column, frame[column.name], weight) for column in schema.columns]
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return features (row, feature)."""
        return self.encode(X).features

    def encode(self, X: pd.DataFrame | Floats) -> Encoded:
        """Return features (row, feature) and the novelty of each cell (row, column)."""
        frame = self._frame(X)
        features, novelty = np.zeros((len(frame), self.n_features)), np.zeros((len(frame), len(self.columns_)))
        for place, (learned, part) in enumerate(zip(self.columns_, self.slices, strict=True)):
            if learned.column.kind != Kind.UNUSED:
                cells = self._read(learned.column, frame[learned.column.name])
                novelty[:, place] = learned.encode(cells, features[:, part], keep=self.unseen == "keep")
        return Encoded(features, novelty)

    def _read(self, column: Column, series: pd.Series[Any]) -> Cells:
        cells = column.codec.of_series(series)
        if column.kind == Kind.NUMBER:
            check_finite(column.name, cells.values, series.index)
            if cells.unknown.any():
                column.warn_of_text(cells.unknown, series.iloc[int(cells.unknown.argmax())])
        if self.unseen == "error":
            check_seen(column, cells, lambda row: series.iloc[row], series.index)
        return cells

    @property
    def n_features(self) -> int:
        """The number of features."""
        return sum(column.n_features for column in self.columns_)

    @property
    def slices(self) -> list[slice]:
        """The features of each column; none for a dropped column."""
        ends = np.cumsum([column.n_features for column in self.columns_]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def missing_row(self) -> Floats:
        """The features (feature,) of a row in which every cell is missing."""
        return np.concatenate([column.missing for column in self.columns_])

    def _frame(self, X: pd.DataFrame | Floats) -> pd.DataFrame:
        """Find the columns by name where both tables have names, else by position."""
        names = [column.name for column in self.schema_.columns]
        if self.schema_.matrix is None and isinstance(X, pd.DataFrame):
            absent = [name for name in names if name not in X.columns]
            if absent:
                raise ValueError(f"X must have the column {absent[0]!r}, as in training, got columns {list(X.columns)}")
            return X
        if X.shape[1] != len(names):
            raise ValueError(f"X must have {len(names)} columns, as in training, got {X.shape[1]}")
        return X.set_axis(names, axis=1) if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=names)


def check_seen(column: Column, cells: Cells, cell_at: Callable[[int], Any], index: pd.Index[Any] | None) -> None:
    """Raise an error for the first unseen category or new missing value.

    Parameters
    ----------
    column : Column
    cells : Cells
    cell_at : callable
        Returns the cell of a row as it was given.
    index : Index or None
        The labels of the rows.
    """
    if cells.unknown.any():
        row, count = int(cells.unknown.argmax()), int(cells.unknown.sum())
        raise ValueError(
            f"column {column.name!r} must hold {column.expected}, got {cell_at(row)!r:.80} "
            f"at {row_name(row, index)}{_first_of(count)}"
        )
    if not column.had_missing and cells.missing.any():
        row, count = int(cells.missing.argmax()), int(cells.missing.sum())
        raise ValueError(
            f"column {column.name!r} must have no missing value, as in training, got one "
            f"at {row_name(row, index)}{_first_of(count)}"
        )


def _first_of(count: int) -> str:
    return "" if count == 1 else f", the first of {count:,} such rows"
