"""Rows with unseen categories or values have a higher expected loss or are rejected."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor, datasets

CARS = datasets.load("auto_mpg")
(TRAIN, Y), _, (TEST, Y_TEST) = datasets.split(CARS, repeat=0)
NUMBERS = [name for name in TRAIN if pd.api.types.is_float_dtype(TRAIN[name])]
TREES = {"trees": ExtraTreesRegressor(50, min_samples_leaf=5)}
COST = 30.0  # nearly every row is worth accepting
MODELS = {
    "auto": AutoRejector(COST, learners=["extra_trees", "process"], risk_models=TREES, random_state=0),
    "risk": RiskRejector(cost=COST, random_state=0),
    "rcr": RcRRegressor(COST, epochs=200, random_state=0),
    "crossfit": RcRRegressorCV(COST, epochs=20, n_members=2, random_state=0),
    "selectivenet": SelectiveNetRegressor(0.9, COST, epochs=100, learning_rate=5e-3, random_state=0),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return MODELS[request.param].fit(TRAIN, Y)


def test_rows_as_in_training_are_mostly_accepted(model):
    assert model.decide(TEST).rejection_rate < 0.35


def test_a_row_without_any_number_is_rejected(model):
    blank = TEST.copy()
    blank[NUMBERS] = np.nan
    assert model.decide(blank).rejection_rate == 1.0


@pytest.mark.parametrize("dtype", ["object", "category", "string"])
def test_an_unseen_category_is_treated_as_missing_and_counts_as_novel(model, dtype):
    """Unknown text, and a level that was declared but never trained on."""
    new = TEST.assign(origin=pd.Series(["mars"] * len(TEST), index=TEST.index, dtype=dtype))
    missing = TEST.assign(origin=pd.Series([None] * len(TEST), index=TEST.index, dtype=dtype))
    assert model.decide(new) == model.decide(missing)
    assert model.decide(new).score.mean() < model.decide(TEST).score.mean()


def test_a_number_a_thousand_times_too_large_counts_as_novel(model):
    """The other columns still say something: where there is an expected loss, it is about the loss."""
    heavy = TEST.assign(weight=1000 * TEST["weight"])
    if not hasattr(model, "expected_loss"):
        assert model.decide(heavy).rejection_rate == 1.0
        return
    observed = np.mean((model.predict(heavy) - Y_TEST) ** 2)
    assert model.expected_loss(heavy).mean() == pytest.approx(observed, rel=0.5)
    assert model.decide(heavy, cost=0.5 * observed).rejection_rate > 0.6


def test_unseen_cells_raise_an_error_on_request():
    strict = RiskRejector(cost=COST, unseen="error", random_state=0).fit(TRAIN, Y)
    with pytest.raises(ValueError, match=r"column 'origin' must hold .*, got 'mars' at row 0"):
        strict.decide(TEST.assign(origin="mars"))
    with pytest.raises(ValueError, match=r"column 'weight' must have no missing value, as in training"):
        strict.decide(TEST.assign(weight=np.nan))


def test_the_expected_loss_of_blank_rows_is_about_what_they_cost():
    model = MODELS["auto"].fit(TRAIN, Y)
    blank = TEST.copy()
    blank[NUMBERS] = np.nan
    observed = np.mean((model.predict(blank) - Y_TEST) ** 2)
    assert model.expected_loss(blank).mean() == pytest.approx(observed, rel=0.4)
    assert model.expected_loss(TEST).mean() < 0.5 * observed
