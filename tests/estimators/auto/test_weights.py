"""Weights of a blend: the RcR loss over several costs, and its minimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning

from recuse import losses
from recuse.estimators.auto import weights as blend
from recuse.metrics import rcr_loss_rows

positive = st.floats(1e-3, 1e3)


@given(error=st.floats(0, 1e3), risk=positive, cost=positive)
def test_the_loss_over_costs_is_the_mean_rcr_loss_over_them(error, risk, cost):
    costs = cost * np.exp(np.linspace(-np.log(4), np.log(4), 20_001))
    paid = rcr_loss_rows(np.full_like(costs, error), risk < costs, costs)
    closed = blend.loss_over_costs(np.array([error]), np.array([risk]), np.array([cost]))
    assert closed[0] == pytest.approx(trapezoid(paid, dx=1 / 20_000), rel=1e-3, abs=1e-3 * (error + cost))


@given(error=positive, cost=positive, factor=st.floats(0.1, 10))
def test_no_risk_is_better_than_the_true_one(error, cost, factor):
    def loss(risk):
        return blend.loss_over_costs(np.array([error]), np.array([risk]), np.array([cost]))[0]

    assert loss(error) <= loss(error * factor) + 1e-9 * (error + cost)


def test_the_share_accepted_is_the_slope_of_the_loss_in_the_error():
    risk, cost = np.array([0.1, 1.0, 3.0, 50.0]), np.full(4, 2.0)
    slope = blend.loss_over_costs(np.full(4, 3.0), risk, cost) - blend.loss_over_costs(np.full(4, 2.0), risk, cost)
    np.testing.assert_allclose(blend.share_accepted(risk, cost), slope)


def test_a_free_rejection_is_always_taken():
    free = np.zeros(2)
    np.testing.assert_array_equal(blend.share_accepted(np.array([0.0, 1.0]), free), 0)
    np.testing.assert_array_equal(blend.loss_over_costs(np.ones(2), np.array([0.0, 1.0]), free), 0)


def test_weights_that_did_not_converge_are_replaced_with_a_warning(monkeypatch):
    real = blend.minimize
    monkeypatch.setattr(blend, "minimize", lambda *args, **kwargs: real(*args, **kwargs | {"options": {"maxiter": 0}}))
    slopes = np.array([0.1, 3.0, 3.0])
    with pytest.warns(ConvergenceWarning, match="the weights of a blend did not converge"):
        weights = blend.convex_weights(lambda weights: (float(weights @ slopes), slopes), 3, rows=10_000)
    np.testing.assert_array_equal(weights, [1, 0, 0])


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball:0.8"])
def test_a_blend_is_no_worse_than_any_single_regressor(loss):
    random = np.random.default_rng(0)
    target = random.normal(size=3000)
    said = target + random.normal(size=(3, 3000)) * np.array([[0.5], [1.0], [4.0]])
    weights = blend.regressor_weights(said, target, np.ones(3000), losses.get(loss))

    def mean_loss(weights):
        return losses.get(loss)(np.tensordot(weights, said, 1) - target).mean()

    assert weights.sum() == pytest.approx(1)
    assert mean_loss(weights) <= min(mean_loss(alone) for alone in np.eye(3)) + 1e-6
    assert weights[0] > weights[1] > weights[2]


def test_a_row_that_counts_for_nothing_changes_nothing():
    random = np.random.default_rng(0)
    target = random.normal(size=500)
    said = target + random.normal(size=(2, 500))
    wild = said.copy()
    wild[0, :50] += 100
    counts = np.append(np.zeros(50), np.ones(450))
    same = [blend.regressor_weights(each, target, counts, losses.SQUARED) for each in (said, wild)]
    np.testing.assert_allclose(*same, atol=1e-3)


def test_the_right_model_of_the_risk_gets_the_weight():
    random = np.random.default_rng(0)
    risk = random.uniform(0.2, 4, size=5000)
    error = risk * random.normal(size=5000) ** 2
    flat = np.full(5000, error.mean())
    weights = blend.risk_weights(np.array([risk, flat]), error, np.full(5000, 1.0), np.ones(5000))
    assert weights[0] > 0.8


def test_few_rows_keep_the_weights_even():
    random = np.random.default_rng(0)
    target = random.normal(size=2000)
    said = target + random.normal(size=(2, 2000)) * [[0.9], [1.1]]
    few, many = (blend.regressor_weights(said[:, :n], target[:n], np.ones(n), losses.SQUARED) for n in (8, 2000))
    assert abs(few[0] - 0.5) < abs(many[0] - 0.5)


def test_gradients_are_those_of_the_values(monkeypatch):
    seen = {}

    def keep(objective, models, rows):
        seen["objective"] = objective
        return np.full(models, 1 / models)

    monkeypatch.setattr(blend, "convex_weights", keep)
    random = np.random.default_rng(1)
    target, share = random.normal(size=40), random.uniform(size=40)
    blend.regressor_weights(random.normal(size=(3, 40)), target, share, losses.get("huber:0.5"))
    point = np.array([0.5, 0.3, 0.2])
    assert check_grad(lambda w: seen["objective"](w)[0], lambda w: seen["objective"](w)[1], point) < 1e-5
    risks, cost = random.uniform(0.5, 2, size=(3, 40)), random.uniform(0.5, 2, size=40)
    blend.risk_weights(risks, random.uniform(size=40), cost, share)
    assert check_grad(lambda w: seen["objective"](w)[0], lambda w: seen["objective"](w)[1], point) < 1e-5
