"""Losses and fees of assignments, beside those of simpler rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse.costs import row_values
from recuse.dataframes import aligned, float_array
from recuse.metrics.measures import numbers, same_length
from recuse.validation import require

if TYPE_CHECKING:
    from recuse.experts.decision import DeferralDecision

__all__ = ["measure"]

Floats = NDArray[np.float64]


def measure(
    decision: DeferralDecision,
    y_true: Any,
    answers: Mapping[str, ArrayLike] | None,
    sample_weight: ArrayLike | None,
) -> pd.DataFrame:
    """Return one line for each action, the total, each action for all rows, and the oracle.

    The parameters and the result are those of `DeferralDecision.evaluate`.
    """
    target = numbers(aligned(y_true, decision.index, "y_true"), "y_true")
    same_length(y_true=target, decision=decision.action)
    predictions = _with_answers(decision, answers or {})
    known = np.isfinite(predictions)
    error = np.column_stack([decision.loss(column - target) for column in predictions.T])
    losses = np.where(known, error, decision.expected_loss)
    weight = aligned(1.0 if sample_weight is None else sample_weight, decision.index, "sample_weight")
    lines = _Lines(losses, decision.fees, known, row_values(weight, "sample_weight", len(target)))
    everyone = np.ones(len(target), dtype=bool)
    table = {name: lines.line(decision.action, decision.action == k) for k, name in enumerate(decision.names)}
    table["total"] = lines.line(decision.action, everyone)
    for k, name in enumerate(decision.names):
        table[f"always {name}"] = lines.line(np.where(np.isfinite(losses[:, k]), k, 0), everyone)
    table["oracle"] = lines.line((losses + decision.fees).argmin(axis=1), everyone)
    return pd.DataFrame.from_dict(table, orient="index").astype({"rows": int, "estimated": int})


class _Lines:
    """Measures of some rows, each with an action."""

    def __init__(self, losses: Floats, fees: Floats, known: NDArray[np.bool_], weight: Floats) -> None:
        self._losses, self._fees, self._known, self._weight = losses, fees, known, weight

    def line(self, action: NDArray[np.intp], among: NDArray[np.bool_]) -> dict[str, float]:
        """Return the measures of the rows `among`."""
        rows = np.flatnonzero(among)
        chosen, weight = (rows, action[rows]), self._weight[rows]
        total = weight.sum()

        def mean(values: Floats) -> float:
            return float((weight * values).sum() / total) if total > 0 else float("nan")

        loss, fee = self._losses[chosen], self._fees[chosen]
        return {
            "rows": len(rows),
            "share": float(total / self._weight.sum()),
            "loss": mean(loss),
            "fee": mean(fee),
            "total": mean(loss + fee),
            "fees_paid": float((weight * fee).sum()),
            "estimated": int((~self._known[chosen]).sum()),
        }


def _with_answers(decision: DeferralDecision, answers: Mapping[str, ArrayLike]) -> Floats:
    """Return the predictions (row, action), with the answers that experts have given since."""
    predictions = decision.predictions.copy()
    for name, given in answers.items():
        require(name in decision.names[1:], "answers", f"a mapping with names among {decision.names[1:]}", name)
        label = f"the answers of {name!r}"
        values = float_array(aligned(given, decision.index, label), label)
        if values.shape != (len(decision),):
            raise ValueError(f"{label} must have one value for each of {len(decision)} rows, got shape {values.shape}")
        column = predictions[:, decision.names.index(name)]
        column[:] = np.where(np.isfinite(values), values, column)
    return predictions
