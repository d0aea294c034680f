"""Several targets: one decision for each row, by the mean of the losses over its targets."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils import get_tags
from torch import nn

from recuse import RcRRegressor, RiskRejector, SelectiveNetRegressor, metrics, theory
from recuse.estimators import KernelAverage, StackedMLPRegressor

TREES = ExtraTreesRegressor(20, min_samples_leaf=5)


def two_targets(n_rows, seed):
    """Two targets whose noise grows with the second and the first feature; their variances (row, output) come last."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(n_rows, 2))
    deviation = np.exp(1.5 * X[:, ::-1]) / 2
    mean = np.column_stack([2 * X[:, 0], X[:, 0] - X[:, 1]])
    return X, mean + deviation * random.normal(size=(n_rows, 2)), deviation**2


X, Y, _ = two_targets(1000, seed=0)
NEW, NEW_Y, VARIANCE = two_targets(3000, seed=1)


def joint(**parameters):
    settings = {"epochs": 120, "slow_start": 40, "learning_rate": 1e-2, "n_members": 1, "random_state": 0}
    return RcRRegressor(**{**settings, **parameters})


def crossfitted(**parameters):
    return joint(**{"residuals": "crossfit", "slow_start": 200, "cv": 3, "epochs": 60, "n_members": 2, **parameters})


def linear(**parameters):
    return joint(network="linear", **parameters)


def risk(**parameters):
    return RiskRejector(Ridge(), TREES, cv=3, random_state=0, **parameters)


def risk_of_networks(**parameters):
    regressor = StackedMLPRegressor(epochs=60, learning_rate=1e-2, n_members=2)
    return RiskRejector(regressor, TREES, cv=3, random_state=0, **parameters)


KINDS = [joint, crossfitted, linear, risk, risk_of_networks]
EVERY = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


@EVERY
def test_rows_are_rejected_by_the_mean_of_their_variances(make):
    decision = make(cost=0.5).fit(X, Y).decide(NEW)
    measures = decision.evaluate(NEW_Y)
    lowest = theory.bayes_risk(VARIANCE.mean(axis=1), 0.5)
    # a linear rejector cannot draw the right line, a linear regressor is right
    assert measures["rcr_loss"] < (1.25 if make is linear else 1.1) * lowest
    assert measures["rcr_loss"] < 0.9 * min(measures["always_accept"], measures["always_reject"])
    assert decision.prediction.shape == (3000, 2)
    assert decision.accepted.shape == (3000,)


@pytest.mark.parametrize("make", [joint, crossfitted], ids=lambda make: make.__name__)
def test_each_target_may_be_predicted_by_its_quantile(make):
    model = make(cost=0.11, loss="pinball:0.9", epochs=150).fit(X, Y)
    np.testing.assert_allclose((model.predict(NEW) > NEW_Y).mean(axis=0), 0.9, atol=0.05)
    measures = model.decide(NEW).evaluate(NEW_Y)
    assert measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])


@EVERY
def test_frames_weights_pickles_and_copies_work_as_with_one_target(make):
    frame, y = pd.DataFrame(X[:90], columns=["a", "b"]), pd.DataFrame(Y[:90], columns=["left", "right"])
    frame["kind"] = np.where(X[:90, 0] > 0, "up", "down")
    weight = np.tile([1.0, 2.0, 0.0], 30)
    model = make(cost=0.5).fit(frame, y, sample_weight=weight)
    decision = model.decide(frame.set_axis(range(100, 190)))
    assert list(decision.to_frame().columns) == [
        "prediction_left", "prediction_right", "accepted", "score", "cost",
    ]  # fmt: skip
    assert decision.to_frame().index[0] == 100
    assert pickle.loads(pickle.dumps(model)).decide(frame).to_frame().equals(model.decide(frame).to_frame())
    times = weight.astype(int)
    copies = make(cost=0.5).fit(frame.loc[frame.index.repeat(times)], y.to_numpy().repeat(times, axis=0))
    np.testing.assert_allclose(copies.predict(frame), model.predict(frame), rtol=1e-6, atol=1e-8)


