"""Other target losses: each estimator predicts and rejects by its loss on skewed noise."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor, Ridge
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV

from recuse import Decision, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor, metrics, theory
from recuse.estimators import StackedMLPRegressor
from recuse.losses import Absolute, Huber, Pinball, Squared, TargetLoss

COSTS = {"absolute": 0.6, "pinball:0.9": 0.25, "huber:1.0": 0.3}
# expected losses of the best prediction, for exponential noise of mean 1
RISK = {"absolute": np.log(2), "pinball:0.9": -0.1 * np.log(0.1)}


def skewed_rows(n_rows, seed):
    """Exponential noise, whose size grows with the second feature; the size of each row comes last."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(n_rows, 2))
    size = np.exp(1.5 * X[:, 1])
    return X, 2 * X[:, 0] + size * random.exponential(size=n_rows), size


X, Y, SIZE = skewed_rows(1000, seed=0)
NEW, NEW_Y, NEW_SIZE = skewed_rows(3000, seed=1)
TREES = ExtraTreesRegressor(20, min_samples_leaf=5)


def joint(**parameters):
    settings = {"epochs": 120, "slow_start": 40, "learning_rate": 1e-2, "n_members": 1, "random_state": 0}
    return RcRRegressor(**{**settings, **parameters})


def crossfitted(**parameters):
    settings = {"epochs": 30, "batch_size": 128, "n_members": 1, "cv": 3, "random_state": 0}
    return RcRRegressorCV(**{**settings, **parameters})


def networks(loss="squared", **parameters):
    return StackedMLPRegressor(**{"epochs": 80, "learning_rate": 1e-2, "loss": loss, "random_state": 0, **parameters})


def risk(loss="squared", **parameters):
    return RiskRejector(networks(loss), TREES, cv=3, random_state=0, loss=loss, **parameters)


def selective(**parameters):
    return SelectiveNetRegressor(None, **{"epochs": 50, "learning_rate": 5e-3, "random_state": 0, **parameters})


KINDS = [joint, crossfitted, risk, selective]
REJECTING = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


@REJECTING
@pytest.mark.parametrize("loss", COSTS)
def test_rejecting_by_any_loss_beats_both_always_accepting_and_always_rejecting(make, loss):
    measures = make(loss=loss, cost=COSTS[loss]).fit(X, Y).decide(NEW).evaluate(NEW_Y)
    assert measures["rcr_loss"] < 0.9 * min(measures["always_accept"], measures["always_reject"])
    assert 0.2 < measures["rejection_rate"] < 0.8
    if loss in RISK:
        assert measures["rcr_loss"] < 1.15 * theory.bayes_risk(RISK[loss] * NEW_SIZE, COSTS[loss])


@pytest.mark.parametrize("make", [joint, crossfitted, risk], ids=lambda make: make.__name__)
@pytest.mark.parametrize("quantile", [0.2, 0.9])
def test_by_the_pinball_loss_the_prediction_is_the_quantile(make, quantile):
    model = make(loss=Pinball(quantile), cost=10.0).fit(X, Y)
    assert np.mean(model.predict(NEW) > NEW_Y) == pytest.approx(quantile, abs=0.05)


@pytest.mark.parametrize("make", [joint, crossfitted, risk, selective], ids=lambda make: make.__name__)
def test_by_the_absolute_error_the_prediction_is_the_median_and_not_the_mean(make):
    model = make(loss="absolute", cost=10.0).fit(X, Y)
    below = np.mean(model.predict(NEW) > NEW_Y)  # the mean has 63% of such noise below it
    assert below == pytest.approx(0.5, abs=0.07)


# ---- what every estimator keeps


@REJECTING
def test_the_squared_error_by_name_or_as_an_object_is_the_default(make):
    parameters = {"epochs": 5, "cost": 0.5} if make is not risk else {"cost": 0.5}
    default = make(**parameters).fit(X[:200], Y[:200]).decide(NEW)
    assert default.loss == Squared()
    assert make(loss=Squared(), **parameters).fit(X[:200], Y[:200]).decide(NEW) == default


