"""Weighted blends of cross-fitted regressors and of their risk models.

The weights for the out-of-fold results of a fold are fitted without it, so that no row influences its own result. The
weights for new rows are fitted to all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.models.out_of_bag import out_of_bag_prediction
from recuse.estimators.auto.models.smaller_models import smaller_model
from recuse.estimators.auto.weights import (
    regressor_weights,
    risk_weights,
    share_accepted,
    sparse_risk_weights,
    sparse_weights,
)
from recuse.estimators.crossfitting import CrossFitted
from recuse.estimators.risk.model import CrossFittedRisk
from recuse.losses import TargetLoss
from recuse.rules.risk import RiskModels
from recuse.tabular.folds import Split
from recuse.tabular.rows import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# (rows, share): of tables with fewer rows, the mean over the folds is used if their loss exceeds this share of that of
# a constant prediction; then averaging helps more than additional rows. With more rows it makes decisions too slow.
_NOISY = ((600, 0.05), (5_000, 0.25))


@dataclass(frozen=True)
class BlendPrediction:
    """Predictions of some rows by the regressors of a blend, and by the blend.

    Attributes
    ----------
    each : ndarray of shape (model, row) or (model, row, output)
    prediction : ndarray of shape (row,) or (row, output)
    """

    each: Floats
    prediction: Floats

    def take(self, rows: Indices) -> BlendPrediction:
        """Return some of the rows."""
        return BlendPrediction(self.each[:, rows], self.prediction[rows])


def smaller(models: RiskModels) -> RiskModels:
    """Return nearly the same blend for faster decisions, with fewer trees of forests and centres of processes."""
    regressors = tuple(
        tuple(smaller_model(copy, len(copies), weight) for copy in copies)
        for copies, weight in zip(models.regressors, models.weights, strict=True)
    )
    risks = tuple(
        replace(risk, models=tuple(smaller_model(each, len(risk.models), weight) for each in risk.models))
        for risk, weight in zip(models.risks, models.risk_weights, strict=True)
    )
    return replace(models, regressors=regressors, risks=risks)


def blend_regressors(
    fitted: Sequence[CrossFitted],
    rows: Rows,
    inputs: Floats,
    parts: Sequence[Indices],
    loss: TargetLoss,
    random: np.random.RandomState,
) -> tuple[Floats, BlendPrediction]:
    """Find the weights with the lowest out-of-fold loss of the rows that are likely to be accepted.

    The error of a row counts by the share of the costs near its own at which it would be accepted. A forest estimates
    its risk for this, from the errors of a first blend in which all rows count alike. Regressors without which the
    loss is hardly higher get no weight, since every regressor costs time in each decision.

    Parameters
    ----------
    fitted : sequence of CrossFitted
    rows : Rows
    inputs : ndarray of shape (row, input)
        Of the forest.
    parts : sequence of ndarray
        Test rows of each fold.
    loss : TargetLoss
    random : RandomState

    Returns
    -------
    ndarray of shape (regressor,)
        The weights.
    BlendPrediction
        Out-of-fold predictions of all rows; NaN for rows in no test part.
    """
    each, target = np.array([model.out_of_fold.mean for model in fitted]), rows.y
    seed = int(random.randint(2**31 - 1))

    def weights_by(some: Indices) -> Floats:
        if len(each) == 1:
            return np.ones(1)
        predictions, targets, weight = each[:, some], target[some], rows.weight[some]
        first = np.tensordot(regressor_weights(predictions, targets, weight, loss), predictions, 1)
        return sparse_weights(
            predictions, targets, likely_accepted(first, rows.take(some), inputs[some], loss, seed), loss
        )

    weights, of_fold = _weights_by_fold(weights_by, parts)
    prediction = np.full_like(target, np.nan)
    for part, own in zip(parts, of_fold, strict=True):
        prediction[part] = np.tensordot(own, each[:, part], 1)
    return weights, BlendPrediction(each, prediction)


def likely_accepted(prediction: Floats, rows: Rows, inputs: Floats, loss: TargetLoss, seed: int) -> Floats:
    """Return the weights (row,) of rows, times the share of the costs near their own at which they are accepted.

    If none would be accepted, the weights are returned as they are.

    Parameters
    ----------
    prediction : ndarray of shape (row,) or (row, output)
        Out of fold.
    rows : Rows
    inputs : ndarray of shape (row, input)
        Of the forest that estimates the risk, to which the prediction is added.
    loss : TargetLoss
    seed : int
        Of the forest.
    """
    error = loss(prediction - rows.y)
    unit = float(error.mean()) or 1.0
    columns = np.column_stack([inputs, prediction.reshape(len(error), -1)])
    risk = unit * out_of_bag_prediction(columns, error / unit, rows.weight, 5, np.random.RandomState(seed))
    counts = rows.weight * share_accepted(risk, rows.cost)
    return counts if counts.any() else rows.weight


def blend_risks(
    fitted: Sequence[CrossFittedRisk],
    error: Floats,
    cost: Floats,
    weight: Floats,
    splits: Sequence[Split],
    sparse: bool = False,
) -> tuple[Floats, Floats]:
    """Blend risk models such that the out-of-fold RcR loss is lowest, averaged over costs around the given ones.

    Parameters
    ----------
    fitted : sequence of CrossFittedRisk
    error, cost, weight : ndarray of shape (row,)
    splits : sequence of (train, test)
    sparse : bool
        Give no weight to risk models that are hardly needed. This costs some of the loss where rows are few and noisy.

    Returns
    -------
    ndarray of shape (risk model,)
        The weights.
    ndarray of shape (row,)
        Out-of-fold risk of the blend.
    """
    each = np.array([model.out_of_fold for model in fitted])
    best = sparse_risk_weights if sparse else risk_weights

    def weights_by(rows: Indices) -> Floats:
        return best(each[:, rows], error[rows], cost[rows], weight[rows])

    weights, of_fold = _weights_by_fold(weights_by, [test for _, test in splits])
    risk = np.empty_like(error)
    for (_, part), own in zip(splits, of_fold, strict=True):
        risk[part] = own @ each[:, part]
    return weights, risk


def _weights_by_fold(weights_by: Callable[[Indices], Floats], parts: Sequence[Indices]) -> tuple[Floats, list[Floats]]:
    """Return the weights fitted to all rows, and for each part those fitted to the other parts."""
    everything = np.sort(np.concatenate(list(parts)))
    overall = weights_by(everything)
    if len(parts) == 1:
        return overall, [overall]
    return overall, [weights_by(np.setdiff1d(everything, part)) for part in parts]


def few_enough_to_keep_folds(n_rows: int) -> bool:
    """Whether decisions are fast enough if the mean over the models of the folds is used.

    Examples
    --------
    >>> few_enough_to_keep_folds(1000), few_enough_to_keep_folds(100_000)
    (True, False)
    """
    return n_rows < _NOISY[-1][0]


def keeps_folds(prediction: Floats, rows: Rows, loss: TargetLoss) -> bool:
    """Whether new rows are predicted by the mean over the models of the folds, instead of by models of all rows.

    With few and noisy rows, the mean has the lower loss, since the models differ by chance. With little noise, the
    additional rows help more.

    Parameters
    ----------
    prediction : ndarray of shape (row,) or (row, output)
        Out of fold, of all rows.
    rows : Rows
    loss : TargetLoss
    """
    share = next((share for count, share in _NOISY if len(rows) < count), np.inf)
    constant = np.broadcast_to(np.average(rows.y, axis=0, weights=rows.weight), rows.y.shape)
    of_constant = float(np.average(loss(constant - rows.y), weights=rows.weight))
    return float(np.average(loss(prediction - rows.y), weights=rows.weight)) > share * of_constant
