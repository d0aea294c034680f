"""Graphs of rules that expect a loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from recuse.estimators.mlp import StackedMLPRegressor
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value, concat
from recuse.model_file.graph.columns import raw_numbers
from recuse.model_file.graph.conversion import convert
from recuse.model_file.graph.decision import Emitted, TableInputs, cost_input, emits, table_inputs
from recuse.model_file.graph.networks import member_predictions
from recuse.model_file.graph.operators import INT64
from recuse.model_file.graph.regressors.kernels import square_distances
from recuse.rules.risk import Novelty, PowerCalibration, RiskInputs, RiskRule, ScaledRisk

__all__ = ["estimate", "mean_risk"]


@emits(RiskRule)
def _emit_risk(rule: RiskRule, graph: GraphBuilder) -> Emitted:
    table = table_inputs(graph, rule.encoder)
    prediction, expected = estimate(rule, table)
    return Emitted(table.schema, prediction, cost_input(graph) - expected, expected)


def estimate(rule: RiskRule, table: TableInputs) -> tuple[Value, Value]:
    """Return the prediction (row, output) and the expected loss (row, 1)."""
    models, features = rule.models, table.encoded.features
    x = raw_numbers(rule.encoder.schema_, table.inputs) if models.reads_rows else features
    novelty = None if models.novelty is None else _novelty(models.novelty, features)
    predictions, inputs = [], []
    for copies in zip(*models.regressors, strict=True):  # the first copies, the second ones, and so on
        each = [_prediction(model, x, spread=models.inputs.sees_spread) for model in copies]
        mean, spread = _weighted([mean for mean, _ in each], models.weights), each[0][1]
        predictions.append(mean)
        inputs.append(_risk_inputs(models.inputs, features, novelty, mean, spread))
    risk = _weighted([mean_risk(each, inputs) for each in models.risks], models.risk_weights)
    expected = _calibrated(rule.calibration, risk * rule.factor)
    if rule.surcharge is not None:
        by_column = rule.surcharge.by_column[table.encoded.columns]
        expected = expected + table.encoded.novelty @ by_column[:, None]
    return _mean(predictions), expected


def _prediction(regressor: Any, x: Value, *, spread: bool) -> tuple[Value, Value | None]:
    """Return the prediction (row, output) and the standard deviation (row, 1) among members, if there are any."""
    if not (spread and hasattr(regressor, "predict_members")):
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


def _risk_inputs(
    inputs: RiskInputs, features: Value, novelty: Value | None, prediction: Value, spread: Value | None
) -> Value:
    columns = [features] if novelty is None else [features, novelty]
    if inputs.sees_prediction:
        centred = prediction - np.atleast_1d(inputs.mean) if np.any(inputs.mean) else prediction
        columns.append(centred / inputs.scale)
    if inputs.sees_spread:
        columns.append(prediction.columns(0, 1) * 0.0 if spread is None else spread / inputs.scale)
    return concat(columns, axis=1)


def _novelty(novelty: Novelty, features: Value) -> Value:
    """Return the logarithm of the mean distance to the nearest training rows (row, 1)."""
    neighbours = novelty.neighbours
    square = square_distances(features, neighbours._fit_X)
    count = features.graph.constant([neighbours.n_neighbors], INT64)
    _, nearest = features.graph.nodes("TopK", square, count, axis=1, largest=0, sorted=0)
    # exact distances of these rows only, since those above have a rounding error that matters near 0
    difference = features.unsqueeze(1) - features.graph.constant(neighbours._fit_X).take(nearest, 0)
    distance = (difference * difference).sum(axis=2).unary("Sqrt")
    return (distance.mean(axis=1, keepdims=True) + novelty.floor).unary("Log")


def mean_risk(risk: ScaledRisk, inputs: list[Value]) -> Value:
    """Return the mean of the scaled risks (row, 1) over all pairs of model and inputs."""
    return _mean([convert(model, table).maximum(0.0) * risk.scale for model, table in risk.paired(inputs)])


def _calibrated(calibration: PowerCalibration, risk: Value) -> Value:
    if calibration.is_identity:
        return risk
    logarithm = (risk.maximum(calibration.floor) / calibration.centre).unary("Log")
    return (logarithm * calibration.power).unary("Exp") * calibration.level


def _mean(values: list[Value]) -> Value:
    return _weighted(values, np.full(len(values), 1 / len(values)))


def _weighted(values: list[Value], weights: Any) -> Value:
    total = values[0] if weights[0] == 1.0 else values[0] * float(weights[0])
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value * float(weight)
    return total
