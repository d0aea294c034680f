"""Folds: groups, time, repeated measurements and copies of rows."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, TimeSeriesSplit, cross_validate
from sklearn.neighbors import KNeighborsRegressor

from recuse import AutoRejector, RcRRegressorCV, RiskRejector
from recuse.estimators.auto.candidates import LEARNERS, choose, with_weighted
from recuse.estimators.crossfitting import Sample, cross_fit
from recuse.losses import SQUARED
from recuse.metrics import rcr_scorer
from sample_rows import NEW, X, Y

TREES = ExtraTreesRegressor(30, min_samples_leaf=5)
QUICK = {"learners": {"ridge": Ridge(), "nearest": KNeighborsRegressor(3)}, "risk_models": {"trees": TREES}}
CROSS_FITTING = {
    "risk": RiskRejector(Ridge(), TREES, random_state=0),
    "auto": AutoRejector(**QUICK, random_state=0),
    "rcr": RcRRegressorCV(epochs=20, n_members=1, random_state=0),
}
GROUPS = np.arange(len(X)) // 4


class Remembering(Ridge):
    """Keeps the rows that each copy was fitted to."""

    fits = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.fits.append(np.array(y))
        return super().fit(X, y, sample_weight)


def houses(n_groups, seed):
    """Several rows of each house, whose own level no feature explains but its position."""
    random = np.random.default_rng(seed)
    position = random.uniform(0, 1, size=n_groups)
    level = 2.0 * random.choice([-1.0, 1.0], size=n_groups)
    group = np.repeat(np.arange(n_groups), 12)
    X = np.column_stack([position[group], random.uniform(-1, 1, size=len(group))])
    return X, level[group] + X[:, 1] + 0.3 * random.normal(size=len(group)), group


@pytest.mark.parametrize("kind", ["risk", "auto"])
def test_expected_losses_are_right_on_new_groups_only_if_the_groups_are_given(kind):
    """Without groups, the folds share the houses, and the model recognises them by their position."""
    X, y, group = houses(150, seed=0)
    new, new_y, _ = houses(400, seed=1)
    # positions differ a little within a house, so equal features do not give it away
    X[:, 0] += np.random.default_rng(2).uniform(-1e-4, 1e-4, size=len(X))
    forest = ExtraTreesRegressor(30)
    model = (
        RiskRejector(forest, TREES, random_state=0)
        if kind == "risk"
        else AutoRejector(
            learners={"forest": forest, "ridge": Ridge()}, risk_models={"trees": TREES}, cv=3, random_state=0
        )
    )

    def ratio(**options):
        fitted = model.fit(X, y, **options)
        return fitted.expected_loss(new).mean() / np.mean((fitted.predict(new) - new_y) ** 2)

    assert ratio(groups=group) == pytest.approx(1, abs=0.15)
    assert ratio() < 0.7


def test_repeated_measurements_share_a_fold():
    """The same features with different targets: the out-of-fold loss is that of new rows."""
    random = np.random.default_rng(0)
    points = random.uniform(-2, 2, size=(1500, 3))
    level = 3 * random.normal(size=1500)
    point = np.repeat(np.arange(1500), 3)
    X, y = points[point], level[point] + 0.1 * random.normal(size=4500)
    model = AutoRejector(**QUICK | {"learners": {"nearest": KNeighborsRegressor(3)}}, random_state=0).fit(X, y)
    new, new_level = random.uniform(-2, 2, size=(2000, 3)), 3 * random.normal(size=2000)
    promised = model.leaderboard_.query("name == 'blend'")["loss"].item()
    assert promised == pytest.approx(np.mean((model.predict(new) - new_level) ** 2), rel=0.15)


def test_copies_of_a_row_with_different_costs_share_a_fold():
    Remembering.fits.clear()
    twice, cost = np.repeat(np.arange(len(X)), 2), np.tile([1.0, 2.0], len(X))
    AutoRejector(**QUICK | {"learners": {"ridge": Remembering()}}, random_state=0).fit(X[twice], Y[twice], cost=cost)
    for y in Remembering.fits:
        _, counts = np.unique(y, return_counts=True)
        assert set(counts) <= {2}


@pytest.mark.parametrize("kind", list(CROSS_FITTING))
def test_rows_of_one_group_never_stand_on_both_sides(kind):
    """The nearest neighbour of a row is of its own group, and is of no help if that group is left out."""
    random = np.random.default_rng(0)
    level = 5 * random.normal(size=8)
    group = np.repeat(np.arange(8), 20)
    X, y = (group + random.uniform(0, 0.1, size=160))[:, None], level[group]
    nearest = {"risk": {"regressor": KNeighborsRegressor(1)}, "auto": {"learners": {"one": KNeighborsRegressor(1)}}}
    networks = {"cost": 1e6, "epochs": 300, "learning_rate": 1e-2}  # at this cost every row is accepted
    model = clone(CROSS_FITTING[kind]).set_params(**nearest.get(kind, networks))

    def out_of_fold_error(groups):
        model.fit(X, y, groups=groups)
        if kind == "rcr":
            return model.validation_loss_
        return np.mean((model.out_of_fold_["prediction"] - model.out_of_fold_["target"]) ** 2)

    assert out_of_fold_error(None) < 0.2 * out_of_fold_error(group)


@pytest.mark.parametrize("kind", list(CROSS_FITTING))
def test_group_k_fold_as_cv_is_the_same_as_groups_are_for(kind):
    model = CROSS_FITTING[kind].set_params(cv=GroupKFold(4))
    assert np.isfinite(model.fit(X, Y, groups=GROUPS).decide(NEW).score).all()
    with pytest.raises(ValueError, match="groups"):
        model.fit(X, Y)
    model.set_params(cv=5)


@pytest.mark.parametrize("kind", list(CROSS_FITTING))
def test_rows_in_no_test_part_serve_for_training_only(kind):
    model = CROSS_FITTING[kind].set_params(cv=TimeSeriesSplit(4))
    decision = model.fit(X, Y).decide(NEW)
    assert np.isfinite(decision.score).all()
    if kind != "rcr":
        known = model.out_of_fold_["expected_loss"].notna().to_numpy()
        np.testing.assert_array_equal(known, np.arange(len(X)) >= len(X) - 4 * (len(X) // 5))
    model.set_params(cv=5)


def test_by_time_the_regressor_is_fitted_to_all_rows_at_the_end():
    model = RiskRejector(Ridge(), TREES, cv=TimeSeriesSplit(4), random_state=0).fit(X, Y)
    assert len(model.regressors_) == 1
    np.testing.assert_allclose(model.predict(NEW), Ridge().fit(model.rule_.encoder.transform(X), Y).predict(
        model.rule_.encoder.transform(NEW)
    ))  # fmt: skip


def test_groups_are_routed_as_metadata():
    model = RiskRejector(Ridge(), TREES, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        result = cross_validate(
            model.set_fit_request(groups=True),
            X,
            Y,
            cv=GroupKFold(3),
            scoring=rcr_scorer,
            params={"groups": GROUPS},
        )
    assert np.isfinite(result["test_score"]).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (GROUPS[:-1], "groups must have one value for each of 80 rows, got 79"),
        (np.zeros(len(X)), "groups must have at least 2 different values"),
        (pd.Series(GROUPS).where(GROUPS > 0), "groups must not be missing, got a missing value at row 0"),
    ],
)
def test_bad_groups_get_a_clear_error(groups, message):
    with pytest.raises(ValueError, match=message):
        RiskRejector(Ridge(), TREES).fit(X, Y, groups=groups)


def test_out_of_fold_results_carry_the_index_of_the_rows_given():
    frame = pd.DataFrame(X, index=[f"car {i}" for i in range(len(X))], columns=["a", "b"])
    twice = pd.concat([frame, frame.iloc[:5].set_axis([f"copy {i}" for i in range(5)])])
    y = np.append(Y, Y[:5])
    weight = np.append(np.ones(len(X)), [0, 1, 1, 1, 1])
    table = RiskRejector(Ridge(), TREES, random_state=0).fit(twice, y, sample_weight=weight).out_of_fold_
    assert table.index.equals(twice.index)
    np.testing.assert_array_equal(table["target"], np.where(weight > 0, y, np.nan))
    pd.testing.assert_series_equal(table.loc["copy 3"], table.loc["car 3"], check_names=False)
    assert table.loc["copy 0"].drop("cost").isna().all()


def test_the_noise_weights_of_a_fold_do_not_depend_on_its_targets():
    """Changing the targets of one fold changes nothing in the models that predict it."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2400, 2))
    y = X[:, 0] + random.normal(size=2400) * np.exp(X[:, 1])
    fold = np.arange(2400) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    weighted = with_weighted(choose(["boosting"], LEARNERS, "learners"), 2400)["boosting_weighted"]
    estimator = weighted.build(1600, SQUARED)
    predictions = [
        cross_fit(estimator, Sample(X, target, np.ones(2400)), splits, np.random.RandomState(0)).out_of_fold.mean
        for target in (y, np.where(fold == 0, -5 * y, y))
    ]
    np.testing.assert_array_equal(*(prediction[fold == 0] for prediction in predictions))
    assert not np.array_equal(*(prediction[fold == 1] for prediction in predictions))