@REJECTING
def test_decisions_carry_the_loss_they_were_fitted_for(make):
    model = make(loss="absolute", cost=0.6).fit(X[:200], Y[:200])
    decision = model.decide(NEW)
    assert decision.loss == model.loss_ == Absolute()
    assert decision.evaluate(NEW_Y)["always_accept"] == pytest.approx(np.abs(decision.prediction - NEW_Y).mean())
    assert metrics.rcr_scorer(model, NEW, NEW_Y) == -decision.evaluate(NEW_Y)["rcr_loss"]
    model.set_params(loss="squared")  # until it is fitted again, it is what it was fitted for
    assert model.decide(NEW) == decision
    assert pickle.loads(pickle.dumps(model)).decide(NEW) == decision
    assert clone(model).loss == "squared"


@pytest.mark.parametrize("make", [joint, crossfitted, selective], ids=lambda make: make.__name__)
@pytest.mark.parametrize("loss", [Squared(), Absolute(), Huber(0.5), Pinball(0.9)], ids=str)
def test_units_of_the_target_do_not_matter(make, loss):
    """A target in units sixteen times as small, and with it the cost, leaves every decision as it was."""
    y, small = Y[:200], loss.scaled(1 / 16)
    model = make(loss=loss, cost=0.5, epochs=10).fit(X[:200], y)
    scaled = make(loss=small, cost=0.5 * small.unit(16), epochs=10).fit(X[:200], 16 * y)
    np.testing.assert_allclose(scaled.predict(NEW), 16 * model.predict(NEW), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scaled.decision_function(NEW), model.decision_function(NEW), rtol=1e-5, atol=1e-6)
    assert scaled.validation_loss_ == pytest.approx(small.unit(16) * model.validation_loss_, rel=1e-5)


def test_the_loss_can_be_searched_over_like_any_parameter():
    search = GridSearchCV(RiskRejector(Ridge(), Ridge(), cv=2), {"loss": ["squared", "absolute"]}, cv=2)
    search.fit(X[:100], Y[:100], cost=1.0)
    assert search.best_params_["loss"] in ("squared", "absolute")


# ---- RcRRegressor


def test_a_cost_for_every_row_and_a_range_of_costs_work_by_another_loss():
    cost = np.random.default_rng(0).uniform(0.2, 1.5, size=len(X))
    by_row = joint(loss="absolute").fit(X, Y, cost=cost).decide(NEW, cost=0.6).evaluate(NEW_Y)
    assert by_row["rcr_loss"] < 0.9 * by_row["always_reject"]
    for ranged_cost in (0.4, 0.8):
        model = crossfitted(loss="absolute", cost_range=(0.2, 1.5)).fit(X, Y)
        measures = model.decide(NEW, cost=ranged_cost).evaluate(NEW_Y)
        assert measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])


# ---- RiskRejector


@pytest.mark.parametrize(
    ("loss", "kind", "parameters"),
    [
        ("squared", HistGradientBoostingRegressor, {"loss": "squared_error"}),
        ("absolute", HistGradientBoostingRegressor, {"loss": "absolute_error"}),
        ("pinball:0.9", HistGradientBoostingRegressor, {"loss": "quantile", "quantile": 0.9}),
        ("huber:2.0", StackedMLPRegressor, {"loss": Huber(2.0)}),
    ],
)
def test_the_default_regressor_aims_at_the_loss(loss, kind, parameters):
    model = RiskRejector(risk=Ridge(), residuals="train", loss=loss, random_state=0).fit(X[:60], Y[:60])
    (regressor,) = model.regressors_
    assert type(regressor) is kind
    assert {name: regressor.get_params()[name] for name in parameters} == parameters


