"""ExpandedFeatures: what is added to the features is bounded, and a simple regressor can use it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted

X = np.random.RandomState(0).exponential(size=(400, 2))
CIRCLE = np.hypot(*(X.argsort(axis=0).argsort(axis=0) / 200 - 1).T) < 0.7  # in ranks


@pytest.mark.parametrize(("expansion", "inputs"), [("none", 2), ("ranks", 4), ("squares", 6), ("pieces", 34)])
def test_inputs_of_the_regressor(expansion, inputs):
    model = ExpandedFeatures(LinearRegression(), expansion).fit(X, X[:, 0])
    assert model.inputs(X).shape == (400, inputs)
    np.testing.assert_array_equal(model.inputs(X)[:, :2], X)


@pytest.mark.parametrize("expansion", ["ranks", "squares", "pieces", "levels"])
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


LEVELS = np.random.RandomState(0).randint(6, size=(400, 1)) ** 2


def test_levels_are_steps_between_the_values_of_a_column_and_ranks_of_the_others():
    mixed = np.column_stack([X, LEVELS])
    added = ExpandedFeatures(LinearRegression(), "levels").fit(mixed, X[:, 0]).inputs(mixed)[:, 3:]
    assert added.shape == (400, 2 + 5)
    above = LEVELS.repeat(5, axis=1) > np.arange(5) ** 2
    np.testing.assert_allclose(added[:, 2:], above, atol=1e-12)
    ranks = ExpandedFeatures(LinearRegression(), "ranks").fit(X, X[:, 0]).inputs(X)[:, 2:]
    np.testing.assert_array_equal(added[:, :2], ranks)


def test_without_a_column_of_few_values_levels_are_pieces():
    levels, pieces = (ExpandedFeatures(LinearRegression(), each).fit(X, X[:, 0]) for each in ("levels", "pieces"))
    np.testing.assert_array_equal(levels.inputs(X), pieces.inputs(X))


@pytest.mark.parametrize("columns", [64, 65])
def test_too_many_columns_have_ranks_instead_of_pieces(columns):
    wide = np.random.RandomState(0).randint(6, size=(50, columns))
    model = ExpandedFeatures(LinearRegression(), "levels").fit(wide, wide[:, 0])
    assert (len(model.rank_columns_) == 0) == (columns == 64)


@pytest.mark.parametrize("model", [ExpandedFeatures(Ridge()), PrecisionWeighted(Ridge(), random_state=0)], ids=repr)
def test_a_constant_target_is_predicted(model):
    """The training rows of a fold may all have the same target."""
    rows = np.random.default_rng(0).normal(size=(40, 2))
    np.testing.assert_allclose(model.fit(rows, np.full(40, 7.5)).predict(rows), 7.5)
