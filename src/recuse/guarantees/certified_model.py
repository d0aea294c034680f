"""A model that decides at a certified threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost
from recuse.dataframes import row_name
from recuse.decision import Decision

__all__ = ["CertifiedModel"]

Floats = NDArray[np.float64]


class CertifiedModel:
    """A model that accepts the rows whose score is above a certified threshold.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    threshold : float
        Rows with a larger score are accepted.
    cost : float, str or None
        The cost of the certificate: a number, the name of a column, or None if each row has its own cost.
    cost_bound : float or None
        The largest cost that the certificate covers; None if it does not depend on the cost.

    Notes
    -----
    `Certificate.model` and `ServedModel.certified` make these objects. The scores of decisions are those of the model,
    so it is not their sign that tells which rows are accepted.
    """

    def __init__(
        self, model: Any, threshold: float, cost: float | str | None = None, cost_bound: float | None = None
    ) -> None:
        self.model, self.threshold, self.cost_, self.cost_bound = model, threshold, cost, cost_bound

    def __repr__(self) -> str:
        return f"CertifiedModel({self.model!r}, threshold={self.threshold:.6g})"

    def decide(self, X: Any, cost: Cost | None = None) -> Decision:
        """Predict every row and accept the rows above the certified threshold.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Only for a certificate with one cost for each row.

        Returns
        -------
        Decision
        """
        decision: Decision = self.model.decide(X, cost=self._own_cost if cost is None else cost)
        self._check_costs(decision)
        return Decision(
            decision.prediction,
            decision.score > self.threshold,
            decision.score,
            decision.cost,
            index=decision.index,
            loss=decision.loss,
            target_names=decision.target_names,
            score_unit=decision.score_unit,
        )

    def predict(self, X: Any) -> Floats:
        """Predict every row, whether it would be accepted or not."""
        return np.asarray(self.model.predict(X))

    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Compute the score of every row; a row is accepted where it is above `threshold`."""
        return self.decide(X, cost).score

    def expected_loss(self, X: Any) -> Floats:
        """Estimate the loss of every row, if the model can do so."""
        return np.asarray(self.model.expected_loss(X))

    @property
    def loss_(self) -> Any:
        """The loss that the certificate is about."""
        return self.model.loss_

    @property
    def _own_cost(self) -> float | str | None:
        """The cost to pass to the model; None if it is that of the model itself, which may serve no other."""
        return None if self.cost_ == getattr(self.model, "cost_", None) else self.cost_

    def _check_costs(self, decision: Decision) -> None:
        """Raise an error for costs that the certificate does not cover."""
        wrong = np.zeros(len(decision), np.bool_)
        if isinstance(self.cost_, float):
            wrong = decision.cost != self.cost_
            rule = f"be {self.cost_:g}, which the certificate is for"
        elif self.cost_bound is not None:
            wrong = decision.cost > self.cost_bound
            rule = f"be at most {self.cost_bound:g}, the largest that the certificate covers"
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"cost must {rule}, got {decision.cost[row]:g} at {row_name(row, decision.index)}")
