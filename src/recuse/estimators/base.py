"""RejectingRegressor: what every estimator promises - rows in, decisions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant, needs_rows, resolve
from recuse.decision import Decision
from recuse.estimators.checked import CheckedRegressor
from recuse.losses import SQUARED, TargetLoss

__all__ = ["RejectingRegressor"]

Floats = NDArray[np.float64]


class RejectingRegressor(CheckedRegressor, ABC):
    """A regressor that may step aside, at a cost, with scikit-learn's conventions.

    A concrete estimator has a parameter `cost`, sets `cost_` in `fit`, and says by `serves_any_cost` whether
    it can decide at a cost it was not fitted for. One that can aim at another loss than the squared error also sets
    `loss_`, the loss its costs are stated in.
    """

    cost: Cost
    cost_: Cost
    loss_: TargetLoss = SQUARED

    @abstractmethod
    def predict(self, X: Any) -> Floats:
        """Give h(x) for every row, accepted or not."""

    @abstractmethod
    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Give a score for every row; the row is accepted where it is > 0."""

    @property
    @abstractmethod
    def serves_any_cost(self) -> bool:
        """Whether the fitted estimator can decide at any cost, and not only at the one it was fitted for."""

    def decide(self, X: Any, cost: Cost | None = None) -> Decision:
        """Predict every row and say which predictions to use.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Another cost than the one the estimator was fitted for, where it can serve that.

        Returns
        -------
        Decision
        """
        rows_cost = self._cost_of_rows(self._check_new_rows(X), cost)
        prediction, score = self._judge(X, rows_cost)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return Decision(prediction, score > 0, score, rows_cost, index=index, loss=self.loss_)

    def _judge(self, X: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Give predictions and scores; an estimator whose scores need the predictions may save asking twice."""
        return self.predict(X), self.decision_function(X, cost)

    def _cost_of_rows(self, X: Any, cost: Cost | None) -> Floats:
        """One cost for each row, by the caller's word or else as in `fit`; an error if neither will do."""
        n_rows = len(X)
        if cost is None:
            if needs_rows(self.cost_):
                raise ValueError(
                    f"{type(self).__name__} was fitted with one cost per row, so new rows need theirs: "
                    "pass cost=, a number or one value per row"
                )
            return resolve(self.cost_, X, n_rows)
        rows = resolve(cost, X, n_rows)
        if not self.serves_any_cost and is_constant(self.cost_) and not np.all(rows == self.cost_):
            other = rows[rows != self.cost_][0]
            raise ValueError(
                f"{type(self).__name__} was fitted for cost {self.cost_} and cannot decide at cost {other}: "
                "fit it again with that cost, or with one cost per row"
            )
        return rows
