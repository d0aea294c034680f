"""Graphs of rules that defer rows to experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from recuse.costs import is_constant
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.columns import raw_numbers
from recuse.model_file.graph.conversion import convert
from recuse.model_file.graph.decision import Emitted, EmittedExperts, TableInputs, emits, table_inputs
from recuse.model_file.graph.risk import estimate, mean_risk
from recuse.rules.deferral import DeferralRule, ExpertLoss


@emits(DeferralRule)
def _emit_deferral(rule: DeferralRule, graph: GraphBuilder) -> Emitted:
    table = table_inputs(graph, rule.encoder, _numbers(rule))
    prediction, own = estimate(rule.own, table.encoded_by(rule.own.encoder))
    predictions, losses, fees = [prediction], [own], [own * 0.0]
    for expert in rule.experts:
        answer = _answer(expert, table)
        predictions.append(own * np.nan if answer is None else answer)
        losses.append(_loss(expert, table.encoded.features, answer))
        fees.append(table.others[expert.fee] if isinstance(expert.fee, str) else own * 0.0 + _fixed_fee(expert))
    best = losses[1] + fees[1]
    for loss, fee in zip(losses[2:], fees[2:], strict=True):
        best = best.minimum(loss + fee)
    described = tuple(_described(each) for each in rule.experts)
    columns = [concat(values, axis=1) for values in (predictions, losses, fees)]
    experts = EmittedExperts(columns[0], columns[1], columns[2], described)
    return Emitted(table.schema, prediction, best - own, own, experts=experts)


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
        return mean_risk(expert.risk, [features])
    mean, scale = expert.prediction
    silent = answer.unary("IsNaN")
    standard = where(silent, 0.0, (answer - mean) / (scale or 1.0))
    return where(silent, np.inf, mean_risk(expert.risk, [concat([features, standard], axis=1)]))
