"""RiskNetwork: the gamma deviance, means of errors of any scale, and bounded predictions."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from recuse.estimators.auto.models.risk_network import LogRatio, RiskNetwork


def rows(count, seed=0):
    """Squared normal residuals whose variance spans a factor of 400."""
    random = np.random.RandomState(seed)
    X = random.uniform(-1, 1, size=(count, 2))
    variance = np.exp(3 * X[:, 0])
    return X, variance * random.chisquare(1, size=count), variance


class TestLoss:
    @pytest.mark.parametrize("residual", [-6.0, -1.5, 0.0, 0.7, 5.0])
    @pytest.mark.parametrize("scale", [1.0, 2.5])
    def test_the_slope_is_that_of_the_loss(self, residual, scale):
        loss = LogRatio(scale)
        below, above = loss(np.array([residual - 1e-6, residual + 1e-6]))
        assert loss.slope(np.array([residual]), 3.0)[0] == pytest.approx(3 * (above - below) / 2e-6, rel=1e-6, abs=1e-6)

    def test_the_best_constant_is_the_mean(self):
        error = np.random.RandomState(0).exponential(size=1000)
        best = minimize_scalar(lambda log_risk: LogRatio()(log_risk - np.log(error)).mean(), bracket=(-2, 2))
        assert np.exp(best.x) == pytest.approx(error.mean(), rel=1e-2)

    def test_it_is_scaled_as_other_losses_are(self):
        residual, loss = np.linspace(-3, 3, 7), LogRatio()
        np.testing.assert_allclose(loss(2.0 * residual), loss.unit(2.0) * loss.scaled(2.0)(residual))

    def test_an_error_far_above_the_risk_pulls_but_not_without_bounds(self):
        far, further = LogRatio().slope(np.array([-4.0, -40.0]))
        assert far == further < -50


class TestNetwork:
    def test_small_risks_are_learned_as_well_as_large_ones(self):
        X, error, _ = rows(3000)
        X_new, _, variance = rows(1000, seed=1)
        ratio = RiskNetwork(random_state=0).fit(X, error).predict(X_new) / variance
        small = variance < np.quantile(variance, 0.2)
        large = variance > np.quantile(variance, 0.8)
        assert np.median(ratio[small]) == pytest.approx(1, abs=0.2)
        assert np.median(ratio[large]) == pytest.approx(1, abs=0.2)

    def test_the_prediction_is_the_mean_of_the_risks_of_the_networks(self):
        X, error, _ = rows(500)
        model = RiskNetwork(random_state=0).fit(X, error)
        networks = model.networks_
        risks = np.exp(networks.regressor_.predict_members(networks.inputs(X))) - model.floor_
        inside = (risks.mean(axis=0) > model.predict(X).min()) & (risks.mean(axis=0) < model.predict(X).max())
        assert inside.mean() > 0.9
        np.testing.assert_allclose(model.predict(X)[inside], risks.mean(axis=0)[inside])

    def test_an_unusual_row_gets_no_risk_beyond_those_of_the_others(self):
        X, error, _ = rows(500)
        model = RiskNetwork(random_state=0).fit(X, error)
        assert model.predict(np.array([[1e6, -1e6]])) <= model.predict(X).max()

    def test_errors_of_zero_do_no_harm(self):
        X, error, _ = rows(300)
        error[::2] = 0.0
        said = RiskNetwork(epochs=20, random_state=0).fit(X, error).predict(X)
        assert np.isfinite(said).all()
        assert (said >= 0).all()

    def test_weights_count(self):
        X, error, _ = rows(400)
        high = error > np.median(error)
        light, heavy = (
            RiskNetwork(epochs=20, random_state=0).fit(X, error, sample_weight=np.where(high, weight, 1.0))
            for weight in (0.1, 10.0)
        )
        assert light.predict(X).mean() < 0.7 * heavy.predict(X).mean()
