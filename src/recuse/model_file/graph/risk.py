"""Graphs of rules that expect a loss, of a model alone and of a model with experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from recuse.costs import is_constant
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.columns import TableInputs, raw_numbers, table_inputs
from recuse.model_file.graph.conversion import Emitted, convert, cost_input, emits
from recuse.model_file.graph.kernels import square_distances
from recuse.model_file.graph.networks import member_predictions
from recuse.model_file.graph.operators import INT64
from recuse.rules.deferral import DeferralRule, ExpertLoss
from recuse.rules.risk import Novelty, PowerCalibration, RiskInputs, RiskRule, ScaledRisk


@emits(RiskRule)
def _emit_risk(rule: RiskRule, graph: GraphBuilder) -> Emitted:
    table = table_inputs(graph, rule.encoder)
    prediction, expected = _estimate(rule, table)
    return Emitted(table.schema, prediction, cost_input(graph) - expected, expected)


def _estimate(rule: RiskRule, table: TableInputs) -> tuple[Value, Value]:
    """Return the prediction (row, output) and the expected loss (row, 1)."""
    models, encoded = rule.models, table.encoded
    features = encoded.features
    x = raw_numbers(rule.encoder.schema_, table.inputs) if models.reads_rows else features
    novelty = None if models.novelty is None else _novelty(models.novelty, features)
    predictions, inputs = [], []
    for copies in zip(*models.regressors, strict=True):  # the first copies, the second ones, and so on
        each = [_prediction(model, x, spread=models.inputs.sees_spread) for model in copies]
        mean, spread = _weighted([mean for mean, _ in each], models.weights), each[0][1]
        predictions.append(mean)
        inputs.append(_risk_inputs(models.inputs, features, novelty, mean, spread))
    risk = _weighted([_mean_risk(each, inputs) for each in models.risks], models.risk_weights)
    expected = _calibrated(rule.calibration, risk * rule.factor)
    if rule.surcharge is not None:
        expected = expected + encoded.novelty @ rule.surcharge[encoded.columns][:, None]
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


def _mean_risk(risk: ScaledRisk, inputs: list[Value]) -> Value:
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


@emits(DeferralRule)
def _emit_deferral(rule: DeferralRule, graph: GraphBuilder) -> Emitted:
    table = table_inputs(graph, rule.encoder, _numbers(rule))
    prediction, own = _estimate(rule.own, replace(table, encoder=rule.own.encoder))
    features = table.encoded.features
    predictions, losses, fees = [prediction], [own], [own * 0.0]
    for expert in rule.experts:
        answer = _answer(expert, table)
        predictions.append(own * np.nan if answer is None else answer)
        losses.append(_loss(expert, features, answer))
        fees.append(table.others[expert.fee] if isinstance(expert.fee, str) else own * 0.0 + _fixed_fee(expert))
    best = losses[1] + fees[1]
    for loss, fee in zip(losses[2:], fees[2:], strict=True):
        best = best.minimum(loss + fee)
    described = tuple(_described(each) for each in rule.experts)
    of_actions = {"predictions": predictions, "expected_losses": losses, "fees": fees}
    actions = {name: concat(values, axis=1) for name, values in of_actions.items()}
    return Emitted(table.schema, prediction, best - own, own, experts=described, actions=actions)


def _numbers(rule: DeferralRule) -> list[str]:
    """Return the columns that are no features: fees, and the predictions of experts that are callables."""
    fees = [expert.fee for expert in rule.experts if isinstance(expert.fee, str)]
    answers = [expert.name for expert in rule.experts if expert.prediction is not None and expert.model is None]
    return list(dict.fromkeys([*fees, *answers]))


def _described(expert: ExpertLoss) -> dict[str, Any]:
    fee = expert.fee if isinstance(expert.fee, str) else _fixed_fee(expert)
    capacity = expert.capacity.item() if isinstance(expert.capacity, np.generic) else expert.capacity
    return {"name": expert.name, "fee": fee, "capacity": capacity, "column": expert.column}


def _fixed_fee(expert: ExpertLoss) -> float:
    if not is_constant(expert.fee):
        raise ConversionError(
            f"the fee of {expert.name!r} is a callable or has one value for each row of fit, which a model file cannot "
            "hold: give a number, or the name of a column"
        )
    return float(expert.fee)  # type: ignore[arg-type]


def _answer(expert: ExpertLoss, table: TableInputs) -> Value | None:
    """Return the prediction (row, 1) of an expert that always predicts; NaN where it does not."""
    if expert.prediction is None:
        return None
    if expert.model is None:
        given = table.others[expert.name]
        return where(given.unary("IsInf"), np.nan, given)  # a cell that is no number
    try:
        return convert(expert.model, raw_numbers(table.encoder.schema_, table.inputs))
    except ConversionError as error:
        raise ConversionError(
            f"the expert {expert.name!r}: {error}. Or give its method predict as the source, and its predictions as "
            f"the column {expert.name!r} of new rows"
        ) from error


def _loss(expert: ExpertLoss, features: Value, answer: Value | None) -> Value:
    """Return the expected loss (row, 1); infinite where the expert should have predicted and has not."""
    if answer is None or expert.prediction is None:
        return _mean_risk(expert.risk, [features])
    mean, scale = expert.prediction
    silent = answer.unary("IsNaN")
    standard = where(silent, 0.0, (answer - mean) / (scale or 1.0))
    return where(silent, np.inf, _mean_risk(expert.risk, [concat([features, standard], axis=1)]))
