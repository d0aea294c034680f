"""Decisions at several costs: a row that is accepted at one cost is accepted at every higher one."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recuse import RcRRegressor, RcRRegressorCV
from recuse.estimators.advice import RejectionWarning
from recuse.rules.networks import CostGrid
from sample_rows import NEW, NEW_Y, ROW_COST, X, Y, noisy_rows

COSTS = np.concatenate([[0.0], np.geomspace(1e-3, 1e3 * ROW_COST.max(), 120)])
SMALL = {"epochs": 60, "n_members": 2, "learning_rate": (1e-1, 1e-2), "random_state": 0}


def joint(**parameters):
    return RcRRegressor(**{**SMALL, "slow_start": 15, **parameters}).fit(X, Y, cost=ROW_COST)


def crossfitted(**parameters):
    return RcRRegressorCV(**{**SMALL, "cv": 3, "batch_size": 64, **parameters}).fit(X, Y, cost=ROW_COST)


MODELS = {
    "joint": joint,
    "joint, one member": lambda: joint(n_members=1, surrogate="logistic"),
    "cross-fitted": crossfitted,
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys(), scope="module")
def model(request):
    return request.param()


def scores_by_cost(model, costs):
    return np.array([model.decision_function(NEW, cost=cost) for cost in costs])


class TestCostsByRow:
    def test_the_score_of_a_row_never_falls_with_the_cost(self, model):
        assert (np.diff(scores_by_cost(model, COSTS), axis=0) >= 0).all()

    def test_at_cost_zero_every_row_is_rejected(self, model):
        assert model.decide(NEW, cost=0.0).rejection_rate == 1.0

    def test_a_cost_beyond_the_largest_of_the_training_rows_is_served_like_it(self, model):
        largest, beyond = scores_by_cost(model, [ROW_COST.max(), 1000 * ROW_COST.max()])
        np.testing.assert_array_equal(largest, beyond)

    def test_below_the_smallest_of_the_training_rows_acceptance_fades_out(self, model):
        smallest, below = scores_by_cost(model, [ROW_COST.min(), ROW_COST.min() / 2])
        np.testing.assert_allclose(smallest - below, np.log(2))

    def test_a_row_has_the_same_score_beside_rows_of_any_cost(self, model):
        costs = np.resize(COSTS, len(NEW))
        together = model.decision_function(NEW, cost=costs)
        alone = [model.decision_function(NEW[i : i + 1], cost=costs[i])[0] for i in range(len(NEW))]
        np.testing.assert_allclose(together, alone, atol=1e-9)

    def test_the_cost_makes_a_difference(self, model):
        smallest, largest = scores_by_cost(model, [ROW_COST.min(), ROW_COST.max()])
        assert (smallest < largest).mean() > 0.5  # which rows change sides depends on the rounding of the processor


def test_rows_without_any_positive_cost_are_rejected_at_their_cost():
    model = RcRRegressor(**SMALL, slow_start=15).fit(X, Y, cost=np.zeros(len(X)))
    assert model.decide(NEW, cost=0.0).rejection_rate == 1.0


def test_the_score_never_falls_within_a_range_of_costs():
    model = RcRRegressorCV(**SMALL, cv=3, batch_size=64, cost_range=(0.2, 5.0)).fit(X, Y)
    scores = scores_by_cost(model, np.geomspace(0.2, 5.0, 200).clip(0.2, 5.0))
    assert (np.diff(scores, axis=0) >= 0).all()
    assert (scores[0] < 0).any()
    assert (scores[-1] > 0).any()


def test_a_range_is_compared_with_accepting_all_at_the_mean_of_loss_by_cost():
    """The mean of 1 / cost is (1 / low - 1 / high) / ln(high / low), since costs are uniform in the logarithm."""
    random = np.random.default_rng(0)
    rows, noise = random.normal(size=(120, 2)), random.normal(size=120)
    few = {"cv": 2, "epochs": 1, "n_members": 1, "learning_rate": 1e-3, "random_state": 0}
    losses = []
    for low, high in ((0.5, 1.0), (0.5, 0.6)):
        with pytest.warns(RejectionWarning, match="rejection does not pay") as warned:
            RcRRegressorCV(cost_range=(low, high), **few).fit(rows, noise)
        shown = re.search(r"accept all: ([\d.]+), reject all: 1\)", str(warned[0].message))[1]
        losses.append(float(shown) * np.log(high / low) / (1 / low - 1 / high))
    assert losses == pytest.approx([np.mean(noise**2)] * 2, rel=0.1)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=30),
    st.lists(st.floats(0, 1e4), min_size=2, max_size=20),
    st.floats(1e-3, 10),
    st.floats(1, 1e4),
)
def test_scores_on_a_grid_rise_with_the_cost_whatever_the_networks(values, costs, low, ratio):
    grid, values = CostGrid(low, low * ratio), np.array(values)
    knots = list(grid.knots)

    def score_at(rows, cost):
        return np.tile(values[knots.index(cost) % len(values)], (2, len(rows)))

    costs = np.sort(costs)
    assert (np.diff(grid.scores(score_at, costs)) >= 0).all()


def test_costs_by_row_pay_where_the_noise_varies():
    rows, y = noisy_rows(300)
    cost = np.random.default_rng(0).uniform(0.1, 8, len(y))
    model = RcRRegressor(**{**SMALL, "epochs": 200}, slow_start=60).fit(rows, y, cost=cost)
    for new_cost in (0.5, 2.0):
        measures = model.decide(NEW, cost=new_cost).evaluate(NEW_Y)
        assert measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
