"""Converted trees predict as scikit-learn does."""

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from graph_runs import assert_same_prediction, name_of, new_rows, training_rows
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert
from recuse.model_file.graph.trees import Tree, tree_ensemble
from recuse.model_file.runtime import onnxruntime

MODELS = [
    DecisionTreeRegressor(random_state=0),
    DecisionTreeRegressor(max_leaf_nodes=9, random_state=0),
    ExtraTreeRegressor(random_state=0),
    RandomForestRegressor(20, random_state=0),
    ExtraTreesRegressor(20, random_state=0),
    BaggingRegressor(DecisionTreeRegressor(), 5, random_state=0),
    BaggingRegressor(LinearRegression(), 5, max_features=2, random_state=0),
    DecisionTreeRegressor(min_samples_leaf=200),
    BaggingRegressor(n_estimators=5, max_features=0.6, random_state=0),
    GradientBoostingRegressor(n_estimators=20),
    GradientBoostingRegressor(n_estimators=20, init="zero", learning_rate=0.3, loss="huber"),
    GradientBoostingRegressor(n_estimators=20, init=DecisionTreeRegressor(max_depth=2)),
    HistGradientBoostingRegressor(max_iter=20),
    HistGradientBoostingRegressor(max_iter=20, loss="quantile", quantile=0.8),
    HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=1000),
]


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_trees_and_ensembles(model):
    X, y = training_rows()
    assert_same_prediction(model.fit(X, y), new_rows(X))


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_log_link(loss):
    X, y = training_rows()
    model = HistGradientBoostingRegressor(max_iter=20, loss=loss).fit(X, np.exp(y / 4))
    assert_same_prediction(model, new_rows(X))


def test_missing_values_in_training_only():
    X, y = training_rows()
    some = np.where(np.random.RandomState(0).uniform(size=X.shape) < 0.3, np.nan, X)
    for model in (HistGradientBoostingRegressor(max_iter=20), ExtraTreesRegressor(5, random_state=0)):
        assert_same_prediction(model.fit(some, y), new_rows(X))


def test_values_between_training_rows_go_the_same_way():
    random = np.random.RandomState(0)
    X = random.normal(size=(500, 1)).astype(np.float32).astype(np.float64)
    model = DecisionTreeRegressor().fit(X, random.normal(size=500))
    threshold = model.tree_.threshold[model.tree_.children_left >= 0]
    near = np.concatenate([threshold, np.nextafter(threshold, np.inf), np.nextafter(threshold, -np.inf)])
    steps = np.nextafter(threshold.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    assert_same_prediction(model, np.concatenate([near, steps])[:, None])


def test_nodes_before_their_parents_are_moved():
    graph = GraphBuilder()
    x = graph.input("x", "double", (-1, 1))
    leaf = np.array([False, True, True, False, True])
    children = np.array([3, 0, 0, 2, 0]), np.array([1, 0, 0, 4, 0])
    threshold, value = np.array([1.0, 0, 0, -1.0, 0]), np.array([0, 30.0, 10.0, 0, 20.0])
    graph.output("y", tree_ensemble(x, [Tree(np.zeros(5, int), threshold, *children, value, leaf)]))
    session = onnxruntime.InferenceSession(graph.model().SerializeToString())
    assert session.run(None, {"x": np.array([[-2.0], [0.0], [2.0]])})[0].tolist() == [[10.0], [20.0], [30.0]]


def test_categories_are_refused():
    X, y = training_rows()
    X[:, 0] = np.arange(len(X)) % 3
    model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=2).fit(X, y)
    with pytest.raises(ConversionError, match=r"categorical_features=\[0\]"):
        convert(model, GraphBuilder().input("x", "double", (-1, 5)))
