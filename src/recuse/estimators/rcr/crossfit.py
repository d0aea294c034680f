"""Out-of-fold predictions of regressors, and the errors and inputs that rejectors are trained on.

The errors of a regressor on its training rows are too small to train a rejector on. Here each fold of the training
rows is predicted by members that were not trained on it. The inputs of the rejectors are the features, the prediction
h(x) and the logarithm of the disagreement among those members.

Members trained on a row are left out of its prediction and its disagreement, because their distance from the
out-of-fold members would leak the error. On new rows all members are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.engine.cost_range import CostRange
from recuse.engine.stack import outputs
from recuse.estimators.rcr.training import Chosen, ErrorRows, PairTraining, derived_seed
from recuse.rules.networks import RejectorInputs, disagreement
from recuse.tabular.folds import folds_of, held_out_split
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units, moments
from recuse.validation import require

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FoldPredictions:
    """The regressors of all folds, and their predictions of the rows that they were not trained on.

    Attributes
    ----------
    regressors : Chosen
    rows : Rows
        The training rows that are in a test part. The arrays below are about these rows.
    fold : ndarray of shape (row,)
        The fold whose regressors were not trained on the row.
    prediction, spread : ndarray of shape (row,)
        Mean and disagreement of the regressors of this fold, in units of the engine.
    """

    regressors: Chosen
    rows: Rows
    fold: NDArray[np.intp]
    prediction: Floats
    spread: Floats


def predict_folds(
    training: PairTraining, units: Units, train: Rows, held_out: Rows | None, cv: Any, fraction: float
) -> FoldPredictions:
    """Train regressors for each fold without its rows, and predict its rows with them.

    Parameters
    ----------
    training : PairTraining
    units : Units
    train : Rows
    held_out : Rows or None
        Rows that choose the regressors of all folds. Without them, each fold holds out some of its training rows.
    cv : int, splitter or iterable
        The folds; the splits of a splitter are already marked in the rows.
    fraction : float
        Share of the training rows of a fold that is held out.
    """
    parts = folds_of(train, cv, np.random.RandomState(training.shuffle))
    require(len(parts) >= 2, "cv", "a division with at least 2 test parts", len(parts))
    learning = [train.take(rows) for rows, _ in parts]
    if held_out is None:
        seeds = [derived_seed(training.shuffle, fold) for fold in range(len(parts))]
        divided = [_divide(rows, fraction, seed) for rows, seed in zip(learning, seeds, strict=True)]
    else:
        divided = [(rows, held_out) for rows in learning]
    regressors = training.regressors(units, divided)
    features, fold = units.features(train.X), np.full(len(train), -1)
    prediction, spread = np.empty(len(train)), np.empty(len(train))
    ends = np.cumsum(regressors.sizes)
    for number, (_, left_out) in enumerate(parts):
        members = range(ends[number] - regressors.sizes[number], ends[number])
        by_member = outputs(regressors.stacks[0].take(members), features[left_out])
        prediction[left_out], spread[left_out] = by_member.mean(axis=0), disagreement(by_member)
        fold[left_out] = number
    tested = np.flatnonzero(fold >= 0)
    return FoldPredictions(regressors, train.take(tested), fold[tested], prediction[tested], spread[tested])


def _divide(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """Return training rows and validation rows; a single row is used for both."""
    if len(rows) == 1:
        return rows, rows
    learning, validation = held_out_split(rows, fraction, np.random.RandomState(seed))
    return rows.take(learning), rows.take(validation)


def learn_inputs(
    units: Units, cost_range: CostRange | None, predicted: FoldPredictions, *, single: bool
) -> RejectorInputs:
    """Learn the scales of the inputs of rejectors from predictions; `single` means one member for each fold."""
    weight, spread = predicted.rows.weight, predicted.spread
    mean, scale = moments(predicted.prediction, weight)
    log_spread = None
    if not single:
        floor = 1e-3 * float(spread.mean()) or 1.0  # keeps the logarithm of full agreement finite
        log_mean, log_scale = moments(np.log(spread + floor), weight)
        log_spread = floor, log_mean, log_scale or 1.0
    return RejectorInputs(units, cost_range, predicted.regressors.sizes, (mean, scale or 1.0), log_spread)


def error_rows(inputs: RejectorInputs, predicted: FoldPredictions) -> ErrorRows:
    """Return the out-of-fold errors."""
    seen = inputs.of_rows(inputs.units.features(predicted.rows.X), predicted.prediction, predicted.spread)
    return _with_errors(inputs, predicted.rows, seen, predicted.prediction)


def held_out_errors(inputs: RejectorInputs, predicted: FoldPredictions, held_out: Rows) -> ErrorRows:
    """Return the errors of the mean of all regressors on validation rows."""
    features = inputs.units.features(held_out.X)
    predictions = outputs(predicted.regressors.stacks[0], features)
    return _with_errors(inputs, held_out, inputs.of_new_rows(features, predictions), predictions.mean(axis=0))


def _with_errors(inputs: RejectorInputs, rows: Rows, seen: Floats, prediction: Floats) -> ErrorRows:
    units = inputs.units
    cost = None if units.log_cost is None else units.cost(rows.cost)
    return ErrorRows(inputs.with_cost(seen, rows.cost), units.cost(units.errors(prediction, rows)), rows.weight, cost)
