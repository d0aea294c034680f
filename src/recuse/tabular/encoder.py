"""Encoding of tables with numbers, dates, categories and missing values as standardised float64 features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.dataframes import row_name
from recuse.tabular.cells import Kind, kind_of
from recuse.tabular.columns import CategoryColumn, Cells, Column, DroppedColumn, NumericColumn
from recuse.tabular.dates import DateColumn
from recuse.validation import require

__all__ = ["Encoded", "TableEncoder", "Unseen", "raise_if_unseen"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Unseen = Literal["novel", "error", "keep"]


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
    columns_ : list of Column
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

    columns_: list[Column]

    def __init__(self, unseen: Unseen = "novel") -> None:
        self.unseen = unseen

    def fit(self, X: pd.DataFrame | Floats, sample_weight: Floats | None = None) -> TableEncoder:
        """Learn means, scales, ranges and levels."""
        require(self.unseen in ("novel", "error", "keep"), "unseen", "'novel', 'error' or 'keep'", self.unseen)
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
        if frame.shape[1] == 0:
            raise ValueError("X must have at least one column to learn from, got none")
        weight = np.ones(len(frame)) if sample_weight is None else sample_weight
        columns = [_learn(frame[name], weight) for name in frame.columns]
        if sum(column.n_features for column in columns) == 0:
            raise ValueError(f"X must have at least one column to learn from, got none, {len(columns)} dropped")
        self._named = isinstance(X, pd.DataFrame)
        self.columns_ = columns
        return self

    def refitted(self, X: pd.DataFrame | Floats, sample_weight: Floats, unseen: Unseen) -> TableEncoder:
        """Return an encoder that learned the same columns, as of the same kinds, from other rows."""
        frame = self._frame(X)
        encoder = TableEncoder(unseen)
        encoder._named = self._named
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `fit` has given the warnings about these columns
            encoder.columns_ = [_learn_again(column, frame[column.name], sample_weight) for column in self.columns_]
        return encoder

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return features (row, feature)."""
        return self.encode(X).features

    def encode(self, X: pd.DataFrame | Floats) -> Encoded:
        """Return features (row, feature) and the novelty of each cell (row, column)."""
        frame = self._frame(X)
        features, novelty = np.zeros((len(frame), self.n_features)), np.zeros((len(frame), len(self.columns_)))
        for place, (learned, part) in enumerate(zip(self.columns_, self.slices, strict=True)):
            column = frame[learned.name]
            cells = learned.encode(column, features[:, part], keep=self.unseen == "keep")
            if self.unseen == "error":
                raise_if_unseen(learned, column, cells)
            novelty[:, place] = cells.novelty
        return Encoded(features, novelty)

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
        names = [column.name for column in self.columns_]
        if self._named and isinstance(X, pd.DataFrame):
            absent = [name for name in names if name not in X.columns]
            if absent:
                raise ValueError(f"X must have the column {absent[0]!r}, as in training, got columns {list(X.columns)}")
            return X
        if X.shape[1] != len(names):
            raise ValueError(f"X must have {len(names)} columns, as in training, got {X.shape[1]}")
        return X.set_axis(names, axis=1) if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=names)


def _learn_again(learned: Column, column: pd.Series[Any], weight: Floats) -> Column:
    """Learn a column as of its known kind; a column without any value here is left as it is."""
    if isinstance(learned, NumericColumn | CategoryColumn | DateColumn) and column.notna().any():
        return type(learned).learn(column, weight)
    return learned


def _learn(column: pd.Series[Any], weight: Floats) -> Column:
    if column.isna().all():
        return DroppedColumn.warn(column.name, "all its values are missing")
    kind = kind_of(column)
    if kind is Kind.DATE:
        return DateColumn.learn(column, weight)
    return NumericColumn.learn(column, weight) if kind is Kind.NUMBER else CategoryColumn.learn(column, weight)


class Described(Protocol):
    """A column with a name, and what it must hold."""

    @property
    def name(self) -> Any:
        """The name of the column in the table."""

    @property
    def expected(self) -> str:
        """What the column must hold, for error messages."""


def raise_if_unseen(learned: Described, column: pd.Series[Any], cells: Cells) -> None:
    """Raise an error for the first unseen category or new missing value."""
    if cells.unknown.any():
        row, count = int(cells.unknown.argmax()), int(cells.unknown.sum())
        raise ValueError(
            f"column {learned.name!r} must hold {learned.expected}, got {column.iloc[row]!r:.80} "
            f"at {row_name(row, column.index)}{_first_of(count)}"
        )
    if cells.new_gap.any():
        row, count = int(cells.new_gap.argmax()), int(cells.new_gap.sum())
        raise ValueError(
            f"column {learned.name!r} must have no missing value, as in training, got one "
            f"at {row_name(row, column.index)}{_first_of(count)}"
        )


def _first_of(count: int) -> str:
    return "" if count == 1 else f", the first of {count:,} such rows"
