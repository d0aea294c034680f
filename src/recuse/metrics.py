"""What a rejecting regressor is worth: targets, predictions, acceptances, costs -> numbers.

With a = accepted and e = (prediction - target)^2, all measures are means over rows. A measure over no
rows at all (the accepted loss when everything was rejected, say) is NaN, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from recuse.costs import resolve

__all__ = [
    "accepted_loss",
    "area_under_risk_coverage",
    "cost_curve",
    "evaluate",
    "false_acceptance_rate",
    "false_rejection_rate",
    "rcr_loss",
    "rcr_scorer",
    "rejected_loss",
    "rejection_rate",
    "risk_coverage_curve",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class DecisionLike(Protocol):
    """Anything with the fields of a `recuse.Decision`."""

    @property
    def prediction(self) -> Floats: ...
    @property
    def accepted(self) -> Flags: ...
    @property
    def cost(self) -> Floats: ...


def squared_error(y_true: ArrayLike, y_pred: ArrayLike) -> Floats:
    """Squared error of every row, after checking that the rows match.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [1.5, 2.0])
    array([0.25, 0.  ])
    """
    target, prediction = _rows(y_true, "y_true"), _rows(y_pred, "y_pred")
    _same_length(y_true=target, y_pred=prediction)
    return np.square(prediction - target)


def rcr_loss_rows(error: Floats, accepted: Flags, cost: Floats) -> Floats:
    """Loss of every row: the squared error where accepted, the cost where rejected."""
    return np.where(accepted, error, cost)


def rcr_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean of the squared error of accepted rows and the cost of rejected rows.

    Examples
    --------
    >>> rcr_loss([1, 2, 3], [1, 4, 3], accepted=[True, False, True], cost=1.5)
    0.5
    """
    error, flags = _checked(y_true, y_pred, accepted)
    rows = rcr_loss_rows(error, flags, resolve(cost, None, len(error)))
    return _mean(rows, np.ones_like(flags), sample_weight)


