"""Calibration of expected losses."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

from recuse import AutoRejector, RiskRejector
from recuse.estimators.risk.corrections import learn_calibration
from recuse.losses import SQUARED


@pytest.mark.parametrize("power", [0.5, 1.0, 1.4])
def test_level_and_power_of_a_power_law_are_found(power):
    random = np.random.RandomState(0)
    risk = np.exp(random.normal(size=20_000))
    error = 3.0 * risk**power * random.exponential(size=len(risk))
    calibration = learn_calibration(risk, error, np.ones(len(risk)))
    assert calibration.power == pytest.approx(power, abs=0.05)
    assert calibration(np.array([1.0])) == pytest.approx(3.0, rel=0.06)


def test_the_mean_of_the_training_rows_is_kept():
    random = np.random.RandomState(1)
    risk, weight = random.gamma(2.0, size=300), random.uniform(size=300)
    error = random.standard_t(3, size=300) ** 2
    calibrated = learn_calibration(risk, error, weight)(risk)
    assert np.average(calibrated, weights=weight) == pytest.approx(np.average(error, weights=weight), rel=1e-6)


def test_a_few_large_errors_do_not_decide_the_power():
    """With weights by the risk, as in the Poisson deviance, the largest risks would decide."""
    random = np.random.RandomState(4)
    risk = np.exp(1.5 * random.normal(size=4000))
    error = risk * random.exponential(size=len(risk))
    error[np.argsort(risk)[-20:]] *= 10
    assert learn_calibration(risk, error, np.ones(len(risk))).power == pytest.approx(1.0, abs=0.1)


def test_errors_only_in_rows_without_a_risk_leave_the_power():
    risk, error = np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 0.0, 0.0, 0.0])
    calibration = learn_calibration(risk, error, np.ones(4))
    assert calibration.power == 1.0
    assert calibration(risk).mean() == pytest.approx(1.0)


def test_risks_without_information_are_drawn_together():
    random = np.random.RandomState(2)
    risk, error = np.exp(random.normal(size=5000)), random.exponential(size=5000)
    assert np.ptp(np.log(learn_calibration(risk, error, np.ones(5000))(risk))) < 0.3 * np.ptp(np.log(risk))


@pytest.mark.parametrize(
    ("risk", "error"),
    [([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]), ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]), ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])],
    ids=["equal risks", "no risk", "no error"],
)
def test_without_differences_nothing_is_changed(risk, error):
    calibration = learn_calibration(np.array(risk), np.array(error), np.ones(3))
    assert calibration.is_identity
    np.testing.assert_array_equal(calibration(np.array(risk)), risk)


def test_risks_of_equal_noise_are_drawn_together_by_the_estimator():
    random = np.random.RandomState(3)
    X = random.normal(size=(600, 6))
    y = random.normal(size=600)  # the features say nothing about it
    model = RiskRejector(random_state=0).fit(X, y)
    assert model.rule_.calibration.power < 0.8
    table = model.out_of_fold_
    assert table["expected_loss"].mean() == pytest.approx(
        model.rule_.factor * SQUARED((table["prediction"] - table["target"]).to_numpy()).mean(), rel=0.02
    )


def test_both_estimators_expect_the_loss_of_the_rows_they_accept():
    """The noise grows with a feature, and a forest of small leaves separates the rows too much."""
    random = np.random.RandomState(5)
    X = random.uniform(-1, 1, size=(1500, 5))
    y = X[:, 1] + np.exp(0.5 * X[:, 0]) * random.normal(size=1500)
    (X, new), (y, truth) = (X[:700], X[700:]), (y[:700], y[700:])
    risk = ExtraTreesRegressor(20, min_samples_leaf=1)
    for model in (
        RiskRejector(LinearRegression(), risk, random_state=0),
        AutoRejector(learners={"line": LinearRegression()}, risk_models={"trees": risk}, random_state=0),
    ):
        decision = model.fit(X, y, cost=1.0).decide(new)
        assert model.rule_.calibration.power < 0.8
        observed = SQUARED(decision.prediction - truth)[decision.accepted].mean()
        assert model.expected_loss(new)[decision.accepted].mean() == pytest.approx(observed, rel=0.2)