@pytest.mark.parametrize("loss", ["absolute", "pinball:0.9", "huber:1.0"])
def test_the_expected_loss_is_right_on_average_on_new_rows(loss):
    model = risk(loss).fit(X, Y)
    seen = metrics.row_losses(NEW_Y, model.predict(NEW), loss)
    assert model.expected_loss(NEW).mean() == pytest.approx(seen.mean(), rel=0.1)
    hard = NEW[:, 1] > 0
    assert model.expected_loss(NEW)[hard].mean() > 2 * model.expected_loss(NEW)[~hard].mean()


def test_the_risk_is_that_of_the_losses_of_the_rows():
    """The pinball loss of one half is half the absolute error, and so is its risk."""
    parts = {"regressor": Ridge(), "risk": Ridge(), "cv": 3, "random_state": 0}
    absolute = RiskRejector(**parts, loss="absolute").fit(X, Y)
    half = RiskRejector(**parts, loss="pinball:0.5").fit(X, Y)
    np.testing.assert_allclose(half.expected_loss(NEW), absolute.expected_loss(NEW) / 2)


def test_disagreement_among_folds_lowers_the_squared_risk_only():
    parts = {"regressor": HistGradientBoostingRegressor(), "risk": TREES, "cv": 3, "random_state": 0, "unseen": "keep"}
    for loss, lowered in (("squared", True), ("absolute", False)):
        model = RiskRejector(**parts, loss=loss).fit(X[:300], Y[:300])
        features, inputs = model.rule_.encoder.transform(NEW), model.rule_.models.inputs
        by_fold = [
            model.scale_
            * risk.predict(np.column_stack([features, (regressor.predict(features) - inputs.mean) / inputs.scale]))
            for regressor, risk in zip(model.regressors_, model.risks_, strict=True)
        ]
        expected, risk = model.expected_loss(NEW), np.mean(by_fold, axis=0)
        assert (np.diff(expected[np.argsort(risk)]) >= 0).all()  # the calibration keeps the order of the risks
        table = model.out_of_fold_
        observed = metrics.row_losses(table["target"], table["prediction"], loss).mean()
        ratio = table["expected_loss"].mean() / observed
        assert 0.5 <= ratio < 0.99 if lowered else ratio == pytest.approx(1)


def test_a_prefitted_regressor_keeps_its_aim():
    regressor = QuantileRegressor(quantile=0.9, alpha=0.0).fit(X, Y)
    model = RiskRejector(regressor, TREES, prefit=True, loss="pinball:0.9", random_state=0).fit(NEW[:500], NEW_Y[:500])
    np.testing.assert_array_equal(model.predict(NEW), regressor.predict(NEW))
    expected = mean_pinball_loss(NEW_Y, regressor.predict(NEW), alpha=0.9)
    assert model.expected_loss(NEW[500:]).mean() == pytest.approx(expected, rel=0.15)


# ---- StackedMLPRegressor


@pytest.mark.parametrize(("loss", "below"), [("pinball:0.1", 0.1), ("absolute", 0.5), ("pinball:0.9", 0.9)])
def test_networks_without_rejection_aim_at_the_loss_too(loss, below):
    model = networks(loss, n_members=2).fit(X, Y)
    assert np.mean(model.predict(NEW) > NEW_Y) == pytest.approx(below, abs=0.05)
    assert model.validation_loss_ == pytest.approx(metrics.row_losses(NEW_Y, model.predict(NEW), loss).mean(), rel=0.2)


@dataclass(frozen=True)
class LogCosh(TargetLoss):
    """A loss that the package does not have."""

    width: float = 1.0
    name = "log-cosh"

    def __call__(self, residual):
        size = abs(residual) / self.width
        return size + np.log1p(np.exp(-2 * size)) - float(np.log(2))

    def slope(self, residual, weight=1.0):
        return np.tanh(residual / self.width) / self.width * weight

    def scaled(self, scale):
        return LogCosh(self.width / scale)

    def unit(self, scale):
        return 1.0


def test_a_loss_of_ones_own_goes_all_the_way():
    decision = joint(loss=LogCosh(0.5), cost=0.6).fit(X, Y).decide(NEW)
    measures = decision.evaluate(NEW_Y)
    assert isinstance(decision, Decision)
    assert measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
