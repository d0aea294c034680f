"""Converters of models that are made of other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.conversion import convert, converts
from recuse.model_file.graph.regressors.preprocessing import inverse

__all__: list[str] = []


@converts(GridSearchCV, RandomizedSearchCV)
def _search(model: Any, x: Value) -> Value:
    return convert(model.best_estimator_, x)


@converts(FrozenEstimator)
def _frozen(model: Any, x: Value) -> Value:
    return convert(model.estimator, x)


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


@converts(MultiOutputRegressor)
def _multi_output(model: Any, x: Value) -> Value:
    return concat([convert(each, x) for each in model.estimators_], 1)


@converts(RegressorChain)
def _chain(model: Any, x: Value) -> Value:
    outputs: list[Value] = []
    for each in model.estimators_:
        outputs.append(convert(each, concat([x, *outputs], 1)))
    return concat([outputs[place] for place in np.argsort(model.order_)], 1)


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
