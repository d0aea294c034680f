"""Regression of the logarithm of a positive target."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from recuse import AutoRejector
from recuse.estimators.auto.models.log_target import LogTarget


def test_factors_are_learned_where_effects_multiply():
    X = np.random.RandomState(0).uniform(size=(200, 2))
    y = np.exp(1.0 + X @ [2.0, -1.0])
    np.testing.assert_allclose(LogTarget(LinearRegression()).fit(X, y).predict(X), y, rtol=1e-9)


def test_predictions_stay_near_the_training_targets():
    X, y = np.arange(10.0)[:, None], np.exp(np.arange(10.0))
    low, high = LogTarget(LinearRegression()).fit(X, y).predict([[-100.0], [100.0]])
    assert 0 < low < y.min()
    assert y.max() < high < 10 * y.max()


@pytest.mark.parametrize("lowest", [0.0, 0.1])
def test_tried_only_for_targets_above_zero(lowest):
    random = np.random.RandomState(0)
    X = random.uniform(size=(600, 1))
    y = lowest + X[:, 0] - X[:, 0].min()
    model = AutoRejector(0.1, learners=["linear", "log_process"], cv=2, random_state=0).fit(X, y)
    note = model.leaderboard_.set_index("name").loc["log_process", "note"]
    assert (note == "left out: not for this many rows or columns, this target or this loss") == (lowest == 0)
