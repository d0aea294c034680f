"""RcRRegressor in pipelines, searches and cross-validation, with metadata routing of costs and weights."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from recuse import RcRRegressor, RiskRejector
from recuse.metrics import rcr_scorer

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, size=(60, 2))
Y = 3 * X[:, 0] + np.exp(X[:, 1]) / 2 * RANDOM.normal(size=60)
COST = RANDOM.uniform(0.5, 4, size=60)
WEIGHT = RANDOM.integers(1, 4, size=60).astype(float)
FOLDS = KFold(3)


def make(**parameters):
    return RcRRegressor(**{"epochs": 20, "slow_start": 5, "random_state": 0, **parameters})


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def by_hand(model, score_cost=None, fit_options=(), score_weight=None):
    """Fit and score every fold without scikit-learn's help."""
    scores = []
    for train, test in FOLDS.split(X):
        options = {name: values[train] for name, values in dict(fit_options).items()}
        fitted = clone(model).fit(X[train], Y[train], **options)
        decision = fitted.decide(X[test], cost=None if score_cost is None else score_cost[test])
        weight = None if score_weight is None else score_weight[test]
        scores.append(-decision.evaluate(Y[test], sample_weight=weight)["rcr_loss"])
    return scores


def test_a_clone_has_the_parameters_and_nothing_learned():
    model = make(cost=3.0, hidden=[4, 4], unseen="keep").fit(X, Y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "regressor_")
    np.testing.assert_array_equal(copy.fit(X, Y).predict(X), model.predict(X))


def test_parameters_are_set_and_got_by_name():
    model = make().set_params(cost=5.0, n_members=2)
    assert (model.get_params()["cost"], model.n_members) == (5.0, 2)
    assert set(RcRRegressor().get_params()) >= {"cost", "surrogate", "network", "hidden", "epochs", "slow_start"}
    with pytest.raises(ValueError, match="Invalid parameter 'price'"):
        model.set_params(price=3)


def test_fit_changes_no_parameter():
    model = make(learning_rate=[0.1, 0.01])
    before = {name: pickle.dumps(value) for name, value in model.get_params().items()}
    model.fit(X, Y, cost=COST)
    assert {name: pickle.dumps(value) for name, value in model.get_params().items()} == before


@pytest.mark.parametrize("parameters", [{}, {"n_members": 2}, {"network": "linear"}], ids=str)
def test_a_pickled_model_decides_as_before(parameters):
    model = make(**parameters).fit(X, Y, cost=COST)
    restored = pickle.loads(pickle.dumps(model))
    assert restored.decide(X, cost=COST) == model.decide(X, cost=COST)
    np.testing.assert_array_equal(restored.fit(X, Y).predict(X), model.fit(X, Y).predict(X))


def test_the_repr_names_the_changed_parameters_and_the_page_draws_them():
    model = make(cost=4.0)
    assert repr(model) == "RcRRegressor(cost=4.0, epochs=20, random_state=0, slow_start=5)"
    assert "RcRRegressor" in model._repr_html_()
    assert "Fitted" in model.fit(X, Y)._repr_html_()


def test_it_is_a_regressor_whose_score_is_r2_of_all_predictions():
    model = make(cost=50.0, epochs=60).fit(X, Y)
    assert is_regressor(model)
    expected = 1 - np.mean((model.predict(X) - Y) ** 2) / np.var(Y)
    assert model.score(X, Y) == pytest.approx(expected)


def test_cross_validation_scores_by_the_rcr_loss():
    result = cross_validate(make(cost=2.0), X, Y, cv=FOLDS, scoring=rcr_scorer, return_train_score=True)
    np.testing.assert_allclose(result["test_score"], by_hand(make(cost=2.0)))
    assert result["train_score"].max() <= 0


def test_cross_validated_predictions_are_those_of_the_folds():
    prediction = cross_val_predict(make(cost=2.0), X, Y, cv=FOLDS)
    for train, test in FOLDS.split(X):
        np.testing.assert_array_equal(prediction[test], make(cost=2.0).fit(X[train], Y[train]).predict(X[test]))


def test_a_grid_search_picks_the_parameters_of_the_lowest_loss():
    grid = {"learning_rate": [1e-1, 1e-6], "surrogate": ["mae", "logistic"]}
    search = GridSearchCV(make(cost=20.0, epochs=40), grid, cv=FOLDS, scoring=rcr_scorer).fit(X, Y)
    means = search.cv_results_["mean_test_score"]
    assert search.best_score_ == means.max()
    assert search.best_params_["learning_rate"] == 1e-1
    assert search.best_estimator_.decide(X).evaluate(Y)["rcr_loss"] < 20.0


def test_a_pipeline_fits_and_scores_and_its_parameters_can_be_searched():
    pipeline = make_pipeline(StandardScaler(), make(cost=2.0))
    search = GridSearchCV(pipeline, {"rcrregressor__network": ["mlp", "linear"]}, cv=FOLDS, scoring=rcr_scorer)
    search.fit(X, Y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.predict(X).shape == search.decision_function(X).shape == (60,)


def test_a_pipeline_may_encode_the_columns_itself():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encode.set_output(transform="default"), make()).fit(frame, Y)
    assert rcr_scorer(pipeline, frame, Y) < 0


def test_a_pipeline_of_frames_keeps_the_cost_column():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(fee=COST)
    pipeline = make_pipeline(FunctionTransformer(), make(cost="fee")).fit(frame, Y)
    np.testing.assert_array_equal(pipeline[-1].decide(frame).cost, COST)
    assert rcr_scorer(pipeline, frame, Y) == -pipeline[-1].decide(frame).evaluate(Y)["rcr_loss"]


