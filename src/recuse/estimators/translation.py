"""Rows in the user's units in, tables of the training engine out, and predictions back again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from recuse.costs import Cost, is_constant, resolve, row_values
from recuse.encoding import TableEncoder
from recuse.losses import SQUARED, TargetLoss
from recuse.training.feed import Table

__all__ = ["Rows", "Translation", "moments", "target_moments", "without"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Checked rows with their targets, costs and weights, in the user's units.

    The targets are (row,), or (row, output) where there are several. Where the caller divides the rows into parts,
    `part` (row, division) says how; only rows of one part are merged.
    """

    X: pd.DataFrame | Floats
    y: Floats
    cost: Floats
    weight: Floats
    part: NDArray[np.int8]

    @classmethod
    def check(
        cls,
        X: pd.DataFrame | Floats,
        y: Floats,
        cost: Cost,
        sample_weight: ArrayLike | None,
        part: NDArray[np.int8] | None = None,
    ) -> Self:
        """Bring cost and weights to one value per row, and the rows to their canonical form."""
        weight = row_values(1.0 if sample_weight is None else sample_weight, "sample_weight", len(y))
        if weight.sum() <= 0:
            raise ValueError("sample_weight must be > 0 for at least one row, got only zeros")
        part = np.empty((len(y), 0), np.int8) if part is None else part
        return cls(X, y, resolve(cost, X, len(y)), weight, part)._merged()

    def __len__(self) -> int:
        return len(self.y)

    def _merged(self) -> Self:
        """Give the distinct rows in a fixed order, equal ones as one row of their joint weight.

        So a weight of two is the same as two copies, the order of the rows does not matter, and two copies of
        a row never stand on both sides of a division into training and validation.
        """
        present = np.flatnonzero(self.weight > 0)
        key = np.column_stack([self.part, self.cost, self.y, _sortable(self.X)])[present] + 0.0  # no negative zeros
        order = np.lexsort(key.T)
        key, present = key[order], present[order]
        same = (key[1:] == key[:-1]) | (np.isnan(key[1:]) & np.isnan(key[:-1]))
        first = np.flatnonzero(np.append(True, ~same.all(axis=1)))
        merged = self.take(present[first])
        return replace(merged, weight=np.add.reduceat(self.weight[present], first))

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Give some of the rows."""
        X = self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]
        return type(self)(X, self.y[rows], self.cost[rows], self.weight[rows], self.part[rows])


@dataclass(frozen=True)
class Translation:
    """How features, targets and costs enter the engine, learned from the training rows.

    The target is standardised, so that one set of learning rates suits all units; the cost shrinks by what the loss
    does (for the squared error, by the square of the same factor), which leaves every decision as it was. Several
    targets are divided by the same factor, so that the mean over them stays what it is. A cost that varies by row
    becomes one more input of the rejector, as its standardised logarithm.
    """

    encoder: TableEncoder
    cost_column: str | None
    target_mean: float | Floats  # of several targets (output,)
    target_scale: float
    log_cost: tuple[float, float, float] | None  # floor, mean, scale
    target_loss: TargetLoss = SQUARED

    @classmethod
    def learn(
        cls, train: Rows, everything: Rows, cost: Cost, *, scale_target: bool, loss: TargetLoss = SQUARED
    ) -> Self:
        """Learn the features from `everything` and the scales from the part trained on."""
        column = cost if isinstance(cost, str) else None
        encoder = TableEncoder().fit(without(everything.X, column), everything.weight)
        mean, scale = target_moments(train.y, train.weight)
        if not scale_target:
            mean, scale = 0.0 * mean, 1.0
        log_cost = None if is_constant(cost) else _learn_log(train)
        return cls(encoder, column, mean, scale if scale > 0 else 1.0, log_cost, loss)

    @property
    def n_outputs(self) -> int:
        """How many targets there are."""
        return 1 if isinstance(self.target_mean, float) else len(self.target_mean)

    @property
    def engine_loss(self) -> TargetLoss:
        """The loss in the units of the engine."""
        return self.target_loss.scaled(self.target_scale)

    def table(self, rows: Rows, seed: int = 0) -> Table:
        """Give the engine's table for these rows."""
        features = self.features(rows.X)
        varied = self.log_cost is not None
        return Table(
            x=_tensor(features),
            y=_tensor((rows.y - self.target_mean) / self.target_scale),
            weight=None if np.ptp(rows.weight) == 0 else _tensor(rows.weight),
            cost=_tensor(self.cost(rows.cost)) if varied else None,
            rejector_x=_tensor(self.rejector_features(features, rows.cost)) if varied else None,
            seed=seed,
        )

    def features(self, X: Any) -> Floats:
        """Give what the regressor sees (row, feature)."""
        return self.encoder.transform(without(X, self.cost_column))

    def rejector_features(self, features: Floats, cost: Floats) -> Floats:
        """Give what the rejector sees (row, feature): the same, and the cost where it varies."""
        if self.log_cost is None:
            return features
        floor, mean, scale = self.log_cost
        return np.column_stack([features, (np.log(cost + floor) - mean) / scale])

    def cost(self, cost: Floats) -> Floats:
        """Give costs in the units of the engine."""
        return cost / self.target_loss.unit(self.target_scale)

    def loss(self, loss: Floats) -> Floats:
        """Give losses of the engine in the user's units."""
        return loss * self.target_loss.unit(self.target_scale)

    def prediction(self, output: Floats) -> Floats:
        """Give outputs (..., row) of the regressor in the user's units; of several, (..., row, output)."""
        by_row = output if self.n_outputs == 1 else np.swapaxes(output, -1, -2)
        return by_row * self.target_scale + self.target_mean

    def errors(self, output: Floats, rows: Rows) -> Floats:
        """Give the losses (row,) of outputs (row,) or (output, row), in the user's units."""
        return self.target_loss.of_rows(self.prediction(output) - rows.y)


