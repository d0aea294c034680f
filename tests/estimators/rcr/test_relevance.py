"""With many rows, networks use only the features that matter: other ones for the prediction than for the rejection."""

import numpy as np
import pytest

from recuse import RcRRegressor
from recuse.estimators.rcr.cost_path import fit_costs


def rows(n_rows, seed=0):
    """The mean depends on feature 0, the variance on feature 1, and nothing on the others."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n_rows, 5))
    return X, 2 * np.sin(3 * X[:, 0]) + random.normal(size=n_rows) * np.where(X[:, 1] > 0, 1.5, 0.2)


def depends_on(function, X):
    """The features that change the result of a function of rows."""
    before, found = function(X), []
    for place in range(X.shape[1]):
        changed = X.copy()
        changed[:, place] = -X[:, place]
        if not np.array_equal(function(changed), before):
            found.append(place)
    return found


def make(**parameters):
    return RcRRegressor(
        cost=0.5, **{"epochs": 30, "n_members": 2, "learning_rate": 1e-2, "random_state": 0, **parameters}
    )


X, Y = rows(6000)
NEW, _ = rows(200, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return make().fit(X, Y)


def test_each_network_uses_the_features_that_matter_to_it(fitted):
    assert depends_on(fitted.predict, NEW) == [0]
    assert depends_on(fitted.decision_function, NEW) == [1]


def test_the_decisions_are_good(fitted):
    accepted = fitted.decide(NEW).accepted
    assert np.mean(accepted == (NEW[:, 1] <= 0)) > 0.95


@pytest.mark.parametrize(
    ("count", "parameters"), [(2000, {}), (6000, {"recipe": "paper"}), (6000, {"network": "linear"})]
)
def test_few_rows_other_networks_and_the_paper_use_all_features(count, parameters):
    model = make(epochs=4, **parameters).fit(X[:count], Y[:count])
    assert depends_on(model.predict, NEW) == depends_on(model.decision_function, NEW) == [0, 1, 2, 3, 4]


def test_a_cost_that_varies_by_row_is_always_an_input_of_the_rejector():
    cost = np.random.default_rng(2).uniform(0.2, 1.0, len(Y))
    model = make().fit(X, Y, cost=cost)
    assert depends_on(model.predict, NEW) == [0]
    low, high = (model.decide(NEW, cost=value).accepted for value in (0.02, 1.0))
    assert low.sum() < high.sum()
    assert not np.any(low & ~high)


def test_an_aim_selects_the_same_features_alone_and_beside_others():
    models = fit_costs(make(epochs=4), X, Y, costs=[0.1, 0.5], surrogates=["mae", "square"])
    alone = make(epochs=4, surrogate="square").fit(X, Y)
    np.testing.assert_array_equal(models[3].decision_function(NEW), alone.decision_function(NEW))


def test_a_warm_start_keeps_the_selection():
    model = make(warm_start=True).fit(X, Y)
    model.fit(*rows(6000, seed=3))
    assert depends_on(model.predict, NEW) == [0]