def test_an_ensemble_of_scikit_learn_may_hold_it():
    bag = BaggingRegressor(make(), n_estimators=2, random_state=0).fit(X, Y)
    members = [member.predict(X) for member in bag.estimators_]
    np.testing.assert_allclose(bag.predict(X), np.mean(members, axis=0))


@pytest.mark.usefixtures("routing")
def test_costs_and_weights_reach_every_fold_of_a_cross_validation():
    model = make().set_fit_request(cost=True, sample_weight=True)
    result = cross_validate(model, X, Y, cv=FOLDS, scoring=rcr_scorer, params={"cost": COST, "sample_weight": WEIGHT})
    expected = by_hand(make(), COST, {"cost": COST, "sample_weight": WEIGHT}, WEIGHT)
    np.testing.assert_allclose(result["test_score"], expected)


@pytest.mark.usefixtures("routing")
def test_costs_alone_reach_every_fold_where_weights_are_not_given():
    model = make().set_fit_request(cost=True)
    result = cross_validate(model, X, Y, cv=FOLDS, scoring=rcr_scorer, params={"cost": COST})
    np.testing.assert_allclose(result["test_score"], by_hand(make(), COST, {"cost": COST}))


@pytest.mark.usefixtures("routing")
def test_a_grid_search_routes_costs_to_fit_and_scorer():
    model = make().set_fit_request(cost=True)
    search = GridSearchCV(model, {"network": ["mlp", "linear"]}, cv=FOLDS, scoring=rcr_scorer).fit(X, Y, cost=COST)
    assert search.best_estimator_.serves_any_cost
    expected = [np.mean(by_hand(make(network=network), COST, {"cost": COST})) for network in ("mlp", "linear")]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)


@pytest.mark.usefixtures("routing")
def test_a_pipeline_routes_costs_and_weights_to_fit_and_decision_function():
    # the scaler takes no weights, so that the pipeline equals its two halves
    model = make().set_fit_request(cost=True, sample_weight=True).set_decision_function_request(cost=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, model).fit(X, Y, cost=COST, sample_weight=WEIGHT)
    features = StandardScaler().fit_transform(X)
    alone = make().fit(features, Y, cost=COST, sample_weight=WEIGHT)
    np.testing.assert_array_equal(
        pipeline.decision_function(X, cost=COST), alone.decision_function(features, cost=COST)
    )
    np.testing.assert_array_equal(pipeline.predict(X), alone.predict(features))


@pytest.mark.usefixtures("routing")
def test_a_pipeline_in_a_cross_validation_routes_costs():
    pipeline = make_pipeline(StandardScaler(), make().set_fit_request(cost=True))
    result = cross_validate(pipeline, X, Y, cv=FOLDS, scoring=rcr_scorer, params={"cost": COST})
    expected = []
    for train, test in FOLDS.split(X):
        scaler = StandardScaler().fit(X[train])
        model = make().fit(scaler.transform(X[train]), Y[train], cost=COST[train])
        decision = model.decide(scaler.transform(X[test]), cost=COST[test])
        expected.append(-decision.evaluate(Y[test])["rcr_loss"])
    np.testing.assert_allclose(result["test_score"], expected)


@pytest.mark.usefixtures("routing")
def test_costs_that_are_not_requested_raise_an_error():
    with pytest.raises(UnsetMetadataPassedError, match="cost"):
        cross_validate(make(), X, Y, cv=FOLDS, scoring=rcr_scorer, params={"cost": COST})


@pytest.mark.usefixtures("routing")
def test_the_requests_of_the_scorer_can_be_set():
    model = make().set_fit_request(cost=True)
    scorer = rcr_scorer.set_score_request(cost=True)
    result = cross_validate(model, X, Y, cv=FOLDS, scoring=scorer, params={"cost": COST})
    np.testing.assert_allclose(result["test_score"], by_hand(make(), COST, {"cost": COST}))


@pytest.mark.usefixtures("routing")
def test_the_scorer_takes_a_cost_under_another_name_or_not_at_all():
    scored = {"fee": COST, "sample_weight": WEIGHT}
    renamed = rcr_scorer.set_score_request(cost="fee", sample_weight=False)
    model = RiskRejector(LinearRegression(), KNeighborsRegressor(5), random_state=0).set_fit_request(sample_weight=True)
    result = cross_validate(model, X, Y, cv=FOLDS, scoring=renamed, params=scored)
    np.testing.assert_allclose(result["test_score"], by_hand(model, COST, {"sample_weight": WEIGHT}))
    refusing = rcr_scorer.set_score_request(cost=None)
    with pytest.raises(UnsetMetadataPassedError, match="cost"):
        cross_validate(model.set_fit_request(cost=True), X, Y, cv=FOLDS, scoring=refusing, params={"cost": COST})


@pytest.mark.usefixtures("routing")
def test_setting_requests_leaves_the_shared_scorer_alone():
    before = repr(rcr_scorer.get_metadata_routing())
    rcr_scorer.set_score_request(cost=False)
    rcr_scorer.get_metadata_routing().score.add_request(param="cost", alias=False)
    assert repr(rcr_scorer.get_metadata_routing()) == before
    with pytest.raises(TypeError, match="rcr_scorer takes cost and sample_weight, got price"):
        rcr_scorer.set_score_request(price=True)


def test_requests_need_metadata_routing():
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        rcr_scorer.set_score_request(cost=True)
