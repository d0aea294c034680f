"""Decisions at several costs: a row that is accepted at one cost is accepted at every higher one."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor
from sample_rows import NEW, ROW_COST, X, Y

TREES = ExtraTreesRegressor(20, min_samples_leaf=5)
SEVERAL_COSTS = {
    "risk": (RiskRejector(Ridge(), TREES, random_state=0), {}),
    "auto": (AutoRejector(learners={"ridge": Ridge()}, risk_models={"trees": TREES}, random_state=0), {}),
    "one cost per row": (RcRRegressor(epochs=60, random_state=0), {"cost": ROW_COST}),
    "one cost per row, crossfit": (
        RcRRegressorCV(epochs=10, n_members=2, random_state=0),
        {"cost": ROW_COST},
    ),
    "selectivenet": (SelectiveNetRegressor(None, epochs=60, learning_rate=1e-2, random_state=0), {}),
}


@pytest.mark.parametrize("name", list(SEVERAL_COSTS))
def test_acceptance_never_ends_as_the_cost_rises(name):
    model, options = SEVERAL_COSTS[name]
    fitted = model.fit(X, Y, **options)
    costs = [0.0, *np.geomspace(1e-3, 1e3 * ROW_COST.max(), 60)]
    accepted = np.array([fitted.decide(NEW, cost=cost).accepted for cost in costs])
    assert not accepted[0].any()  # a free rejection is always taken
    assert accepted[-1].any()
    assert (accepted[1:] >= accepted[:-1]).all()


def test_within_a_range_acceptance_never_ends_as_the_cost_rises():
    fitted = RcRRegressorCV(cost_range=(0.1, 10.0), epochs=20, n_members=2, random_state=0).fit(X, Y)
    accepted = np.array([fitted.decide(NEW, cost=cost).accepted for cost in np.geomspace(0.1, 10.0, 60)])
    assert (accepted[1:] >= accepted[:-1]).all()
    assert 0 < accepted.mean() < 1


def test_two_numbers_are_the_costs_of_two_rows():
    model = RiskRejector(Ridge(), TREES, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.decide(NEW[:2], cost=(0.0, 1e6)).accepted, [False, True])


@pytest.mark.parametrize(
    "model",
    [
        AutoRejector(learners=["extra_trees", "boosting"], risk_models=["extra_trees", "boosting"], cv=2),
        RiskRejector(cv=2),
    ],
    ids=["auto", "risk"],
)
def test_the_unit_of_the_target_does_not_matter(model):
    """Trees stop splitting where the variance of their target is near the machine precision."""
    units = (1.0, 1e-6, 1e6)
    fits = [clone(model).set_params(cost=unit**2, random_state=0).fit(X, unit * Y) for unit in units]
    rates = [fitted.decide(NEW).rejection_rate for fitted in fits]
    assert rates == pytest.approx([rates[0]] * 3, abs=0.05)


def test_a_column_of_costs_is_no_feature_and_is_not_needed_to_predict():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(fee=ROW_COST)
    model = RiskRejector(Ridge(), TREES, cost="fee", random_state=0).fit(frame, Y)
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(model.predict(frame[["a", "b"]]), model.predict(frame))
    assert model.decide(frame[["a", "b"]], cost=2.0).cost.tolist() == [2.0] * len(X)
    with pytest.raises(ValueError, match=r"cost='fee' must name a column of X"):
        model.decide(frame[["a", "b"]])


def test_decide_takes_the_cost_from_a_column_that_fit_had_not():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = RiskRejector(Ridge(), TREES, random_state=0).fit(frame, Y)
    decision = model.decide(frame.assign(fee=ROW_COST), cost="fee")
    np.testing.assert_array_equal(decision.cost, ROW_COST)
    assert decision == model.decide(frame, cost=ROW_COST)