def _sortable(X: pd.DataFrame | Floats) -> Floats:
    """Numbers that are equal where the cells are, whatever the type of the column."""
    if not isinstance(X, pd.DataFrame):
        return X
    return np.column_stack([np.empty((len(X), 0)), *(_sortable_column(X[name]) for name in X.columns)])


def _sortable_column(column: pd.Series[Any]) -> Floats:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    text = column.astype(object).map(repr).to_numpy(dtype=object)  # tells 1 from "1"
    text[column.isna()] = ""
    codes, _ = pd.factorize(text, sort=True)
    return codes.astype(np.float64)


def without(X: Any, column: str | None) -> Any:
    """Give the table without the column that holds the cost, if there is one."""
    if column is None:
        return X
    if not isinstance(X, pd.DataFrame):
        raise ValueError(f"cost={column!r} names a column, so X must be a DataFrame, got {type(X).__name__}")
    return X.drop(columns=column)


def _learn_log(rows: Rows) -> tuple[float, float, float]:
    floor = 1e-3 * float(rows.cost.mean()) or 1.0  # keeps the logarithm of a free rejection finite
    mean, scale = moments(np.log(rows.cost + floor), rows.weight)
    return floor, mean, scale or 1.0


def moments(values: Floats, weight: Floats) -> tuple[float, float]:
    """Give the weighted mean and standard deviation."""
    mean = np.average(values, weights=weight)
    return float(mean), float(np.average((values - mean) ** 2, weights=weight) ** 0.5)


def target_moments(y: Floats, weight: Floats) -> tuple[float | Floats, float]:
    """Give the weighted mean of each target and one standard deviation: for several, the root of the mean variance."""
    if y.ndim == 1:
        return moments(y, weight)
    mean, scale = zip(*(moments(column, weight) for column in y.T), strict=True)
    return np.array(mean), float(np.mean(np.square(scale)) ** 0.5)


def _tensor(values: Floats) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
