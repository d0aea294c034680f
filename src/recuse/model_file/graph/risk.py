"""Conversion of RiskRejector and AutoRejector: predictions and expected losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from recuse.estimators.auto.models.novelty import FLOOR, Novelty
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.risk.base import RiskBasedRegressor
from recuse.estimators.risk.calibration import PowerCalibration
from recuse.estimators.risk.model import CrossFittedRisk
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.columns import EncodedTable
from recuse.model_file.graph.conversion import convert
from recuse.model_file.graph.networks import member_predictions
from recuse.model_file.graph.operators import INT64
from recuse.model_file.graph.regressors.kernels import square_distances

__all__ = ["auto_estimate", "risk_estimate"]


def risk_estimate(estimator: Any, table: EncodedTable, raw: Value | None) -> tuple[Value, Value]:
    """Return the prediction (row, output) and the expected loss (row, 1) of a fitted RiskRejector.

    Parameters
    ----------
    estimator : RiskRejector
    table : EncodedTable
    raw : Value of shape (row, column) or None
        The columns as they are, for a prefitted regressor.
    """
    predictions, inputs = [], []
    for regressor in estimator.regressors_:
        prediction, spread = _prediction(regressor, table.features if raw is None else raw)
        predictions.append(prediction)
        inputs.append(_risk_inputs(estimator, table.features, prediction, spread))
    risk = CrossFittedRisk(tuple(estimator.risks_), estimator.scale_)
    return _mean(predictions), _expected_loss(estimator, _mean(_risks(risk, inputs)), table)


def _prediction(regressor: Any, x: Value) -> tuple[Value, Value | None]:
    """Return the prediction (row, output) and the standard deviation (row, 1) among members, if there are any."""
    if not hasattr(regressor, "predict_members"):
        return convert(regressor, x), None
    if type(regressor) is not StackedMLPRegressor:
        raise ConversionError(
            f"{type(regressor).__name__} has predict_members and cannot be saved in a model file: only "
            "StackedMLPRegressor can"
        )
    members = member_predictions(regressor, x)
    mean = members.mean(axis=0)
    difference = members - mean
    return mean, (difference * difference).mean(axis=0).mean(axis=1, keepdims=True).unary("Sqrt")


def _risk_inputs(estimator: Any, features: Value, prediction: Value, spread: Value | None) -> Value:
    if not estimator.sees_prediction:
        return features
    mean, scale = estimator._target
    inputs = [features, (prediction - np.atleast_1d(mean)) / scale]
    if estimator._has_members:
        inputs.append(prediction.columns(0, 1) * 0.0 if spread is None else spread / scale)
    return concat(inputs, axis=1)


def auto_estimate(estimator: Any, table: EncodedTable) -> tuple[Value, Value]:
    """Return the prediction (row, output) and the expected loss (row, 1) of a fitted AutoRejector."""
    regressor, novelty = estimator._regressor, _novelty(estimator._novelty, table.features)
    predictions = [
        _weighted([convert(model, table.features) for model in models], regressor.weights)
        for models in zip(*regressor.models, strict=True)  # the first copies, the second ones, and so on
    ]
    inputs = [concat([table.features, novelty, each / estimator._target_scale], axis=1) for each in predictions]
    risks = [_mean(_risks(model, inputs)) for model in estimator._risk.models]
    return _mean(predictions), _expected_loss(estimator, _weighted(risks, estimator._risk.weights), table)


def _novelty(novelty: Novelty, features: Value) -> Value:
    """Return the logarithm of the mean distance to the nearest training rows (row, 1)."""
    neighbours = novelty.neighbours
    square = square_distances(features, neighbours._fit_X)
    count = features.graph.constant([neighbours.n_neighbors], INT64)
    _, nearest = features.graph.nodes("TopK", square, count, axis=1, largest=0, sorted=0)
    # exact distances of these rows only, since those above have a rounding error that matters near 0
    difference = features.unsqueeze(1) - features.graph.constant(neighbours._fit_X).take(nearest, 0)
    distance = (difference * difference).sum(axis=2).unary("Sqrt")
    return (distance.mean(axis=1, keepdims=True) + FLOOR).unary("Log")


def _risks(risk: CrossFittedRisk, inputs: list[Value]) -> list[Value]:
    """Return the scaled risks (row, 1) of every pair of model and inputs, as `CrossFittedRisk.by_fold` pairs them."""
    count = max(len(risk.models), len(inputs))
    models, tables = risk.models * (count // len(risk.models)), inputs * (count // len(inputs))
    return [convert(model, table).maximum(0.0) * risk.scale for model, table in zip(models, tables, strict=True)]


def _expected_loss(estimator: RiskBasedRegressor, risk: Value, table: EncodedTable) -> Value:
    """Correct the risk (row, 1) for the models of new rows, calibrate it, and add the surcharge of novel cells."""
    expected = _calibrated(estimator._calibration, risk * estimator._fold_mean.factor)
    if estimator._encoder.unseen == "keep":
        return expected
    return expected + table.novelty @ estimator._surcharge.by_column[table.columns][:, None]


def _calibrated(calibration: PowerCalibration, risk: Value) -> Value:
    if calibration == PowerCalibration():
        return risk
    logarithm = (risk.maximum(calibration.floor) / calibration.centre).unary("Log")
    return (logarithm * calibration.power).unary("Exp") * calibration.level


def _mean(values: list[Value]) -> Value:
    return _weighted(values, np.full(len(values), 1 / len(values)))


def _weighted(values: list[Value], weights: Any) -> Value:
    total = values[0] * float(weights[0])
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value * float(weight)
    return total
