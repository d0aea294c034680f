"""Decisions at every cost and budget of the page, from one number for each row.

A row is accepted at every cost above its own threshold. So the thresholds determine the decisions at all costs, and the
page computes all measures from thresholds, losses and costs of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.inspection.explanations import has_expected_loss

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel

__all__ = ["RowDecisions", "row_decisions"]

Floats = NDArray[np.float64]

# Positions of the slider; fewer for a model without an expected loss, which must decide at each of them.
_POSITIONS, _SEARCHED = 101, 41
# The slider goes from the cost divided by this number to the cost times it.
_SPAN = 8.0


@dataclass(frozen=True)
class RowDecisions:
    """Thresholds, losses and costs of rows, sorted by threshold.

    Attributes
    ----------
    threshold : ndarray of shape (row,)
        A row is accepted where the position of the slider is above its threshold.
    loss : ndarray of shape (row,)
        Loss of the prediction.
    unit : ndarray of shape (row,)
        Cost of a row where the slider is at 1; its cost elsewhere is the position times the unit.
    expected : ndarray of shape (row,) or None
        Expected loss, if costs differ by row and it is known. Within a budget, the rows with the lowest cost minus
        expected loss are then rejected, and not those with the highest threshold.
    order : ndarray of shape (row,)
        Place of each sorted row in the table.
    positions : ndarray of shape (position,)
        Positions of the slider.
    start : int
        The position at the cost of the model.
    by_row : bool
        Whether costs differ by row, so that positions are factors and not costs.
    """

    threshold: Floats
    loss: Floats
    unit: Floats
    expected: Floats | None
    order: NDArray[np.intp]
    positions: Floats
    start: int
    by_row: bool


def row_decisions(model: ServedModel, X: Any, decision: Decision, loss: Floats) -> RowDecisions:
    """Find the threshold of every row.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    X : table
    decision : Decision
        At the cost of the report.
    loss : ndarray of shape (row,)
    """
    cost = decision.cost
    by_row = bool(np.ptp(cost) > 0)
    centre, unit = (1.0, cost) if by_row else (float(cost[0]), np.ones(len(cost)))
    known = has_expected_loss(decision)
    positions, start = _positions(model, centre, _POSITIONS if known else _SEARCHED, by_row=by_row)
    if known:
        expected = cost - decision.score  # the score is the cost minus the expected loss
        with np.errstate(divide="ignore", invalid="ignore"):
            threshold = np.where(unit > 0, expected / unit, np.inf)
    elif len(positions) == 1:
        threshold = centre - decision.score  # accepted where the score is above 0
    else:
        threshold = _searched(model, X, unit, positions)
    order = np.lexsort([-decision.score, threshold])
    by_score = (cost - decision.score)[order] if by_row and known else None
    return RowDecisions(threshold[order], loss[order], unit[order], by_score, order, positions, start, by_row)


def _positions(model: ServedModel, centre: float, count: int, *, by_row: bool) -> tuple[Floats, int]:
    """Return the positions of the slider, on a logarithmic scale, and the place of the cost of the report."""
    cost_range = getattr(model, "cost_range_", None)
    if cost_range is not None and not by_row:
        low, high = cost_range
    elif not model.serves_any_cost or centre <= 0 or (cost_range is not None and by_row):
        return np.array([centre]), 0
    else:
        low, high = centre / _SPAN, centre * _SPAN
    positions = np.array([float(f"{each:.4g}") for each in np.geomspace(low, high, count)])
    positions = np.clip(positions, low, high)
    start = int(np.abs(np.log(positions / centre)).argmin())
    positions[start] = centre
    return positions, start


def _searched(model: ServedModel, X: Any, unit: Floats, positions: Floats) -> Floats:
    """Find, for every row, the lowest position at which the model accepts it; decisions are monotone in the cost."""
    threshold = np.full(len(unit), np.inf)
    for position in positions[::-1]:
        accepted = model.decide(X, cost=position * unit).accepted
        threshold[accepted] = np.nextafter(position, 0)  # just below the position
    return threshold
