"""Results of training rows by models that were not fitted to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.decision import LOSS_SAVED, Decision
from recuse.losses import SQUARED, TargetLoss

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["OutOfFold"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold results, one row per row passed to `fit`; NaN for rows without a result.

    Attributes
    ----------
    target, prediction : ndarray of shape (row,) or (row, output)
    expected_loss, cost : ndarray of shape (row,)
    index : pandas Index or None
        Labels of the rows, if they came from a DataFrame.
    loss : TargetLoss
    target_names : tuple of str or None
        One name for each of several targets.

    Examples
    --------
    >>> rows = OutOfFold(np.array([3.0, 5.0]), np.array([2.0, np.nan]), np.array([0.5, np.nan]), np.array([1.0, 1.0]))
    >>> rows.decision()
    Decision(1 rows: 1 accepted, 0 rejected; score: loss saved by accepting)
    >>> rows.decision(cost=0.4).score.round(1), rows.losses()
    (array([-0.1]), array([1.]))
    """

    target: Floats
    prediction: Floats
    expected_loss: Floats
    cost: Floats
    index: pd.Index[Any] | None = field(default=None, repr=False)
    loss: TargetLoss = SQUARED
    target_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Return the results of a fitted estimator or of a model from a file; None if it has none."""
        table = getattr(model, "out_of_fold_", None)
        table = getattr(model, "out_of_fold", None) if table is None else table
        if table is None or "cost" not in table:
            return None
        columns = {str(name): np.asarray(table[name], dtype=np.float64) for name in table}
        target, prediction = (_values(columns, kind) for kind in ("target", "prediction"))
        several = [name.removeprefix("target_") for name in columns if name.startswith("target_")]
        names, index = tuple(several) or None, getattr(table, "index", None)
        return cls(target, prediction, columns["expected_loss"], columns["cost"], index, model.loss_, names)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether each row (row,) has a result."""
        results = np.column_stack([self.target, self.prediction, self.expected_loss, self.cost])
        return np.asarray(~np.isnan(results).any(axis=1))

    def decision(self, cost: float | None = None) -> Decision:
        """Return the decisions about the rows with a result: at their own costs, or at another one."""
        known = self.known
        prices = self.cost[known] if cost is None else np.full(int(known.sum()), cost)
        score = prices - self.expected_loss[known]
        index = None if self.index is None else self.index[known]
        return Decision(
            self.prediction[known], score > 0, score, prices, index, self.loss, self.target_names, LOSS_SAVED
        )

    def losses(self) -> Floats:
        """Return the losses (row,) of the predictions of the rows with a result."""
        return self.loss.of_rows((self.prediction - self.target)[self.known])

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the target(s), the prediction(s), `expected_loss`, `cost` and `score`."""
        import pandas as pd

        both = {**self._columns("target", self.target), **self._columns("prediction", self.prediction)}
        others = {"expected_loss": self.expected_loss, "cost": self.cost, "score": self.cost - self.expected_loss}
        return pd.DataFrame({**both, **others}, index=self.index)

    def _columns(self, kind: str, values: Floats) -> dict[str, Floats]:
        if values.ndim == 1:
            return {kind: values}
        names = self.target_names or range(values.shape[1])
        return {f"{kind}_{name}": column for name, column in zip(names, values.T, strict=True)}


def _values(columns: Mapping[str, Floats], kind: str) -> Floats:
    """Return the column of this kind, or those of several targets (row, output)."""
    if kind in columns:
        return columns[kind]
    return np.column_stack([column for name, column in columns.items() if name.startswith(f"{kind}_")])