@EVERY
def test_one_target_in_a_column_is_one_target(make):
    parameters = {} if make in (risk, risk_of_networks) else {"epochs": 4}
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        column = make(**parameters).fit(X[:90], Y[:90, :1])
    assert column.decide(NEW) == make(**parameters).fit(X[:90], Y[:90, 0]).decide(NEW)
    assert column.predict(NEW).shape == (3000,)


@pytest.mark.parametrize("make", [joint, crossfitted, risk], ids=lambda make: make.__name__)
def test_units_common_to_all_targets_do_not_matter(make):
    model, scaled = make(cost=0.5).fit(X[:200], Y[:200]), make(cost=0.5 * 64).fit(X[:200], 8 * Y[:200])
    np.testing.assert_allclose(scaled.predict(NEW), 8 * model.predict(NEW), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(scaled.decide(NEW).accepted, model.decide(NEW).accepted)


@pytest.mark.parametrize("make", [joint, crossfitted], ids=lambda make: make.__name__)
def test_a_second_target_that_is_constant_does_no_harm(make):
    y = np.column_stack([Y[:, 0], np.full(len(Y), 7.0)])
    prediction = make(cost=0.5).fit(X, y).predict(NEW)
    np.testing.assert_allclose(prediction[:, 1], 7.0, atol=0.3)
    assert np.corrcoef(prediction[:, 0], NEW[:, 0])[0, 1] > 0.95


# ---- RcRRegressor and StackedMLPRegressor


def test_costs_by_row_and_ranges_of_costs_work_with_several_targets():
    cost = np.random.default_rng(0).uniform(0.2, 1.5, size=len(X))
    by_row = joint().fit(X, Y, cost=cost).decide(NEW, cost=0.5).evaluate(NEW_Y)
    ranged = crossfitted(cost_range=(0.2, 1.5)).fit(X, Y).decide(NEW, cost=0.5).evaluate(NEW_Y)
    for measures in (by_row, ranged):
        assert measures["rcr_loss"] < 0.9 * min(measures["always_accept"], measures["always_reject"])


def own_network(inputs, outputs=1):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


@pytest.mark.parametrize("make", [joint, crossfitted])
def test_a_users_own_network_predicts_several_targets(make):
    model = make(network=own_network, cost=0.5, epochs=60, n_members=1).fit(X, Y)
    measures = model.decide(NEW).evaluate(NEW_Y)
    assert measures["rcr_loss"] < 0.9 * min(measures["always_accept"], measures["always_reject"])


def test_a_users_own_network_of_one_output_is_refused_for_two_targets():
    with pytest.raises(ValueError, match=r"^for 2 targets a network factory must take the number of inputs and"):
        joint(network=lambda inputs: nn.Linear(inputs, 1)).fit(X, Y)


@pytest.mark.parametrize("go_on", ["fit", "partial_fit"])
def test_training_goes_on_with_as_many_targets_only(go_on):
    model = joint(epochs=4, slow_start=1, warm_start=True).fit(X, Y)
    before = model.decide(NEW)
    for bad, shape in ((Y[:, 0], r"\(1000,\)"), (np.column_stack([Y, Y]), r"\(1000, 4\)")):
        with pytest.raises(ValueError, match=rf"^y must have as many targets as in training, 2, got shape {shape}$"):
            getattr(model, go_on)(X, bad)
    assert model.decide(NEW) == before
    getattr(model, go_on)(X, Y)
    assert model.predict(NEW).shape == (3000, 2)


def test_validation_rows_must_have_as_many_targets():
    with pytest.raises(ValueError, match=r"^in validation: y must have as many targets as in training, 2, got shape"):
        joint(epochs=4).fit(X, Y, validation=(NEW, NEW_Y[:, 0]))
    joint(epochs=4).fit(X, Y, validation=(NEW, NEW_Y))


def test_a_new_fit_may_have_another_number_of_targets():
    model = joint(epochs=4).fit(X, Y).fit(X, Y[:, 0])
    assert model.predict(NEW).shape == (3000,)
    assert model.decide(NEW) == joint(epochs=4).fit(X, Y[:, 0]).decide(NEW)


def test_networks_without_rejection_predict_several_targets():
    model = StackedMLPRegressor(epochs=60, learning_rate=1e-2, n_members=3, random_state=0).fit(X, Y)
    assert model.predict_members(NEW).shape == (3, 3000, 2)
    np.testing.assert_allclose(model.predict(NEW), model.predict_members(NEW).mean(axis=0))
    assert np.mean((model.predict(NEW) - NEW_Y) ** 2) < 1.1 * VARIANCE.mean()
    assert model.score(NEW, NEW_Y) > 0.2


# ---- RiskRejector


def test_a_target_twice_is_decided_like_the_target_once():
    # extra trees would draw other cuts if they saw the prediction twice
    once, twice = (risk(sees_prediction=False).fit(X, y) for y in (Y[:, 0], Y[:, [0, 0]]))
    np.testing.assert_allclose(twice.predict(NEW), np.column_stack([once.predict(NEW)] * 2))
    np.testing.assert_allclose(twice.expected_loss(NEW), once.expected_loss(NEW))


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_expected_loss_is_the_mean_over_the_targets(loss):
    model = risk(loss=loss).fit(X, Y)
    seen = metrics.row_losses(NEW_Y, model.predict(NEW), loss)
    assert model.expected_loss(NEW).mean() == pytest.approx(seen.mean(), rel=0.1)


@pytest.mark.parametrize(
    ("regressor", "wrapped"),
    [(LinearRegression(), False), (SVR(), True), (GradientBoostingRegressor(n_estimators=5), True)],
    ids=str,
)
def test_a_regressor_of_one_target_gets_a_copy_for_each(regressor, wrapped):
    model = RiskRejector(regressor, Ridge(), residuals="train", random_state=0).fit(X, Y)
    (fitted,) = model.regressors_
    assert isinstance(fitted, MultiOutputRegressor) is wrapped
    for output in range(2):
        alone = RiskRejector(regressor, Ridge(), residuals="train", random_state=0).fit(X, Y[:, output])
        np.testing.assert_allclose(model.predict(NEW)[:, output], alone.predict(NEW))


def test_the_default_regressor_predicts_several_targets():
    model = RiskRejector(risk=Ridge(), residuals="holdout", random_state=0).fit(X[:300], Y[:300])
    assert isinstance(model.regressors_[0].estimator, HistGradientBoostingRegressor)
    assert model.predict(NEW).shape == (3000, 2)


def test_copies_of_a_regressor_without_weights_get_rows_as_often_as_they_weigh():
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), SVR())
    weight = np.tile([1.0, 2.0], 40)
    weighted = RiskRejector(pipeline, Ridge(), residuals="train").fit(X[:80], Y[:80], sample_weight=weight)
    repeated = np.repeat(np.arange(80), weight.astype(int))
    copies = RiskRejector(pipeline, Ridge(), residuals="train").fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(weighted.predict(NEW), copies.predict(NEW), rtol=1e-6)


