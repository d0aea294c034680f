"""Converters of the models that the automatic estimator tries."""

from __future__ import annotations

import numpy as np

from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted
from recuse.estimators.auto.models.rank_features import RankFeatures
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.conversion import convert, converts

__all__: list[str] = []

_HALF_WIDTH = 3**0.5  # as in rank_features


@converts(RankFeatures)
def _rank_features(model: RankFeatures, x: Value) -> Value:
    mean, scale = model.target_
    return convert(model.regressor_, _inputs(model, x)) * scale + mean


def _inputs(model: RankFeatures, x: Value) -> Value:
    if not len(model.columns_):
        return x
    ranked = x if len(model.columns_) == x.shape[1] else x.take(model.columns_, 1)
    ranks = convert(model.ranks_, ranked) * (2 * _HALF_WIDTH) - _HALF_WIDTH
    if model.ranks == "beside":
        return concat([x, ranks], 1)
    kept = np.setdiff1d(np.arange(x.shape[1]), model.columns_)
    return concat([x.take(kept, 1), ranks], 1) if len(kept) else ranks


@converts(RiskNetwork)
def _risk_network(model: RiskNetwork, x: Value) -> Value:
    prediction = convert(model.networks_, x).clip(*model.limits_).unary("Exp") - model.floor_
    return prediction.maximum(0.0)


@converts(PrecisionWeighted)
def _precision_weighted(model: PrecisionWeighted, x: Value) -> Value:
    return convert(model.regressor_, x)
