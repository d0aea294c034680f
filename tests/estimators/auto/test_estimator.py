"""AutoRejector: the lowest out-of-fold cost of all that was tried, for any table, cost and loss."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor

from recuse import AutoRejector, datasets, theory
from recuse.estimators.auto.steps import FitSteps

QUICK = {
    "learners": {"ridge": Ridge(), "nearest": KNeighborsRegressor(5)},
    "risk_models": {"trees": ExtraTreesRegressor(20, min_samples_leaf=10)},
    "random_state": 0,
}


def rows(n_rows=300, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(n_rows, 2))
    return X, 3 * X[:, 0] + np.exp(X[:, 1]) / 2 * random.normal(size=n_rows)


X, Y = rows()
NEW, NEW_Y = rows(200, seed=1)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
FRAME.loc[::7, "a"] = np.nan


@pytest.fixture(scope="module")
def quick():
    return AutoRejector(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def complete():
    """Everything it tries by default, on a small table."""
    return AutoRejector(cost=1.0, random_state=1, cv=3).fit(X, Y)


def test_everything_is_tried_by_default(complete):
    tried = complete.leaderboard_[complete.leaderboard_["rows"] > 0]
    assert set(tried[tried["part"] == "regressor"]["name"]) == {
        "boosting", "networks", "extra_trees", "process", "process_of_pieces", "linear", "support_vectors",
    }  # fmt: skip
    assert set(tried[tried["part"] == "risk"]["name"]) == {"extra_trees", "boosting", "network", "linear"}


def test_the_blend_is_better_than_accepting_or_rejecting_all_and_than_most_of_its_parts(complete):
    board = complete.leaderboard_.set_index(["part", "name"])["rcr_loss"]
    assert board["blend", "blend"] < min(board["yardstick", "always_accept"], board["yardstick", "always_reject"])
    assert board["blend", "blend"] <= board["regressor"].median()
    assert board.dropna().is_monotonic_increasing  # those left out come last


def test_weights_are_shares(quick):
    for part in ("regressor", "risk"):
        weights = quick.leaderboard_[quick.leaderboard_["part"] == part]["weight"]
        assert weights.sum() == pytest.approx(1)
        assert (weights >= 0).all()


def test_a_useless_learner_gets_next_to_nothing():
    learners = {"ridge": Ridge(), "mean": DummyRegressor()}
    board = AutoRejector(**QUICK | {"learners": learners}).fit(X, Y).leaderboard_.set_index("name")
    assert board["weight"]["mean"] < 0.1


def test_new_rows_cost_what_out_of_fold_rows_did(complete):
    measures = complete.decide(NEW).evaluate(NEW_Y)
    expected = complete.leaderboard_.query("name == 'blend'")["rcr_loss"].item()
    assert measures["rcr_loss"] == pytest.approx(expected, rel=0.3)
    variance = np.exp(2 * NEW[:, 1]) / 4
    assert complete.expected_loss(NEW).mean() == pytest.approx(variance.mean(), rel=0.3)


def test_it_comes_close_to_bayes():
    X, y, _, _ = datasets.make_heteroscedastic(1200, random_state=0)
    X_new, _, mean, variance = datasets.make_heteroscedastic(5000, random_state=1)
    model = AutoRejector(learners=["networks"], risk_models=["boosting"], cv=3, random_state=0).fit(X, y)
    cost = float(np.median(variance))
    accepted = model.decide(X_new, cost=cost).accepted
    error = (model.predict(X_new) - mean) ** 2 + variance
    assert np.where(accepted, error, cost).mean() < 1.3 * theory.bayes_risk(variance, cost)


def test_one_fit_serves_any_cost(quick):
    rates = [quick.decide(NEW, cost=cost).rejection_rate for cost in (0.0, 0.5, 2.0, 1e3)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 1
    assert rates[-1] == 0
    by_row = np.where(NEW[:, 0] > 0, 0.0, 1e3)
    np.testing.assert_array_equal(quick.decide(NEW, cost=by_row).accepted, by_row > 0)


def test_the_parts_do_not_depend_on_the_cost(quick):
    other = AutoRejector(**QUICK, cost=3.0).fit(X, Y)
    both = [m.leaderboard_.query("part == 'regressor'").set_index("name")["loss"].sort_index() for m in (quick, other)]
    pd.testing.assert_series_equal(*(losses / losses.mean() for losses in both))  # up to the gain of the folds' mean


def test_a_cost_column_is_no_feature():
    frame = FRAME.assign(fee=1 + X[:, 0] ** 2)
    model = AutoRejector("fee", **QUICK).fit(frame, Y)
    other = frame.assign(fee=5.0)
    np.testing.assert_allclose(model.predict(other), model.predict(frame))
    np.testing.assert_allclose(model.decide(other).cost, 5.0)


def test_categories_and_gaps_are_fine(quick):
    model = AutoRejector(**QUICK).fit(FRAME, Y)
    decision = model.decide(FRAME)
    assert np.isfinite(decision.prediction).all()
    assert np.isfinite(model.predict(FRAME.assign(kind="sideways"))).all()


def test_out_of_fold_rows_suffice_to_choose_a_threshold(quick):
    table = quick.out_of_fold_
    assert list(table.columns) == ["target", "prediction", "expected_loss", "cost", "score"]
    np.testing.assert_allclose(table["target"], Y)  # in the order of the rows given
    np.testing.assert_allclose(table["score"], table["cost"] - table["expected_loss"])
    error = quick.rule_.factor * (table["target"] - table["prediction"]) ** 2
    paid = np.where(table["score"] > 0, error, table["cost"])
    assert paid.mean() == pytest.approx(quick.leaderboard_.query("name == 'blend'")["rcr_loss"].item())


def test_the_same_seed_gives_the_same_model_in_any_number_of_processes(quick):
    for n_jobs in (None, 2):
        again = AutoRejector(**QUICK, n_jobs=n_jobs).fit(X, Y)
        np.testing.assert_allclose(again.expected_loss(NEW), quick.expected_loss(NEW))
        np.testing.assert_allclose(again.predict(NEW), quick.predict(NEW))


def test_a_pickled_model_decides_alike(quick):
    assert pickle.loads(pickle.dumps(quick)).decide(NEW) == quick.decide(NEW)
    assert clone(quick).get_params().keys() == quick.get_params().keys()


@pytest.mark.parametrize("n_rows", [8, 50])
def test_few_rows_are_enough(n_rows):
    model = AutoRejector(random_state=0, learners=["boosting", "process", "support_vectors"]).fit(
        X[:n_rows], Y[:n_rows]
    )
    assert np.isfinite(model.expected_loss(NEW)).all()


def test_a_limit_that_is_not_reached_gives_the_model_without_a_limit():
    tried = {"learners": ["linear", "networks", "extra_trees"], "risk_models": ["boosting", "network"]}
    free, limited = (AutoRejector(time_limit=limit, cv=3, random_state=0, **tried).fit(X, Y) for limit in (None, 600))
    boards = [model.leaderboard_.drop(columns="seconds") for model in (free, limited)]
    pd.testing.assert_frame_equal(*boards, check_exact=True)
    np.testing.assert_array_equal(free.expected_loss(NEW), limited.expected_loss(NEW))


def test_without_time_for_the_last_fits_the_mean_over_the_folds_is_used(monkeypatch):
    X, y = rows(700)
    settings = {**QUICK, "learners": {"ridge": Ridge()}, "time_limit": 600}
    sizes = []
    for has_time in (True, False):
        monkeypatch.setattr(FitSteps, "has_time", lambda steps, trials, has_time=has_time: has_time)
        model = AutoRejector(**settings).fit(X, y)
        sizes.append([len(copies) for copies in model.rule_.models.regressors])
    assert sizes == [[1], [5]]


def test_a_short_limit_changes_no_folds_of_the_user():
    model = AutoRejector(time_limit=0.01, cv=4, **{**QUICK, "learners": {"ridge": Ridge()}}).fit(X, Y)
    assert np.isfinite(model.predict(NEW)).all()
    assert model.out_of_fold_["prediction"].notna().mean() in (0.5, 0.75, 1.0)


def test_what_a_time_limit_leaves_out_is_explained():
    X, Y = rows(3000)
    model = AutoRejector(time_limit=2, random_state=0).fit(X, Y)
    assert model.leaderboard_["note"].str.contains("for lack of time|no time").any()
    assert model.decide(NEW).evaluate(NEW_Y)["rcr_loss"] < 1.0


@pytest.mark.parametrize("loss", ["absolute", "huber:1.0", "pinball:0.9"])
def test_other_losses(loss):
    quick = {"learners": ["boosting"], "risk_models": QUICK["risk_models"], "cv": 2}
    model = AutoRejector(cost=0.6, loss=loss, random_state=0, **quick)
    measures = model.fit(X, Y).decide(NEW).evaluate(NEW_Y)
    assert measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])


def test_a_weight_of_two_is_two_copies():
    weight = np.where(np.arange(len(X)) < 100, 2.0, 1.0)
    folds = np.arange(len(X)) % 3
    weighted = AutoRejector(**QUICK | {"learners": {"ridge": Ridge()}}, cv=_splits(folds)).fit(
        X, Y, sample_weight=weight
    )
    twice = np.repeat(np.arange(len(X)), weight.astype(int))
    copied = AutoRejector(**QUICK | {"learners": {"ridge": Ridge()}}, cv=_splits(folds[twice])).fit(X[twice], Y[twice])
    np.testing.assert_allclose(weighted.expected_loss(NEW), copied.expected_loss(NEW))


def _splits(folds):
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(3)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"time_limit": 0}, "time_limit must be None or a number of seconds > 0, got 0"),
        ({"cv": 1}, "cv must be an int >= 2"),
        ({"loss": "cubic"}, "loss must be one of squared"),
        ({"cost": -1.0}, "cost must be >= 0, got -1.0 at row 0"),
        ({"risk_models": ["magic"]}, r"risk_models\['magic'\] must be an estimator or one of"),
    ],
)
def test_bad_parameters_get_a_clear_error_and_leave_nothing(parameters, message):
    model = AutoRejector(**QUICK | parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "leaderboard_")


def test_of_a_large_table_some_rows_are_drawn():
    weight = np.ones(len(Y))
    weight[62:] = 0.0
    model = AutoRejector(learners=["linear"], risk_models=["boosting"], random_state=0, max_rows=60)
    model.fit(X, Y, sample_weight=weight)
    drawn = model.out_of_fold_["prediction"].notna()
    assert drawn.sum() == 60
    assert not drawn[62:].any()
    some = np.flatnonzero(drawn)
    alone = AutoRejector(learners=["linear"], risk_models=["boosting"], random_state=1).fit(X[some], Y[some])
    assert np.abs(model.predict(X) - alone.predict(X)).max() < 0.05 * Y.std()


def test_a_memory_map_gives_the_model_of_the_array(tmp_path):
    stored = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, X.shape)
    stored[:] = X
    fits = [
        AutoRejector(learners=["linear"], risk_models=["boosting"], random_state=0, max_rows=80).fit(table, Y)
        for table in (np.asarray(X), np.load(tmp_path / "X.npy", mmap_mode="r"))
    ]
    assert np.array_equal(fits[0].predict(X), fits[1].predict(X))


@pytest.mark.parametrize("max_rows", [0, 1, 2.5, "many"])
def test_max_rows_is_a_number_of_rows(max_rows):
    with pytest.raises(ValueError, match="max_rows must be None or an integer >= 2"):
        AutoRejector(max_rows=max_rows).fit(X, Y)


@pytest.mark.parametrize(
    ("n_rows", "noise", "kept"),
    [(300, 1.0, True), (300, 0.01, False), (700, 1.0, False), (700, 3.0, True), (5000, 3.0, False)],
)
def test_the_mean_over_the_folds_is_kept_for_few_noisy_rows(n_rows, noise, kept):
    X, y = rows(n_rows)
    y = 3 * X[:, 0] + noise * (y - 3 * X[:, 0])
    model = AutoRejector(cv=4, **{**QUICK, "learners": {"ridge": Ridge()}}).fit(X, y)
    sizes = [len(copies) for copies in model.rule_.models.regressors]
    assert sizes == [4 if kept else 1]
    assert [len(risk.models) for risk in model.rule_.models.risks] == sizes
    if kept:
        folds = [copy.predict(model.rule_.encoder.transform(NEW)) for copy in model.rule_.models.regressors[0]]
        np.testing.assert_allclose(model.predict(NEW), np.mean(folds, axis=0))


def test_a_fast_fit_decides_by_one_model():
    model = AutoRejector(preset="fast", **QUICK).fit(X, Y)
    assert {len(copies) for copies in model.rule_.models.regressors} == {1}


def test_folds_that_leave_out_rows_are_not_kept():
    model = AutoRejector(cv=TimeSeriesSplit(3), **QUICK).fit(X, Y)
    assert {len(copies) for copies in model.rule_.models.regressors} == {1}
