"""What the report, the displays, the service and the commands compute together."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import RcRRegressor, RiskRejector, datasets
from recuse.inspection.explanations import (
    MOST_TRAINING_ROWS,
    calibration_bins,
    dependence,
    importances,
    nearest_rows,
    training_sample,
)
from recuse.inspection.savings import Prices, saved_per_row
from recuse.tabular.schema import Column, Kind

(X, Y), _, (NEW, Y_NEW) = datasets.split(datasets.load("auto_mpg"), repeat=0)


def served(model, path):
    recuse.save(model.fit(X, Y), path / "model.recuse")
    return recuse.load(path / "model.recuse")


def test_bins_hold_every_row_once_and_equal_expected_losses_together():
    random = np.random.default_rng(0)
    expected = random.choice([1.0, 2.0, 5.0, 9.0], 500, p=[0.7, 0.1, 0.1, 0.1])
    loss = expected * random.exponential(size=500)
    bins = calibration_bins(expected, loss, n_bins=8)
    assert bins["rows"].sum() == 500
    assert bins["rows"][0] == (expected == 1.0).sum()
    assert bins["expected"].tolist()[:2] == [1.0, 2.0]
    assert np.average(bins["observed"], weights=bins["rows"]) == pytest.approx(loss.mean())
    assert ((bins["low"] >= 0) & (bins["low"] < bins["observed"]) & (bins["observed"] < bins["high"])).all()


def test_a_column_that_the_model_ignores_changes_no_decision(tmp_path):
    model = served(RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0), tmp_path)
    frame = NEW.assign(remark=np.arange(len(NEW))).reset_index(drop=True)
    found = importances(model, frame, np.full(len(NEW), 6.0), np.random.RandomState(0))
    assert (found[-1].column, found[-1].changed, found[-1].error) == ("remark", 0.0, 0.0)
    assert found[0].changed > found[0].error > 0


@pytest.mark.parametrize("name", ["weight", "origin"])
def test_a_curve_is_the_mean_outcome_of_the_rows_with_each_value(name, tmp_path):
    risk = served(RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0), tmp_path)
    few = NEW[:100].reset_index(drop=True)
    column = next(each for each in risk.schema.columns if each.name == name)
    curve = dependence(risk, few, np.full(100, 6.0), column, np.random.RandomState(0))
    values = curve.values if curve.is_number else [type(few[name][0])(value) for value in curve.values]
    for value, mean in zip(values, curve.mean, strict=True):
        assert mean == pytest.approx(risk.expected_loss(few.assign(**{name: value})).mean())


@pytest.mark.filterwarnings("ignore")
def test_without_an_expected_loss_the_curve_is_that_of_the_score(tmp_path):
    model = served(RcRRegressor(6.0, epochs=10, random_state=0), tmp_path)
    few = NEW[:50].reset_index(drop=True)
    column = next(each for each in model.schema.columns if each.name == "weight")
    curve = dependence(model, few, np.full(50, 6.0), column, np.random.RandomState(0))
    assert curve.mean[0] == pytest.approx(model.decide(few.assign(weight=curve.values[0])).score.mean())


def test_missing_cells_are_far_from_every_cell():
    columns = [Column("size", Kind.NUMBER, low=0.0, high=10.0), Column("kind", Kind.CATEGORY)]
    training = pd.DataFrame({"size": [1.0, None, 9.0], "kind": ["a", "b", None]})
    places, distances = nearest_rows(pd.DataFrame({"size": [2.0, None], "kind": ["a", None]}), training, columns)
    np.testing.assert_array_equal(places, [[0, 2, 1], [2, 0, 1]])
    np.testing.assert_allclose(distances, [[0.1, 1.7, 2.0], [1.0, 2.0, 2.0]])


def test_many_training_rows_are_sampled_at_random():
    table = pd.DataFrame({"size": np.arange(3 * MOST_TRAINING_ROWS)})
    sample = training_sample(table)
    assert len(sample) == MOST_TRAINING_ROWS
    assert (sample["size"] == sample.index).all()
    assert sample["size"].mean() == pytest.approx(table["size"].mean(), rel=0.02)
    assert training_sample(table[:50]) is not None
    assert len(training_sample(table[:50])) == 50


def test_savings_are_those_over_the_better_of_both_alternatives():
    measures = pd.DataFrame({"rcr_loss": [4.0, 7.0], "always_accept": [9.0, 5.0], "always_reject": [6.0, 8.0]})
    assert saved_per_row(measures).tolist() == [2.0, -2.0]


def test_prices_must_be_usable():
    with pytest.raises(ValueError, match="error must be a finite number > 0, got 0"):
        Prices(error=0, error_cost=50, review_cost=18)
