"""Converted compositions predict as scikit-learn does."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, StackingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from graph_runs import assert_same, assert_same_prediction, assert_same_transform, name_of, new_rows, training_rows
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert

FOREST = ExtraTreesRegressor(5, random_state=0)
LINEAR = Pipeline([("skipped", "passthrough"), ("scale", StandardScaler()), ("none", None), ("fit", Ridge())])
MODELS = [
    LINEAR,
    VotingRegressor([("a", LINEAR), ("b", FOREST)]),
    VotingRegressor([("a", LINEAR), ("b", FOREST), ("c", "drop")], weights=[3, 1, 1]),
    StackingRegressor([("a", LINEAR), ("b", FOREST)]),
    StackingRegressor([("a", LINEAR), ("b", FOREST)], FOREST, passthrough=True),
    GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
    RandomizedSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=1),
]
TARGETS = [
    None,
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    QuantileTransformer(n_quantiles=50),
]


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_compositions(model):
    X, y = training_rows()
    assert_same_prediction(model.fit(X, y), new_rows(X))


@pytest.mark.parametrize("transformer", TARGETS, ids=name_of)
def test_transformed_targets(transformer):
    X, y = training_rows()
    model = TransformedTargetRegressor(LinearRegression(), transformer=transformer).fit(X, y)
    assert_same_prediction(model, new_rows(X))


@pytest.mark.parametrize(
    ("function", "inverse"), [(np.log, np.exp), (np.log1p, np.expm1), (np.sqrt, np.square), (None, None)]
)
def test_functions_of_targets(function, inverse):
    X, y = training_rows()
    model = TransformedTargetRegressor(FOREST, func=function, inverse_func=inverse, check_inverse=False)
    assert_same_prediction(model.fit(X, y - y.min() + 1), new_rows(X))


COLUMNS = [
    ColumnTransformer([("a", StandardScaler(), [2, 0]), ("b", MinMaxScaler(), slice(2, 4))]),
    ColumnTransformer([("a", StandardScaler(), [True, False, True, False, False])], remainder="passthrough"),
    ColumnTransformer(
        [("a", "passthrough", [-1]), ("b", "drop", [0]), ("c", StandardScaler(), [])], remainder=LINEAR[1]
    ),
    ColumnTransformer([("a", StandardScaler(), [1]), ("b", "passthrough", [0])], transformer_weights={"a": 3.0}),
    FeatureUnion([("a", StandardScaler()), ("b", "passthrough"), ("c", "drop")], transformer_weights={"b": 2.0}),
    make_union(make_pipeline(StandardScaler(), MinMaxScaler()), MaxAbsScaler()),
]


@pytest.mark.parametrize("model", COLUMNS, ids=name_of)
def test_columns(model):
    X, y = training_rows()
    assert_same_transform(model.fit(X, y), new_rows(X))


def test_columns_by_name():
    X, _ = training_rows()
    table = pd.DataFrame(X, columns=list("abcde"))
    model = ColumnTransformer([("one", StandardScaler(), ["d", "a"])], remainder="passthrough").fit(table)
    assert_same(model, X, model.transform(table))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TransformedTargetRegressor(Ridge(), transformer=PowerTransformer()), "inverse of PowerTransformer"),
        (TransformedTargetRegressor(Ridge(), func=np.arctan, inverse_func=np.tan), "inverse_func="),
        (make_pipeline(FunctionTransformer(np.tanh), Ridge()), "func="),
        (ColumnTransformer([("a", "drop", [0])]), "without any feature"),
    ],
    ids=name_of,
)
def test_others_are_refused(model, message):
    X, y = training_rows()
    with pytest.raises(ConversionError, match=message):
        convert(model.fit(X, y), GraphBuilder().input("x", "double", (-1, 5)))
