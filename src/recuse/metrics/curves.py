"""Risk-coverage curves, the area under them, and measures against the cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from recuse.losses import LossLike
from recuse.metrics.measures import DecisionLike, Floats, evaluate, numbers, row_losses, same_length

if TYPE_CHECKING:
    import pandas as pd


def risk_coverage_curve(
    y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, *, loss: LossLike = "squared"
) -> tuple[Floats, Floats, Floats]:
    """Compute the mean loss of the accepted rows for every threshold on the score.

    Rows of equal score are accepted together, so the curve does not depend on the order of the rows.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
    score : array-like of shape (n_rows,)
        Larger for rows to accept first.
    loss : str or TargetLoss, default="squared"

    Returns
    -------
    coverage, risk, threshold : ndarrays of shape (n_distinct_scores,)
        The rows with ``score >= threshold[i]`` are the share ``coverage[i]`` of all rows and have the mean loss
        ``risk[i]``.

    Examples
    --------
    >>> coverage, risk, threshold = risk_coverage_curve([0, 0, 0, 0], [1, 1, 2, 3], score=[9, 9, 5, 1])
    >>> coverage, risk
    (array([0.5 , 0.75, 1.  ]), array([1.  , 2.  , 3.75]))
    """
    error, rank = row_losses(y_true, y_pred, loss), numbers(score, "score")
    same_length(y_true=error, score=rank)
    # ties are sorted by error, so that the order of the rows does not change the rounding
    order = np.lexsort((error, -rank))
    ranked = rank[order]
    count = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, len(ranked))
    return count / len(error), np.cumsum(error[order])[count - 1] / count, ranked[count - 1]


def area_under_risk_coverage(
    y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, *, excess: bool = False, loss: LossLike = "squared"
) -> float:
    """Compute the area under the risk-coverage curve: the mean risk over all coverages; smaller is better.

    Rows of equal score count by the mean over all their orders.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
    score : array-like of shape (n_rows,)
    excess : bool, default=False
        Subtract the area of the oracle, which ranks the rows by their true loss; the result is never negative.
    loss : str or TargetLoss, default="squared"

    Examples
    --------
    >>> area_under_risk_coverage([0, 0], [1, 3], score=[2, 1])
    3.0
    >>> area_under_risk_coverage([0, 0], [1, 3], score=[2, 1], excess=True)
    0.0
    """
    coverage, risk, _ = risk_coverage_curve(y_true, y_pred, score, loss=loss)
    rows = np.arange(1, len(np.asarray(y_true)) + 1)
    count = np.rint(coverage * len(rows))
    # within a tie the expected sum of errors is linear in the number of rows
    sums = np.interp(rows, np.append(0.0, count), np.append(0.0, risk * count))
    area = float(np.mean(sums / rows))
    if not excess:
        return area
    oracle = area_under_risk_coverage(y_true, y_pred, -row_losses(y_true, y_pred, loss), loss=loss)
    return max(area - oracle, 0.0)  # negative by rounding only


def cost_curve(y_true: ArrayLike, decisions: Iterable[DecisionLike], *, loss: LossLike | None = None) -> pd.DataFrame:
    """Compute all measures of decisions at several costs, one row each, in order of the mean cost.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    decisions : iterable of Decision
    loss : str or TargetLoss, optional
        By default the loss of each decision.

    Returns
    -------
    DataFrame
        The column "cost" and the measures of `evaluate`.

    Examples
    --------
    >>> from recuse import Decision
    >>> cheap = Decision([1.0, 2.0], [True, False], score=[0.3, -0.2], cost=4.0)
    >>> dear = Decision([1.0, 2.0], [True, True], score=[0.3, 0.2], cost=20.0)
    >>> cost_curve([1.0, 5.0], [dear, cheap])[["cost", "rcr_loss", "rejection_rate"]]
       cost  rcr_loss  rejection_rate
    0   4.0       2.0             0.5
    1  20.0       4.5             0.0
    """
    import pandas as pd

    records = [{"cost": float(np.mean(d.cost)), **evaluate(y_true, d, loss=loss)} for d in decisions]
    if not records:
        raise ValueError("cost_curve needs at least one decision, got none")
    return pd.DataFrame(records).sort_values("cost", ignore_index=True)
