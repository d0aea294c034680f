"""Converters of the models that the automatic estimator tries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.log_target import LogTarget
from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted
from recuse.estimators.auto.models.relevant_features import RelevantFeatures
from recuse.estimators.auto.models.risk_linear import FAR, RiskLinear
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.estimators.crossfitting import MeanOfRepeats
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.conversion import convert, converts
from recuse.model_file.graph.networks import member_predictions

__all__: list[str] = []

_HALF_WIDTH = 3**0.5  # as in expanded_features


@converts(ExpandedFeatures)
def _expanded_features(model: ExpandedFeatures, x: Value) -> Value:
    mean, scale = model.target_
    return convert(model.regressor_, _inputs(model, x)) * scale + mean


def _inputs(model: ExpandedFeatures, x: Value) -> Value:
    parts = [x]
    if len(model.rank_columns_):
        ranks = convert(model.ranks_, _columns(x, model.rank_columns_)) * (2 * _HALF_WIDTH) - _HALF_WIDTH
        parts += [ranks, ranks * ranks - 1.0] if model.expansion == "squares" else [ranks]
    if len(model.piece_columns_):
        parts.append(_pieces(model, x).clip(0.0, 1.0))
    return x if len(parts) == 1 else concat(parts, 1)


def _pieces(model: ExpandedFeatures, x: Value) -> Value:
    """Return (x - start) / width of each piece. A product copies the columns, since gathering them takes much longer.

    The product is exact, which one with the widths would not be: some are as small as a rounding error.
    """
    copies = np.zeros((x.shape[1], len(model.piece_columns_)))
    copies[model.piece_columns_, np.arange(len(model.piece_columns_))] = 1.0
    return (x @ copies - model.starts_) / model.widths_


def _columns(x: Value, columns: NDArray[np.intp]) -> Value:
    return x if np.array_equal(columns, np.arange(x.shape[1])) else x.take(columns, 1)


@converts(RiskNetwork)
def _risk_network(model: RiskNetwork, x: Value) -> Value:
    networks = model.networks_
    members = member_predictions(networks.regressor_, _inputs(networks, x)).unary("Exp")
    return (members.mean(axis=0).clip(*model.limits_) - model.floor_).maximum(0.0)


@converts(RiskLinear)
def _risk_linear(model: RiskLinear, x: Value) -> Value:
    return convert(model.model_, ((x - model.mean_) / model.scale_).clip(-FAR, FAR)).clip(*model.limits_)


@converts(LogTarget)
def _log_target(model: LogTarget, x: Value) -> Value:
    return convert(model.regressor_, x).clip(*model.limits_).unary("Exp")


@converts(PrecisionWeighted)
def _precision_weighted(model: PrecisionWeighted, x: Value) -> Value:
    return convert(model.regressor_, x)


@converts(RelevantFeatures)
def _relevant_features(model: RelevantFeatures, x: Value) -> Value:
    return convert(model.regressor_, _columns(x, model.columns_))


@converts(MeanOfRepeats)
def _mean_of_repeats(model: MeanOfRepeats, x: Value) -> Value:
    first, *others = (convert(repeat, x) for repeat in model.models)
    return sum(others, first) * (1 / len(model.models))
