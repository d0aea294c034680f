"""RelevantFeatures: features without effect are left out, and no others."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from recuse.estimators.auto.models import relevant_features
from recuse.estimators.auto.models.relevant_features import GammaDeviance, RelevantFeatures
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.losses import SQUARED


def linear(random_state=0):
    return RelevantFeatures(LinearRegression(), LinearRegression(), SQUARED, random_state=random_state)


def rows(count=400, features=6, seed=0):
    random = np.random.RandomState(seed)
    X = random.normal(size=(count, features))
    return X, X[:, 0] - 2 * X[:, 3] + 0.5 * random.normal(size=count)


def test_features_with_an_effect_are_kept():
    X, y = rows()
    kept = linear().fit(X, y).columns_
    assert {0, 3} <= set(kept)
    assert len(kept) < 5


def test_a_feature_with_no_effect_does_not_change_a_prediction():
    X, y = rows()
    model = linear().fit(X, y)
    without = np.setdiff1d(np.arange(6), model.columns_)
    changed = X.copy()
    changed[:, without] += 100.0
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))


def test_pure_noise_leaves_all_features_or_few():
    """About one feature in forty is two standard errors above zero by chance."""
    random = np.random.RandomState(0)
    kept = [
        len(linear(seed).fit(*(random.normal(size=(300, 8)), random.normal(size=300))).columns_) for seed in range(9)
    ]
    assert all(count == 8 or count <= 2 for count in kept)


def test_two_copies_of_a_feature_are_not_both_left_out():
    X, y = rows()
    doubled = np.column_stack([X, X[:, 3]])
    assert {3, 6} & set(linear().fit(doubled, y).columns_)


def test_rows_of_weight_near_zero_do_not_select():
    X, y = rows(800)
    y[:400], weight = X[:400, 5] * 10, np.repeat([1e-9, 1.0], 400)
    assert 5 not in linear().fit(X, y, sample_weight=weight).columns_


def test_a_wide_table_keeps_all_features(monkeypatch):
    monkeypatch.setattr(relevant_features, "_MAX_FEATURES", 5)
    assert len(linear().fit(*rows()).columns_) == 6


def test_risks_are_selected_by_the_gamma_deviance():
    random = np.random.RandomState(0)
    X = random.uniform(-1, 1, size=(3000, 4))
    error = np.exp(2 * X[:, 2]) * random.normal(size=3000) ** 2
    network = RiskNetwork((8, 8), epochs=20, learning_rate=1e-2, random_state=0)
    model = RelevantFeatures(network, network, GammaDeviance(), random_state=0).fit(X, error)
    assert 2 in model.columns_
    assert len(model.columns_) < 4


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_a_loss_does_not_matter(scale):
    deviance, error, risk = GammaDeviance(), np.array([0.5, 2.0]), np.array([1.0, 1.5])
    np.testing.assert_allclose(deviance(scale * risk, scale * error) - np.log(scale), deviance(risk, error))


def test_fitted_together_as_alone():
    tables = [(*rows(seed=seed), None) for seed in range(3)]
    alone, together = [linear().fit(X, y) for X, y, _ in tables], [linear() for _ in tables]
    RelevantFeatures.fit_together(together, tables)
    for one, other, (X, _, _) in zip(alone, together, tables, strict=True):
        np.testing.assert_array_equal(one.columns_, other.columns_)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))


def with_derived(X, y):
    """Add a feature that is a function of the others, and nearly the target."""
    return np.column_stack([X, X[:, 0] - 2 * X[:, 3]])


def test_an_optional_feature_is_left_out_where_the_others_say_as_much():
    X, y = rows()
    derived = with_derived(X, y)
    assert linear().fit(derived, y).columns_[-1] == 6
    assert set(linear().set_params(optional=1).fit(derived, y).columns_) >= {0, 3}
    assert 6 not in linear().set_params(optional=1).fit(derived, y).columns_


def test_an_optional_feature_is_kept_where_the_loss_is_higher_without_it():
    X, y = rows()
    product = np.column_stack([X, X[:, 0] * X[:, 3]])
    assert 6 in linear().set_params(optional=1).fit(product, y + 3 * product[:, 6]).columns_


@pytest.mark.parametrize("features", [1, 2])
def test_a_table_of_no_more_features_than_are_optional_is_fitted(features):
    X = rows(features=4)[0][:, :features]
    assert 0 in linear().set_params(optional=2).fit(X, X[:, 0]).columns_


def test_optional_features_do_not_change_those_that_are_fitted_together():
    X, y = rows()
    tables = [(with_derived(X, y), y, None)] * 2
    together = [linear().set_params(optional=1), linear()]
    RelevantFeatures.fit_together(together, tables)
    assert [6 in model.columns_ for model in together] == [False, True]
