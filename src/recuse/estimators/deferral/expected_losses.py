"""Models of the expected losses: of the own regressor, and of each expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.candidates import LEARNERS, RISK_MODELS, with_weighted
from recuse.estimators.crossfitting import Sample
from recuse.estimators.risk.model import learn_risk
from recuse.losses import Squared, TargetLoss
from recuse.rules.deferral import ExpertLoss
from recuse.rules.risk import ScaledRisk
from recuse.tabular.folds import Split, splits_of_tested
from recuse.tabular.rows import Rows
from recuse.tabular.units import moments

__all__ = ["default_expected_loss", "default_own_regressor", "learn_expected_loss"]

Floats = NDArray[np.float64]

_LEAST_ROWS = 10  # with a prediction of the expert


def default_own_regressor(n_rows: int, loss: TargetLoss) -> Any:
    """Return small networks; with the squared error and many rows, noisy rows have less weight."""
    learners = with_weighted({"networks": LEARNERS["networks"]}, n_rows)
    weighted = isinstance(loss, Squared) and "networks_weighted" in learners
    return learners["networks_weighted" if weighted else "networks"].build(n_rows, loss)


def default_expected_loss(n_rows: int, loss: TargetLoss) -> Any:
    """Return networks that predict the logarithm of the expected loss."""
    return RISK_MODELS["network"].build(n_rows, loss)


def learn_expected_loss(
    part: Any,
    rows: Rows,
    features: Floats,
    prediction: Floats,
    *,
    name: str,
    sees_prediction: bool,
    loss: TargetLoss,
    splits: Sequence[Split],
    random: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[ExpertLoss, Floats]:
    """Cross-fit a model of the losses of an expert, to the rows that it has predicted.

    Parameters
    ----------
    part : estimator
    rows : Rows
    features : ndarray of shape (row, feature)
    prediction : ndarray of shape (row,)
        NaN where the expert made none.
    name : str
        Of the expert, for errors.
    sees_prediction : bool
        Whether the prediction is an input of the model.
    loss : TargetLoss
    splits : sequence of (train, test)
        Folds of all rows. Only rows in a test part are used.
    random, n_jobs
        As in `learn_risk`.

    Returns
    -------
    ExpertLoss
    ndarray of shape (row,)
        Expected losses of the rows by models that were not fitted to them.
    """
    parts = [test[np.isfinite(prediction[test])] for _, test in splits]
    count = sum(map(len, parts))
    if count < _LEAST_ROWS:
        raise ValueError(f"expert {name!r} must have predictions of at least {_LEAST_ROWS} rows, got {count}")
    learned, folds = splits_of_tested([(part, part) for part in parts if len(part)])
    scale = moments(prediction[learned], rows.weight[learned]) if sees_prediction else None
    error = loss(prediction[learned] - rows.y[learned])
    untrained = ExpertLoss(name, ScaledRisk((), 1.0), scale)
    inputs = untrained.inputs(features[learned], prediction[learned])
    sample = Sample(inputs, error, rows.weight[learned])
    risk = learn_risk(part, sample, folds if len(folds) > 1 else None, random, n_jobs)
    model = replace(untrained, risk=risk.risk)
    expected = model(features, prediction)
    if len(folds) > 1:
        expected[learned] = risk.out_of_fold
    return model, expected
