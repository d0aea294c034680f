"""Results of training rows by models that were not fitted to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.decision import LOSS_SAVED, Decision
from recuse.losses import SQUARED, TargetLoss

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_COLUMNS = ("target", "prediction", "expected_loss", "cost")


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold results, one row per row passed to `fit`; NaN for rows without a result.

    Attributes
    ----------
    target, prediction, expected_loss, cost : ndarray of shape (row,)
    index : pandas Index or None
        Labels of the rows, if they came from a DataFrame.
    loss : TargetLoss

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

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Return the results of a fitted estimator or of a model from a file; None if it has none."""
        table = getattr(model, "out_of_fold_", None)
        table = getattr(model, "out_of_fold", None) if table is None else table
        if table is None or "cost" not in table:
            return None
        columns = {name: np.asarray(table[name], dtype=np.float64) for name in _COLUMNS}
        return cls(**columns, index=getattr(table, "index", None), loss=model.loss_)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether each row (row,) has a result."""
        results = np.column_stack([getattr(self, name) for name in _COLUMNS])
        return np.asarray(~np.isnan(results).any(axis=1))

    def decision(self, cost: float | None = None) -> Decision:
        """Return the decisions about the rows with a result: at their own costs, or at another one."""
        known = self.known
        prices = self.cost[known] if cost is None else np.full(int(known.sum()), cost)
        score = prices - self.expected_loss[known]
        index = None if self.index is None else self.index[known]
        return Decision(self.prediction[known], score > 0, score, prices, index, self.loss, LOSS_SAVED)

    def losses(self) -> Floats:
        """Return the losses (row,) of the predictions of the rows with a result."""
        return self.loss((self.prediction - self.target)[self.known])

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the target, the prediction, `expected_loss`, `cost` and `score`."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in _COLUMNS}
        return pd.DataFrame({**columns, "score": self.cost - self.expected_loss}, index=self.index)
