"""What drives rejection: shuffled columns, and the score along the values of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.model_file.schema import ColumnSchema
from recuse.report.decisions import has_expected_loss
from recuse.tabular.cells import read_numbers

__all__ = ["Dependence", "Importance", "dependence", "importances"]

Floats = NDArray[np.float64]

_ROWS = 1000  # rows that columns are shuffled in
_CURVE_ROWS = 300  # rows that a curve is averaged over
_REPEATS = 5
_POINTS = 16
_LEVELS = 8  # categories of a curve


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


def importances(model: Any, X: pd.DataFrame, cost: Floats, random: np.random.RandomState) -> list[Importance]:
    """Return the importance of every column for the decisions, the largest first.

    Parameters
    ----------
    model : ServedModel or estimator
    X : DataFrame
        Columns of the model only.
    cost : ndarray of shape (row,)
    random : RandomState
    """
    some = np.sort(random.choice(len(X), min(len(X), _ROWS), replace=False))
    rows, costs = X.iloc[some].reset_index(drop=True), cost[some]
    accepted = _accepted(model, rows, costs)
    found = []
    for name in rows.columns:
        shares = []
        for _ in range(_REPEATS):
            shuffled = rows.copy()
            shuffled[name] = rows[name].to_numpy()[random.permutation(len(rows))]
            shares.append(float(np.mean(_accepted(model, shuffled, costs) != accepted)))
        found.append(Importance(str(name), float(np.mean(shares)), float(np.std(shares) / _REPEATS**0.5)))
    return sorted(found, key=lambda each: -each.changed)


def dependence(
    model: Any, X: pd.DataFrame, cost: Floats, column: ColumnSchema, random: np.random.RandomState
) -> Dependence | None:
    """Return the curve of one column; None if it has fewer than two values.

    Parameters
    ----------
    model, X, cost, random
        As in `importances`.
    column : ColumnSchema
    """
    is_number = column.kind == "number"
    shown: list[Any] = []
    known = X[column.name].dropna()
    if is_number:
        values, shown = _quantiles(known)
    else:
        values = known.value_counts().index[:_LEVELS].tolist()
    if len(values) < 2:
        return None
    some = np.sort(random.choice(len(X), min(len(X), _CURVE_ROWS), replace=False))
    rows, costs = X.iloc[some], cost[some]
    mean = [_mean_outcome(model, _with(rows, column.name, value), costs) for value in values]
    shown = shown if is_number else [str(value) for value in values]
    return Dependence(str(column.name), shown, mean, is_number)


def _quantiles(cells: pd.Series) -> tuple[list[Any], list[Any]]:
    """Return cells at some quantiles, and their numbers; durations are in seconds."""
    numbers, _ = read_numbers(cells)
    order = np.argsort(numbers)[: int((~np.isnan(numbers)).sum())]
    if len(order) == 0:
        return [], []
    places = order[np.unique(np.linspace(0.02, 0.98, _POINTS) * (len(order) - 1)).astype(np.intp)]
    _, first = np.unique(numbers[places], return_index=True)
    chosen = places[first]
    return cells.iloc[chosen].tolist(), numbers[chosen].tolist()


def _with(rows: pd.DataFrame, name: str | int, value: Any) -> pd.DataFrame:
    """Return the rows with one value in a column."""
    changed = rows.copy()
    changed[name] = value
    return changed


def _accepted(model: Any, rows: pd.DataFrame, cost: Floats) -> NDArray[np.bool_]:
    return np.asarray(model.decide(rows, cost=cost).accepted)


def _mean_outcome(model: Any, rows: pd.DataFrame, cost: Floats) -> float:
    if has_expected_loss(model):
        return float(model.expected_loss(rows).mean())
    return float(model.decide(rows, cost=cost).score.mean())
