"""ExpandedFeatures: what is added to the features is bounded, and a simple regressor can use it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures

X = np.random.RandomState(0).exponential(size=(400, 2))
CIRCLE = np.hypot(*(X.argsort(axis=0).argsort(axis=0) / 200 - 1).T) < 0.7  # in ranks


@pytest.mark.parametrize(("expansion", "inputs"), [("none", 2), ("ranks", 4), ("squares", 6), ("pieces", 34)])
def test_inputs_of_the_regressor(expansion, inputs):
    model = ExpandedFeatures(LinearRegression(), expansion).fit(X, X[:, 0])
    assert model.inputs(X).shape == (400, inputs)
    np.testing.assert_array_equal(model.inputs(X)[:, :2], X)


@pytest.mark.parametrize("expansion", ["ranks", "squares", "pieces"])
def test_what_is_added_has_bounds(expansion):
    model = ExpandedFeatures(LinearRegression(), expansion).fit(X, X[:, 0])
    assert np.abs(model.inputs(np.array([[1e9, -1e9]]))[:, 2:]).max() <= 2.01


def test_squares_have_mean_zero():
    added = ExpandedFeatures(LinearRegression(), "squares").fit(X, X[:, 0]).inputs(X)[:, 4:]
    np.testing.assert_allclose(added.mean(axis=0), 0.0, atol=0.02)


def test_a_linear_regressor_of_squares_finds_a_circle():
    losses = {}
    for expansion in ("ranks", "squares"):
        predicted = ExpandedFeatures(LinearRegression(), expansion).fit(X, 1.0 * CIRCLE).predict(X) > 0.5
        losses[expansion] = np.mean(predicted != CIRCLE)
    assert losses["squares"] < losses["ranks"] / 2


def test_a_column_of_two_values_is_left_as_it_is():
    binary = np.column_stack([X[:, 0], X[:, 1] > 1])
    assert ExpandedFeatures(LinearRegression(), "squares").fit(binary, X[:, 0]).inputs(binary).shape == (400, 4)
