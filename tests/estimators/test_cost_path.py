"""fit_costs: several costs for little more than one fit, each as if it had been fitted alone."""

import pickle

import numpy as np
import pytest

from recuse import RcRRegressor
from recuse.estimators import fit_costs

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, size=(120, 2))
Y = 3 * X[:, 0] + np.exp(X[:, 1]) / 2 * RANDOM.normal(size=120)
MODEL = RcRRegressor(residuals="crossfit", epochs=30, cv=2, n_members=2, random_state=0)


def test_each_equals_the_model_fitted_alone():
    for cost, model in zip((0.5, 4.0), fit_costs(MODEL, X, Y, [0.5, 4.0]), strict=True):
        alone = RcRRegressor(cost, residuals="crossfit", epochs=30, cv=2, n_members=2, random_state=0).fit(X, Y)
        assert model.decide(X) == alone.decide(X)
        assert model.cost_ == cost


def test_a_range_shares_the_regressors_too():
    one, span = fit_costs(MODEL, X, Y, [1.0, (0.5, 2.0)])
    np.testing.assert_array_equal(one.predict(X), span.predict(X))
    assert span.decide(X, cost=0.7).cost[0] == 0.7


def test_without_a_seed_the_costs_still_share():
    one, other = fit_costs(MODEL.set_params(random_state=None), X, Y, [0.5, 4.0])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    MODEL.set_params(random_state=0)


def test_no_training_rows_are_kept():
    (model,) = fit_costs(MODEL, X, Y, [0.5])
    assert len(pickle.dumps(model)) == pytest.approx(len(pickle.dumps(MODEL.set_params(cost=0.5).fit(X, Y))), rel=0.02)
    MODEL.set_params(cost=1.0)


@pytest.mark.parametrize(
    ("model", "costs", "message"),
    [
        (RcRRegressor(), [1.0], "residuals must be 'crossfit', so that costs can share regressors, got 'train'"),
        (MODEL, [], "costs must be one cost or more"),
        (MODEL, [-1.0], "cost must be >= 0"),
    ],
)
def test_what_cannot_be_done_is_said(model, costs, message):
    with pytest.raises(ValueError, match=message):
        fit_costs(model, X, Y, costs)
