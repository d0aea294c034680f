"""Converters of models that are made of other models, by scikit-learn and by the automatic estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.log_target import LogTarget
from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted
from recuse.estimators.auto.models.relevant_features import RelevantFeatures
from recuse.estimators.auto.models.risk_linear import FAR, RiskLinear
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.estimators.crossfitting import MeanOfRepeats
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.conversion import convert, converts
from recuse.model_file.graph.networks import member_predictions
from recuse.model_file.graph.preprocessing import inverse

# Models that predict as another one does, which is an attribute of them.
_INNER: Mapping[type[Any], str] = {
    **{GridSearchCV: "best_estimator_", RandomizedSearchCV: "best_estimator_"},
    **{FrozenEstimator: "estimator", RANSACRegressor: "estimator_", PrecisionWeighted: "regressor_"},
}

# Ranks are scaled to the variance 1, as in `ExpandedFeatures`.
_HALF_WIDTH = 3**0.5


@converts(*_INNER)
def _inner(model: Any, x: Value) -> Value:
    return convert(getattr(model, _INNER[type(model)]), x)


@converts(Pipeline)
def _pipeline(model: Any, x: Value) -> Value:
    for _, step in model.steps:
        x = _part(step, x)
    return x


def _part(model: Any, x: Value) -> Value:
    return x if model is None or (isinstance(model, str) and model == "passthrough") else convert(model, x)


@converts(FeatureUnion)
def _union(model: Any, x: Value) -> Value:
    parts = [(name, _part(part, x)) for name, part in model.transformer_list if not _dropped(part)]
    return _joined(model, parts)


@converts(ColumnTransformer)
def _column_transformer(model: Any, x: Value) -> Value:
    parts = []
    for name, part, _ in model.transformers_:
        places = np.asarray(model._transformer_to_input_indices[name], np.int64)
        if len(places) and not _dropped(part):
            parts.append((name, _part(part, x.take(places, 1))))
    return _joined(model, parts)


def _dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _joined(model: Any, parts: Sequence[tuple[str, Value]]) -> Value:
    if not parts:
        raise ConversionError(
            f"{type(model).__name__} without any feature cannot be saved in a model file: keep at least one column"
        )
    weights: Mapping[str, float] = model.transformer_weights or {}
    return concat([part * float(weights[name]) if name in weights else part for name, part in parts], 1)


@converts(TransformedTargetRegressor)
def _transformed_target(model: Any, x: Value) -> Value:
    return inverse(model.transformer_, convert(model.regressor_, x))


@converts(VotingRegressor)
def _voting(model: Any, x: Value) -> Value:
    weights = model._weights_not_none
    share = np.ones(len(model.estimators_)) if weights is None else np.asarray(weights, np.float64)
    votes = concat([convert(each, x) for each in model.estimators_], 1)
    return votes @ np.asarray(share / share.sum(), np.float64).reshape(-1, 1)


@converts(StackingRegressor)
def _stacking(model: Any, x: Value) -> Value:
    votes = [convert(each, x) for each in model.estimators_]
    return convert(model.final_estimator_, concat([*votes, x] if model.passthrough else votes, 1))


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
        parts.append(_scaled_pieces(model, x).clip(0.0, 1.0))
    return x if len(parts) == 1 else concat(parts, 1)


def _scaled_pieces(model: ExpandedFeatures, x: Value) -> Value:
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


@converts(RelevantFeatures)
def _relevant_features(model: RelevantFeatures, x: Value) -> Value:
    return convert(model.regressor_, _columns(x, model.columns_))


@converts(MeanOfRepeats)
def _mean_of_repeats(model: MeanOfRepeats, x: Value) -> Value:
    first, *others = (convert(repeat, x) for repeat in model.models)
    return sum(others, first) * (1 / len(model.models))
