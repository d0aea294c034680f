"""Decisions through pipelines, searches and transformed targets, and decisions by cross-validation."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, RandomizedSearchCV, ShuffleSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, PowerTransformer, StandardScaler

from recuse import Decision, RcRRegressor, RiskRejector
from recuse.estimators import cross_val_decide, decide, expected_loss
from recuse.metrics import rcr_scorer
from sample_rows import NEW, NEW_Y, ROW_COST, X, Y

LABELS = [f"row {i}" for i in range(len(NEW))]
NEW_FRAME = pd.DataFrame(NEW, columns=["a", "b"], index=LABELS)
FRAME = pd.DataFrame(X, columns=["a", "b"], index=[f"r{i}" for i in range(len(X))])
# a shifted and scaled target rounds differently, and the calibration of the risks, in logarithms, amplifies that
UNITS = {"rtol": 2e-3, "atol": 2e-3}
GRID = {"risk__n_neighbors": [5, 9]}


def risk(**parameters):
    defaults = {"regressor": LinearRegression(), "risk": KNeighborsRegressor(9), "random_state": 0}
    return RiskRejector(**{**defaults, **parameters})


def joint(**parameters):
    return RcRRegressor(**{"epochs": 15, "slow_start": 5, "random_state": 0, **parameters})


def same_decision(one, other, rtol=1e-9, atol=1e-12):
    for name in ("prediction", "score", "cost"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=atol)
    np.testing.assert_array_equal(one.accepted, other.accepted)
    assert one.loss == other.loss


# --- through other estimators -----------------------------------------------------------------------


def test_a_rejecting_regressor_decides_as_by_its_own_method():
    model = risk(cost=2.0).fit(X, Y)
    assert decide(model, NEW) == model.decide(NEW)
    assert decide(model, NEW, cost=3.0) == model.decide(NEW, cost=3.0)
    np.testing.assert_array_equal(expected_loss(model, NEW), model.expected_loss(NEW))


def test_a_pipeline_decides_on_the_transformed_rows_and_keeps_the_index():
    pipeline = make_pipeline(StandardScaler(), risk(cost=2.0)).fit(FRAME, Y)
    scaled = StandardScaler().fit(X).transform(NEW)
    alone = risk(cost=2.0).fit(StandardScaler().fit_transform(X), Y)
    decision = decide(pipeline, NEW_FRAME)
    same_decision(decision, alone.decide(scaled))
    assert decision.index.tolist() == LABELS
    np.testing.assert_allclose(expected_loss(pipeline, NEW_FRAME), alone.expected_loss(scaled))


def test_rows_without_labels_get_none_from_a_transformer_that_makes_frames():
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), risk()).fit(X, Y)
    assert decide(pipeline, NEW).index is None


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_decides_by_its_best_estimator(search):
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    fitted = search(risk(), GRID, scoring=rcr_scorer, cv=3, **options).fit(X, Y)
    assert decide(fitted, NEW, cost=2.0) == fitted.best_estimator_.decide(NEW, cost=2.0)


def test_any_nesting_is_unwrapped():
    inner = make_pipeline(MinMaxScaler(), risk(cost=0.2))
    search = GridSearchCV(inner, {f"riskrejector__{name}": values for name, values in GRID.items()}, cv=3)
    outer = Pipeline(
        [("scale", StandardScaler()), ("rest", TransformedTargetRegressor(search, transformer=StandardScaler()))]
    )
    decision = decide(outer.fit(FRAME, Y), NEW_FRAME)
    np.testing.assert_allclose(decision.prediction, outer.predict(NEW_FRAME))
    np.testing.assert_allclose(decision.cost, 0.2 * np.var(Y))
    assert decision.index.tolist() == LABELS


def test_the_cost_of_a_pipeline_may_name_a_column_of_the_users_table_or_be_a_function_of_it():
    fees = NEW_FRAME.assign(fee=ROW_COST[: len(NEW)])
    pipeline = make_pipeline(make_column_transformer(("passthrough", ["a", "b"])), risk())
    pipeline.fit(FRAME.assign(fee=ROW_COST), Y)
    np.testing.assert_array_equal(decide(pipeline, fees, cost="fee").cost, fees["fee"])
    np.testing.assert_array_equal(decide(pipeline, fees, cost=lambda frame: 2 * frame["fee"]).cost, 2 * fees["fee"])


# --- transformed targets ----------------------------------------------------------------------------


def halved(y):
    return (y - 7) / 2


def doubled(z):
    return 2 * z + 7


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber:0.5", "pinball:0.8"])
def test_an_affine_target_gives_the_decisions_of_the_original_target(loss):
    # with these parts everything is equivariant: fitting halved targets gives halved predictions
    outer_loss = "huber:1.0" if loss == "huber:0.5" else loss
    unit = 4.0 if loss in ("squared", "huber:0.5") else 2.0
    original = risk(cost=3.0, loss=outer_loss).fit(X, Y)
    halves = TransformedTargetRegressor(risk(cost=3.0 / unit, loss=loss), func=halved, inverse_func=doubled).fit(X, Y)
    same_decision(decide(halves, NEW), original.decide(NEW), **UNITS)
    same_decision(decide(halves, NEW, cost=5.0), original.decide(NEW, cost=5.0), **UNITS)
    np.testing.assert_allclose(expected_loss(halves, NEW), original.expected_loss(NEW), **UNITS)
    assert rcr_scorer(halves, NEW, NEW_Y) == pytest.approx(rcr_scorer(original, NEW, NEW_Y), rel=2e-3)


def test_scores_without_units_stay_as_they_are():
    model = TransformedTargetRegressor(joint(), func=halved, inverse_func=doubled).fit(X, Y)
    inner = model.regressor_.decide(NEW)
    decision = decide(model, NEW)
    np.testing.assert_array_equal(decision.score, inner.score)
    np.testing.assert_allclose(decision.prediction, doubled(inner.prediction))


def test_an_estimator_of_one_cost_takes_that_cost_in_the_users_units():
    model = TransformedTargetRegressor(joint(cost=0.3), transformer=StandardScaler()).fit(X, Y)
    decision = decide(model, NEW)
    assert decide(model, NEW, cost=decision.cost[0]) == decision
    with pytest.raises(ValueError, match="cannot decide at cost"):
        decide(model, NEW, cost=2 * decision.cost[0])


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (Y, {"transformer": PowerTransformer()}),
        (np.exp(Y / 4), {"func": np.log, "inverse_func": np.exp}),
        (Y, {"func": np.negative, "inverse_func": np.negative}),
        (np.abs(Y), {"func": np.copy, "inverse_func": np.abs}),
    ],
    ids=["power", "log", "decreasing", "folded"],
)
def test_another_transformation_of_the_target_is_refused(y, options):
    model = TransformedTargetRegressor(risk(), **options, check_inverse=False).fit(X, y)
    with pytest.raises(ValueError, match="RiskRejector states its cost in units of the transformed target"):
        decide(model, NEW)
    with pytest.raises(ValueError, match=r"must be affine and increasing"):
        expected_loss(model, NEW)


# --- what cannot decide -----------------------------------------------------------------------------


def test_a_regressor_that_cannot_reject_is_refused():
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y)
    with pytest.raises(TypeError, match="LinearRegression has no method `decide`"):
        decide(model, NEW)
    with pytest.raises(TypeError, match="RcRRegressor has no method `expected_loss`"):
        expected_loss(joint().fit(X, Y), NEW)


@pytest.mark.parametrize(
    "model",
    [make_pipeline(StandardScaler(), risk()), GridSearchCV(risk(), GRID), TransformedTargetRegressor(risk())],
    ids=lambda model: type(model).__name__,
)
def test_what_is_not_fitted_is_named(model):
    with pytest.raises(NotFittedError):
        decide(model, NEW)


def test_a_search_without_refit_has_nothing_to_decide_with():
    search = GridSearchCV(risk(), GRID, cv=3, refit=False).fit(X, Y)
    with pytest.raises(ValueError, match="refit=True"):
        decide(search, NEW)


# --- the scorer -------------------------------------------------------------------------------------


def plain_models():
    search = GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [3, 5]}, cv=3, scoring=rcr_scorer)
    logs = TransformedTargetRegressor(LinearRegression(), func=np.arcsinh, inverse_func=np.sinh)
    return [LinearRegression(), make_pipeline(StandardScaler(), search), search, logs]


@pytest.mark.parametrize("model", plain_models(), ids=lambda model: type(model).__name__)
def test_a_regressor_that_cannot_reject_scores_its_mean_squared_error(model):
    model = clone(model).fit(X, Y)
    weight = ROW_COST[: len(NEW)]
    error = (model.predict(NEW) - NEW_Y) ** 2
    assert rcr_scorer(model, NEW, NEW_Y) == pytest.approx(-error.mean())
    assert rcr_scorer(model, NEW, NEW_Y, cost=0.1) == pytest.approx(-error.mean())
    assert rcr_scorer(model, NEW, NEW_Y, sample_weight=weight) == pytest.approx(-np.average(error, weights=weight))


# --- cross-validation -------------------------------------------------------------------------------


def by_hand(model, splitter, fit_options=(), cost=None, groups=None):
    prediction, score = np.empty(len(X)), np.empty(len(X))
    for train, test in splitter.split(X, Y, groups):
        options = {name: np.asarray(values)[train] for name, values in dict(fit_options).items()}
        fitted = clone(model).fit(X[train], Y[train], **options)
        part = fitted.decide(X[test], cost=None if cost is None else cost[test])
        prediction[test], score[test] = part.prediction, part.score
    return prediction, score


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_each_row_is_decided_by_a_copy_fitted_without_it(n_jobs):
    splitter, model = KFold(4, shuffle=True, random_state=3), risk(cost=2.0)
    decision = cross_val_decide(model, FRAME, Y, cv=splitter, n_jobs=n_jobs)
    prediction, score = by_hand(model, splitter)
    np.testing.assert_allclose(decision.prediction, prediction)
    np.testing.assert_allclose(decision.score, score)
    assert decision.index.equals(FRAME.index)
    assert not hasattr(model, "regressors_")


def test_costs_and_weights_per_row_follow_their_rows():
    splitter, weight = KFold(3), np.arange(1.0, len(X) + 1)
    decision = cross_val_decide(joint(), X, Y, cv=splitter, cost=pd.Series(ROW_COST), sample_weight=weight)
    prediction, score = by_hand(joint(), splitter, {"cost": ROW_COST, "sample_weight": weight}, ROW_COST)
    np.testing.assert_allclose(decision.prediction, prediction)
    np.testing.assert_allclose(decision.score, score)
    np.testing.assert_array_equal(decision.cost, ROW_COST)


@pytest.mark.parametrize("cost", [2.5, "fee", lambda frame: frame["fee"]], ids=["number", "column", "callable"])
def test_a_number_a_column_and_a_function_serve_every_fold(cost):
    frame = FRAME.assign(fee=ROW_COST)
    decision = cross_val_decide(risk(), frame, Y, cv=3, cost=cost)
    np.testing.assert_array_equal(decision.cost, np.full(len(X), 2.5) if cost == 2.5 else ROW_COST)


def test_costs_reach_the_last_step_of_a_pipeline_and_of_a_search():
    splitter = KFold(3)
    pipeline = make_pipeline(FunctionTransformer(), joint())
    search = GridSearchCV(pipeline, {"rcrregressor__epochs": [15]}, cv=2)
    alone = cross_val_decide(joint(), X, Y, cv=splitter, cost=ROW_COST)
    assert cross_val_decide(pipeline, X, Y, cv=splitter, cost=ROW_COST) == alone
    assert cross_val_decide(search, X, Y, cv=splitter, cost=ROW_COST) == alone
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(FunctionTransformer(), joint().set_fit_request(cost=True))
        assert cross_val_decide(routed, X, Y, cv=splitter, cost=ROW_COST) == alone


def test_a_transformed_target_is_decided_at_the_users_cost():
    model = TransformedTargetRegressor(risk(), func=halved, inverse_func=doubled)
    alone = cross_val_decide(risk(), X, Y, cv=3, cost=ROW_COST)
    same_decision(cross_val_decide(model, X, Y, cv=3, cost=ROW_COST), alone, **UNITS)


class Recorder(RegressorMixin, BaseEstimator):
    """Accepts all, and keeps the groups it was fitted with in its prediction."""

    def fit(self, X, y, groups=None):
        self.seen_ = set(groups)
        return self

    def predict(self, X):
        return np.full(len(X), float(len(self.seen_)))

    def decide(self, X, cost=None):
        return Decision(self.predict(X), np.ones(len(X)), X[:, 0], 1.0)


@pytest.mark.parametrize("cv", [None, 4, GroupKFold(4)], ids=str)
def test_groups_reach_the_splitter_and_fit(cv):
    groups = np.repeat(np.arange(8), 10)
    decision = cross_val_decide(Recorder(), X, Y, cv=cv, groups=groups)
    expected = np.empty(len(X))
    for train, test in GroupKFold(5 if cv is None else 4).split(X, Y, groups):
        expected[test] = len(set(groups[train]))
    np.testing.assert_array_equal(decision.prediction, expected)


def test_a_search_divides_by_the_groups():
    groups = np.repeat(np.arange(8), 10)
    search = GridSearchCV(risk(), GRID, cv=GroupKFold(2))
    assert len(cross_val_decide(search, X, Y, cv=GroupKFold(4), groups=groups)) == len(X)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (TimeSeriesSplit(3), r"got row 0 \(label 'r0'\) in 0 of them"),
        (ShuffleSplit(30, random_state=0), r"got row \d+ \(label 'r\d+'\) in \d+ of them"),
    ],
)
def test_test_parts_must_partition_the_rows(cv, message):
    with pytest.raises(ValueError, match="cv must put every row into exactly one test part, " + message):
        cross_val_decide(risk(), FRAME, Y, cv=cv)


def test_a_cost_of_another_length_is_refused_before_any_fit():
    with pytest.raises(ValueError, match="cost must be a number or have one value for each of 80 rows"):
        cross_val_decide(risk(), X, Y, cost=[1.0, 2.0, 3.0])
