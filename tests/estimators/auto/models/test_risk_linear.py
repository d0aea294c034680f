"""RiskLinear: relative accuracy, units, weights, zero losses, and bounded predictions."""

import numpy as np
import pytest

from recuse.estimators.auto.models.risk_linear import RiskLinear


def rows(count, seed=0, inputs=4):
    """The logarithm of the variance is linear in the first two inputs."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (count, inputs))
    variance = np.exp(2.0 * X[:, 0] + X[:, 1])
    return X, variance * random.standard_normal(count) ** 2, variance


def test_small_risks_are_learned_as_well_as_large_ones():
    X, error, _ = rows(2000)
    X_new, _, variance = rows(1000, seed=1)
    ratio = RiskLinear().fit(X, error).predict(X_new) / variance
    for part in (variance < np.quantile(variance, 0.2), variance > np.quantile(variance, 0.8)):
        assert np.median(ratio[part]) == pytest.approx(1, abs=0.2)


def test_many_inputs_without_effect_do_little_harm():
    X, error, _ = rows(150, inputs=100)
    X_new, _, variance = rows(1000, seed=1, inputs=100)
    predicted = RiskLinear().fit(X, error).predict(X_new)
    assert np.log(predicted).std() < 1.2 * np.log(variance).std()


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_the_unit_of_the_loss_does_not_matter(unit):
    X, error, _ = rows(400)
    np.testing.assert_allclose(
        RiskLinear().fit(X, unit * error).predict(X), unit * RiskLinear().fit(X, error).predict(X), rtol=1e-2
    )


def test_an_unusual_row_gets_no_risk_beyond_those_of_the_others():
    X, error, _ = rows(500)
    model = RiskLinear().fit(X, error)
    assert model.predict(np.full((1, 4), 1e6)) <= model.predict(X).max()


@pytest.mark.parametrize("zero", [slice(None, None, 2), slice(None)])
def test_losses_of_zero_do_no_harm(zero):
    X, error, _ = rows(300)
    error[zero] = 0.0
    predicted = RiskLinear().fit(X, error).predict(X)
    assert np.isfinite(predicted).all()
    assert (predicted >= 0).all()


def test_weights_count():
    X, error, _ = rows(400)
    high = error > np.median(error)
    light, heavy = (RiskLinear().fit(X, error, np.where(high, weight, 1.0)) for weight in (0.1, 10.0))
    assert light.predict(X).mean() < 0.7 * heavy.predict(X).mean()


def test_a_constant_input_does_no_harm():
    X, error, _ = rows(200)
    weight = np.random.default_rng(1).exponential(size=200)
    model = RiskLinear().fit(np.column_stack([X, np.full(200, 1e8)]), error, weight)
    others = RiskLinear(0.01 * 5 / 4).fit(X, error, weight)  # the penalty counts the constant too
    np.testing.assert_allclose(model.predict(np.column_stack([X, np.full(200, 1e8)])), others.predict(X), rtol=1e-3)
