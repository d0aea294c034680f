"""A model that decides at a certified threshold."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.dataframes import row_name
from recuse.decision import Decision

__all__ = ["CertifiedModel", "CostGiven"]

Floats = NDArray[np.float64]
CostGiven = Literal["own", "number", "column", "per row"]


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
    cost_given : {"own", "number", "column", "per row"}
        How the cost was given to `certify`; "own" is the cost of the model, "per row" an array or a callable.
    fingerprint : str, optional
        Checksum of the model that was certified. If given, `decide` raises an error once the model has another one,
        such as after another fit.

    Notes
    -----
    `Certificate.model` and `ServedModel.certified` make these objects. The scores of decisions are those of the model,
    so it is not their sign that tells which rows are accepted.

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = RiskRejector(Ridge(), Ridge(), cost=1.0).fit(X, y)
    >>> strict, mild = CertifiedModel(model, threshold=0.5), CertifiedModel(model, threshold=-0.5)
    >>> strict.decide(X).rejection_rate > mild.decide(X).rejection_rate
    True
    """

    def __init__(
        self,
        model: Any,
        threshold: float,
        cost: float | str | None = None,
        cost_bound: float | None = None,
        cost_given: CostGiven = "own",
        fingerprint: str | None = None,
    ) -> None:
        self.model, self.threshold, self.cost_, self.cost_bound = model, threshold, cost, cost_bound
        self.cost_given, self.fingerprint = cost_given, fingerprint
        self._checked: dict[str, Any] | None = None  # the attributes of the model when its fingerprint was compared

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_checked": None}

    def __repr__(self) -> str:
        return f"CertifiedModel({self.model!r}, threshold={self.threshold:.6g})"

    def decide(self, X: Any, cost: Cost | None = None) -> Decision:
        """Predict every row and accept the rows above the certified threshold.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Needed if the certificate is for one cost per row. Otherwise only the cost of the certificate is accepted.

        Returns
        -------
        Decision

        Raises
        ------
        ValueError
            If the certificate does not cover the cost, or the model was changed since it was certified.
        """
        self.check_model()
        return self.apply(self.model.decide(X, cost=self.model_cost(cost)))

    def apply(self, decision: Decision) -> Decision:
        """Accept the rows of a decision of the model whose score is above the certified threshold.

        Parameters
        ----------
        decision : Decision
            What `model` has decided with the cost that `model_cost` returns.

        Returns
        -------
        Decision

        Raises
        ------
        ValueError
            If the certificate does not cover the costs of the rows.
        """
        self._check_costs(decision)
        return decision.at_threshold(self.threshold)

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

    def check_model(self) -> None:
        """Raise a ValueError if the model is not the one that was certified; checksums are compared once."""
        state, known = getattr(self.model, "__dict__", {}), self._checked
        same = known is not None and known.keys() == state.keys() and all(state[name] is known[name] for name in known)
        if self.fingerprint is None or same:
            return
        if self.model.fingerprint != self.fingerprint:
            raise ValueError(
                f"the model must have the fingerprint {self.fingerprint[:12]} of the certificate, got "
                f"{self.model.fingerprint[:12]}: it was fitted again or changed, so certify it again"
            )
        self._checked = dict(state)

    def model_cost(self, cost: Any) -> Any:
        """Return the cost to pass to the model; None for that of the model itself, which may serve no other.

        Raises a ValueError if the certificate is for a cost that was given in another way.
        """
        own = getattr(self.model, "cost_", None)
        if self.cost_given == "per row":
            return self._cost_per_row(cost)
        if self.cost_ is None:  # the model has a callable, which is not in a model file
            if cost is not None and cost is not own and own is not None:
                raise ValueError(f"cost must be that of the model, which the certificate is for, got {cost!r:.80}")
            return cost
        if isinstance(self.cost_, str) and cost is not None and not _same(cost, self.cost_):
            raise ValueError(f"cost must be the column {self.cost_!r}, which the certificate is for, got {cost!r:.80}")
        if cost is None or _same(cost, self.cost_):
            return None if _same(own, self.cost_) else self.cost_
        return cost

    def _cost_per_row(self, cost: Any) -> Any:
        if cost is None:
            raise ValueError("the certificate is for one cost per row: pass cost=...")
        if isinstance(cost, str) and isinstance(self.cost_, str) and cost != self.cost_:
            raise ValueError(f"cost must be the column {self.cost_!r}, which the certificate is for, got {cost!r}")
        return cost

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


def _same(cost: Any, stated: float | str) -> bool:
    """Whether a cost is the stated number or column."""
    if isinstance(stated, str) or isinstance(cost, str):
        return isinstance(cost, str) and cost == stated
    return cost is not None and is_constant(cost) and float(cost) == stated
