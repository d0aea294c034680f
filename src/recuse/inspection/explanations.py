"""Why a model decides as it does: calibration of expected losses, columns that matter, and similar training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.audit.significance import mean_interval
from recuse.decision import LOSS_SAVED, Decision, RejectingModel
from recuse.tabular.codecs import NumberCodec, distinct_cells
from recuse.tabular.schema import Column

Floats = NDArray[np.float64]

# Training rows that a row is compared with; more would take a noticeable time for each row.
MOST_TRAINING_ROWS = 20_000
# Shuffled rows and shuffles of each column: the standard error of an importance is then below one percent.
_SHUFFLED_ROWS, _SHUFFLES = 1000, 5
# Rows that a curve is averaged over, and the values of the column that it has: numbers or categories.
_CURVE_ROWS, _CURVE_NUMBERS, _CURVE_CATEGORIES = 300, 16, 8


def has_expected_loss(decision: Decision) -> bool:
    """Whether the scores of a decision are the cost less an expected loss."""
    return decision.score_unit == LOSS_SAVED


def calibration_bins(expected: Floats, loss: Floats, n_bins: int = 10, confidence: float = 0.95) -> pd.DataFrame:
    """Return the expected and the observed mean loss of rows with similar expected losses.

    Parameters
    ----------
    expected, loss : ndarray of shape (n_rows,)
    n_bins : int, default=10
        Bins have about equally many rows. Equal expected losses are in one bin, so there may be fewer.
    confidence : float, default=0.95
        Confidence of the interval of the observed mean.

    Returns
    -------
    DataFrame
        Columns "rows", "expected", "observed", "low" and "high", the ends of the interval; NaN for a single row.

    Examples
    --------
    >>> calibration_bins(np.array([1.0, 1.0, 4.0, 4.0]), np.array([0.5, 2.5, 3.0, 4.0]), n_bins=2).iloc[:, :3]
       rows  expected  observed
    0     2       1.0       1.5
    1     2       4.0       3.5
    """
    edges = np.unique(np.quantile(expected, np.arange(1, n_bins) / n_bins))
    code = np.searchsorted(edges, expected, side="right")
    records = []
    for place in np.unique(code):
        rows = code == place
        low, high = mean_interval(loss[rows], confidence)
        means = {"expected": float(expected[rows].mean()), "observed": float(loss[rows].mean())}
        records.append({"rows": int(rows.sum()), **means, "low": max(low, 0.0), "high": high})
    return pd.DataFrame(records)


@dataclass(frozen=True)
class Importance:
    """Share of the decisions that change if a column is shuffled, with its standard error over the shuffles."""

    column: str
    changed: float
    error: float


@dataclass(frozen=True)
class Dependence:
    """Mean expected loss, or score, of some rows if a column had each of some values."""

    column: str
    values: list[Any]
    mean: list[float]
    is_number: bool


def importances(
    model: RejectingModel, X: pd.DataFrame, cost: Floats, random: np.random.RandomState
) -> list[Importance]:
    """Return the importance of every column for the decisions, the largest first.

    Parameters
    ----------
    model : ServedModel or estimator
    X : DataFrame
        Columns of the model only.
    cost : ndarray of shape (n_rows,)
    random : RandomState
    """
    some = np.sort(random.choice(len(X), min(len(X), _SHUFFLED_ROWS), replace=False))
    rows, costs = X.iloc[some].reset_index(drop=True), cost[some]
    accepted = model.decide(rows, cost=costs).accepted
    found = []
    for name in rows.columns:
        shares = []
        for _ in range(_SHUFFLES):
            shuffled = rows.copy()
            shuffled[name] = rows[name].to_numpy()[random.permutation(len(rows))]
            shares.append(np.mean(model.decide(shuffled, cost=costs).accepted != accepted))
        found.append(Importance(str(name), float(np.mean(shares)), float(np.std(shares) / _SHUFFLES**0.5)))
    return sorted(found, key=lambda each: -each.changed)


def dependence(
    model: RejectingModel, X: pd.DataFrame, cost: Floats, column: Column, random: np.random.RandomState
) -> Dependence | None:
    """Return the curve of one column; None if it has fewer than two values.

    Parameters
    ----------
    model, X, cost, random
        As in `importances`.
    column : Column
    """
    is_number = column.kind == "number"
    known = X[column.name].dropna()
    if is_number:
        values, shown = _quantiles(known)
    else:
        values = known.value_counts().index[:_CURVE_CATEGORIES].tolist()
        shown = [str(value) for value in values]
    if len(values) < 2:
        return None
    some = np.sort(random.choice(len(X), min(len(X), _CURVE_ROWS), replace=False))
    rows, mean = X.iloc[some].copy(), []
    for value in values:
        rows[column.name] = value
        decision = model.decide(rows, cost=cost[some])
        outcome = decision.cost - decision.score if has_expected_loss(decision) else decision.score
        mean.append(float(outcome.mean()))
    return Dependence(str(column.name), shown, mean, is_number)


def _quantiles(cells: pd.Series) -> tuple[list[Any], list[Any]]:
    """Return cells at some quantiles, and their numbers; durations are in seconds."""
    numbers = NumberCodec().of_series(cells).values
    order = np.argsort(numbers)[: int((~np.isnan(numbers)).sum())]
    if len(order) == 0:
        return [], []
    places = order[np.unique(np.linspace(0.02, 0.98, _CURVE_NUMBERS) * (len(order) - 1)).astype(np.intp)]
    _, first = np.unique(numbers[places], return_index=True)
    chosen = places[first]
    return cells.iloc[chosen].tolist(), numbers[chosen].tolist()


def training_sample(training: pd.DataFrame) -> pd.DataFrame:
    """Return the training rows that new rows are compared with: at most `MOST_TRAINING_ROWS`, drawn at random."""
    few = len(training) <= MOST_TRAINING_ROWS
    return training if few else training.sample(MOST_TRAINING_ROWS, random_state=0)


def nearest_rows(
    rows: pd.DataFrame, training: pd.DataFrame, columns: Sequence[Column], count: int = 3
) -> tuple[NDArray[np.intp], Floats]:
    """Find the nearest training rows of each row.

    The distance is a sum over the columns: for numbers and dates the difference in units of the range in training, and
    for categories 1 if they differ. A missing cell has the distance 1 to every cell.

    Parameters
    ----------
    rows, training : DataFrame
    columns : sequence of Column
        Columns of both tables.
    count : int, default=3

    Returns
    -------
    places : ndarray of shape (n_rows, count)
        Positions of the nearest training rows, the nearest first.
    distances : ndarray of shape (n_rows, count)

    Examples
    --------
    >>> training = pd.DataFrame({"weight": [1.0, 5.0], "origin": ["eu", "us"]})
    >>> columns = [Column("weight", "number", low=1.0, high=5.0), Column("origin", "category")]
    >>> nearest_rows(pd.DataFrame({"weight": [2.0], "origin": ["us"]}), training, columns)
    (array([[1, 0]]), array([[0.75, 1.25]]))
    """
    distance = np.zeros((len(rows), len(training)))
    for column in columns:
        ours, theirs = rows[column.name], training[column.name]
        if column.kind in ("number", "date"):
            width = ((column.high or 0.0) - (column.low or 0.0)) or 1.0
            difference = np.abs(column.numbers(ours)[:, None] - column.numbers(theirs)[None]) / width
            distance += np.where(np.isnan(difference), 1.0, np.minimum(difference, 1.0))
        elif column.kind == "category":
            distance += _texts(ours, column)[:, None] != _texts(theirs, column)[None]
    places = np.argsort(distance, axis=1, kind="stable")[:, :count]
    return places, np.take_along_axis(distance, places, axis=1)


def _texts(cells: pd.Series, column: Column) -> NDArray[np.object_]:
    codes, values = distinct_cells(cells)
    return np.array([*(column.text_of(value) or "\0" for value in values), "\0"], dtype=object)[codes]