class Forgetful(RegressorMixin, BaseEstimator):
    """Claims to predict several targets and predicts one."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@pytest.mark.parametrize("prefit", [False, True])
def test_a_regressor_that_predicts_too_few_targets_is_named(prefit):
    regressor = Forgetful().fit(X, Y)
    message = r"^Forgetful must predict 2 values for each of \d+ rows, got shape \(\d+,\)$"
    with pytest.raises(ValueError, match=message):
        RiskRejector(regressor, Ridge(), prefit=prefit).fit(X, Y)


def test_a_prefitted_regressor_of_several_targets_is_used_as_it_is():
    regressor = LinearRegression().fit(X, Y)
    model = RiskRejector(regressor, TREES, prefit=True, cost=0.5, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(NEW), regressor.predict(NEW))


# ---- what is said to scikit-learn and to the user


@pytest.mark.parametrize(
    ("model", "several"),
    [
        (RcRRegressor(), True),
        (RiskRejector(), True),
        (StackedMLPRegressor(), True),
        (SelectiveNetRegressor(), False),
        (KernelAverage(), False),
    ],
    ids=str,
)
def test_the_tags_state_which_estimators_predict_several_targets(model, several):
    assert get_tags(model).target_tags.multi_output is several


@EVERY
def test_decisions_are_measured_against_as_many_targets_only(make):
    decision = make(cost=0.5).fit(X[:90], Y[:90]).decide(NEW)
    with pytest.raises(ValueError, match=r"same number of outputs, got shapes \(3000,\) and \(3000, 2\)$"):
        decision.evaluate(NEW_Y[:, 0])
