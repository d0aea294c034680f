"""Converted averages of near rows predict as their models do."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from graph_runs import assert_same_prediction, new_rows, training_rows
from recuse.estimators.risk.presets import KernelAverage
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("algorithm", ["kd_tree", "brute"])
def test_nearest_rows(weights, p, algorithm):
    X, y = training_rows()
    model = KNeighborsRegressor(4, weights=weights, p=p, algorithm=algorithm).fit(X, y)
    new = new_rows(X)
    # the distance of a row to itself is a rounding error in scikit-learn's brute force
    assert_same_prediction(model, new[: -len(X)] if algorithm == "brute" else new)


def test_repeated_rows():
    X, y = training_rows()
    model = KNeighborsRegressor(3, weights="distance").fit(np.repeat(X, 2, axis=0), np.repeat(y, 2) + np.arange(600))
    assert_same_prediction(model, X)


def test_many_features():
    random = np.random.RandomState(0)
    X = random.normal(size=(200, 40))
    model = KNeighborsRegressor(weights="distance").fit(X, X[:, 0])
    assert_same_prediction(model, random.normal(size=(500, 40)))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"weights": np.exp}, "weights="), ({"p": 3}, "p=3"), ({"metric": "chebyshev"}, "metric='chebyshev'")],
)
def test_other_distances_are_refused(options, message):
    X, y = training_rows()
    model = KNeighborsRegressor(**options).fit(X, y)
    with pytest.raises(ConversionError, match=message):
        convert(model, GraphBuilder().input("x", "double", (-1, 5)))


@pytest.mark.parametrize("width", [None, 0.05, 3.0])
def test_kernel_average(width):
    X, y = training_rows()
    weight = np.random.RandomState(0).uniform(0.5, 2, size=len(y))
    assert_same_prediction(KernelAverage(width, random_state=0).fit(X, y, weight), new_rows(X))


def test_kernel_average_with_dropped_and_flagged_columns():
    X, y = training_rows()
    some = X.copy()
    some[::7, 1] = np.nan
    with pytest.warns(UserWarning, match="not used"):
        model = KernelAverage(0.5).fit(np.where(np.arange(5) == 3, np.nan, some), y)
    assert_same_prediction(model, X)