def accepted_loss(
    y_true: ArrayLike, y_pred: ArrayLike, accepted: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean squared error over the accepted rows (AL).

    Examples
    --------
    >>> accepted_loss([1, 2, 3], [1, 4, 4], accepted=[True, False, True])
    0.5
    """
    error, flags = _checked(y_true, y_pred, accepted)
    return _mean(error, flags, sample_weight)


def rejected_loss(
    y_true: ArrayLike, y_pred: ArrayLike, accepted: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean squared error over the rejected rows (RL): what the rejections kept out.

    Examples
    --------
    >>> rejected_loss([1, 2, 3], [1, 4, 4], accepted=[True, False, True])
    4.0
    """
    error, flags = _checked(y_true, y_pred, accepted)
    return _mean(error, ~flags, sample_weight)


def rejection_rate(accepted: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of rows that were rejected (Rej).

    Examples
    --------
    >>> rejection_rate([True, False, False, True])
    0.5
    """
    flags = _flags(accepted)
    return _mean(~flags, np.ones_like(flags), sample_weight)


def false_rejection_rate(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Share rejected among the rows whose error is below the cost (AR).

    Examples
    --------
    >>> false_rejection_rate([1, 2, 3], [1, 2, 9], accepted=[True, False, False], cost=1.0)
    0.5
    """
    error, flags = _checked(y_true, y_pred, accepted)
    return _mean(~flags, error < resolve(cost, None, len(error)), sample_weight)


def false_acceptance_rate(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    accepted: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Share accepted among the rows whose error is at least the cost (RA).

    Examples
    --------
    >>> false_acceptance_rate([1, 2, 3], [1, 2, 9], accepted=[True, True, True], cost=1.0)
    1.0
    """
    error, flags = _checked(y_true, y_pred, accepted)
    return _mean(flags, error >= resolve(cost, None, len(error)), sample_weight)


def evaluate(y_true: ArrayLike, decision: DecisionLike, *, sample_weight: ArrayLike | None = None) -> dict[str, float]:
    """All measures of one decision, beside the three yardsticks.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    decision : Decision
    sample_weight : array-like of shape (n_rows,), optional

    Returns
    -------
    dict of str to float
        ``rcr_loss``, ``accepted_loss``, ``rejected_loss``, ``rejection_rate``, ``false_rejection_rate``,
        ``false_acceptance_rate``; ``always_accept`` and ``always_reject``, the losses of never and of
        always rejecting; ``oracle``, the loss of somebody who sees the labels.

    Examples
    --------
    >>> from recuse import Decision
    >>> measures = evaluate([1.0, 5.0], Decision([1.0, 2.0], [True, False], score=[0.3, -0.2], cost=4.0))
    >>> measures["rcr_loss"], measures["always_accept"], measures["always_reject"], measures["oracle"]
    (2.0, 4.5, 4.0, 2.0)
    """
    error, flags = _checked(y_true, decision.prediction, decision.accepted)
    cost = resolve(decision.cost, None, len(error))
    everyone = np.ones_like(flags)

    def mean(rows: NDArray[Any], among: Flags) -> float:
        return _mean(rows, among, sample_weight)

    return {
        "rcr_loss": mean(rcr_loss_rows(error, flags, cost), everyone),
        "accepted_loss": mean(error, flags),
        "rejected_loss": mean(error, ~flags),
        "rejection_rate": mean(~flags, everyone),
        "false_rejection_rate": mean(~flags, error < cost),
        "false_acceptance_rate": mean(flags, error >= cost),
        "always_accept": mean(error, everyone),
        "always_reject": mean(cost, everyone),
        "oracle": mean(np.minimum(error, cost), everyone),
    }


def risk_coverage_curve(y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Mean squared error of the rows accepted so far, as the threshold on the score falls.

    Rows of equal score enter together, so the curve does not depend on the order of the rows.

    Returns
    -------
    coverage, risk, threshold : ndarrays of shape (n_distinct_scores,)
        Accepting every row with ``score >= threshold[i]`` covers the share ``coverage[i]`` at the mean
        squared error ``risk[i]``.

    Examples
    --------
    >>> coverage, risk, threshold = risk_coverage_curve([0, 0, 0, 0], [1, 1, 2, 3], score=[9, 9, 5, 1])
    >>> coverage, risk
    (array([0.5 , 0.75, 1.  ]), array([1.  , 2.  , 3.75]))
    """
    error, rank = squared_error(y_true, y_pred), _rows(score, "score")
    _same_length(y_true=error, score=rank)
    # within a tie by error, so that the order of the rows cannot change even the last digit
    order = np.lexsort((error, -rank))
    ranked = rank[order]
    count = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, len(ranked))
    return count / len(error), np.cumsum(error[order])[count - 1] / count, ranked[count - 1]


def area_under_risk_coverage(y_true: ArrayLike, y_pred: ArrayLike, score: ArrayLike, *, excess: bool = False) -> float:
    """Area under the risk-coverage curve: the mean risk over all coverages; smaller is better.

    Rows of equal score stand in no order: they count by the mean over all their orders.

    Parameters
    ----------
    y_true, y_pred, score : array-like of shape (n_rows,)
    excess : bool, default=False
        Subtract the area of the oracle order, which accepts rows by their true error; never negative.

    Examples
    --------
    >>> area_under_risk_coverage([0, 0], [1, 3], score=[2, 1])
    3.0
    >>> area_under_risk_coverage([0, 0], [1, 3], score=[2, 1], excess=True)
    0.0
    """
    coverage, risk, _ = risk_coverage_curve(y_true, y_pred, score)
    rows = np.arange(1, len(np.asarray(y_true)) + 1)
    count = np.rint(coverage * len(rows))
    # within a tie the expected sum of errors grows evenly from row to row
    sums = np.interp(rows, np.append(0.0, count), np.append(0.0, risk * count))
    area = float(np.mean(sums / rows))
    if not excess:
        return area
    oracle = area_under_risk_coverage(y_true, y_pred, -squared_error(y_true, y_pred))
    return max(area - oracle, 0.0)  # below zero by rounding only


def cost_curve(y_true: ArrayLike, decisions: Iterable[DecisionLike]) -> pd.DataFrame:
    """All measures of decisions taken at several costs, one row each, by rising mean cost.

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
    records = [{"cost": float(np.mean(d.cost)), **evaluate(y_true, d)} for d in decisions]
    if not records:
        raise ValueError("cost_curve needs at least one decision, got none")
    return pd.DataFrame(records).sort_values("cost", ignore_index=True)


class _RcRScorer:
    """``scoring=rcr_scorer``: the negative RcR loss of ``estimator.decide(X)``, for model selection.

    The estimator may be the last step of a pipeline.
    """

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        cost: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        if isinstance(estimator, Pipeline):
            features = estimator[:-1].transform(X) if len(estimator) > 1 else X
            return self(estimator[-1], features, y, cost, sample_weight)
        return -evaluate(y, estimator.decide(X, cost=cost), sample_weight=sample_weight)["rcr_loss"]

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask scikit-learn for `cost` and `sample_weight` where the user passes them."""
        request = MetadataRequest(owner="rcr_scorer")
        for name in ("cost", "sample_weight"):
            request.score.add_request(param=name, alias=True)
        return request

    def __repr__(self) -> str:
        return "rcr_scorer"


rcr_scorer = _RcRScorer()


def _rows(values: ArrayLike, name: str) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1:
        raise ValueError(f"{name} must have one value per row, got shape {rows.shape}")
    if len(rows) == 0:
        raise ValueError(f"{name} must have at least one row, got none")
    if not np.isfinite(rows).all():
        row = int((~np.isfinite(rows)).argmax())
        raise ValueError(f"{name} must be finite, got {rows[row]} at row {row}")
    return rows


def _flags(accepted: ArrayLike) -> Flags:
    flags = np.asarray(accepted)
    if flags.ndim != 1:
        raise ValueError(f"accepted must have one value per row, got shape {flags.shape}")
    if len(flags) == 0:
        raise ValueError("accepted must have at least one row, got none")
    if not np.isin(flags, (0, 1)).all():
        row = int((~np.isin(flags, (0, 1))).argmax())
        raise ValueError(f"accepted must be True or False, got {flags[row]} at row {row}")
    return flags.astype(np.bool_)


def _same_length(**columns: Any) -> None:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"all inputs must have the same number of rows, got {lengths}")


def _checked(y_true: ArrayLike, y_pred: ArrayLike, accepted: ArrayLike) -> tuple[Floats, Flags]:
    error, flags = squared_error(y_true, y_pred), _flags(accepted)
    _same_length(y_true=error, accepted=flags)
    return error, flags


def _mean(rows: NDArray[Any], among: Flags, sample_weight: ArrayLike | None) -> float:
    """Weighted mean of the rows selected by `among`; NaN when their weight is nothing."""
    weight = np.ones(len(rows)) if sample_weight is None else _rows(sample_weight, "sample_weight")
    _same_length(y_true=rows, sample_weight=weight)
    if (weight < 0).any():
        raise ValueError(f"sample_weight must be >= 0, got {weight.min()}")
    total = weight[among].sum()
    return float((weight[among] * rows[among]).sum() / total) if total > 0 else float("nan")
