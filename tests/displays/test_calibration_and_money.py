import numpy as np
import pytest

from recuse import Decision, RiskRejector, datasets
from recuse.costs import from_money
from recuse.decision import LOSS_SAVED
from recuse.displays import LossCalibrationDisplay, MoneySavedDisplay


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = datasets.make_heteroscedastic(600, random_state=0)
    return RiskRejector(cost=1.0, random_state=0).fit(X[:300], y[:300]), X[300:], y[300:]


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines}


def test_bins_have_the_means_of_their_rows():
    expected = np.repeat([1.0, 4.0], 50)
    y = np.sqrt(expected) * np.tile([0.5, 1.5], 50)
    display = LossCalibrationDisplay.from_predictions(y, np.zeros(100), expected, n_bins=2)
    assert display.bins["rows"].tolist() == [50, 50]
    assert display.bins["expected"].tolist() == [1.0, 4.0]
    assert display.bins["observed"].tolist() == pytest.approx([1.25, 5.0])
    assert (display.bins["low"] < display.bins["observed"]).all()
    assert (display.bins["high"] > display.bins["observed"]).all()
    np.testing.assert_allclose(display.ax_.containers[0].lines[0].get_xydata(), [[1, 1.25], [4, 5]])
    np.testing.assert_allclose(lines(display.ax_)["as expected"], [[0, 0], [5, 5]])
    assert display.ax_.get_xlabel() == "expected squared error (squared units)"


def test_losses_of_many_magnitudes_have_logarithmic_axes():
    expected = np.geomspace(0.01, 100, 200)
    display = LossCalibrationDisplay.from_predictions(np.sqrt(expected), np.zeros(200), expected)
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"


def test_an_estimator_and_its_decision_have_the_same_calibration(fitted):
    model, X, y = fitted
    ours = LossCalibrationDisplay.from_estimator(model, X, y, n_bins=5).bins
    theirs = LossCalibrationDisplay.from_decision(model.decide(X), y, n_bins=5).bins
    np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy())
    assert len(ours) == 5


def test_a_score_that_is_not_a_loss_cannot_be_calibrated():
    with pytest.raises(ValueError, match=f"the score must be the {LOSS_SAVED}"):
        LossCalibrationDisplay.from_decision(Decision([1.0], [True], [1.0], 1.0), [1.0])


def test_money_is_the_loss_times_its_price(fitted):
    model, X, y = fitted
    display = MoneySavedDisplay.from_estimator(
        model, X, y, review_cost=20, error=2, error_cost=40, review_costs=[10, 30], currency="euros"
    )
    assert display.curve["review_cost"].tolist() == [10, 20, 30]
    measures = model.decide(X, cost=from_money(2, 40, 20)).evaluate(y)
    line = display.curve.iloc[1]
    assert line["with_rejection"] == pytest.approx(measures["rcr_loss"] * 10 * 1000)
    assert line["accept_all"] == pytest.approx(measures["always_accept"] * 10 * 1000)
    assert line["review_all"] == pytest.approx(20 * 1000)
    assert line["saved"] == min(line["accept_all"], line["review_all"]) - line["with_rejection"]
    drawn = lines(display.ax_)
    np.testing.assert_allclose(drawn["with rejection"], display.curve[["review_cost", "with_rejection"]])
    np.testing.assert_allclose(drawn["_saved"][:, 0], 20)
    assert np.ptp(drawn["_saved"][:, 1]) == pytest.approx(line["saved"])
    assert any(f"saves {line['saved']:,.0f} euros" in text.get_text() for text in display.ax_.texts)
    assert display.ax_.get_ylabel() == "euros per 1,000 rows"


def test_the_price_of_a_unit_of_loss_gives_the_same_money(fitted):
    model, X, y = fitted
    by_error = MoneySavedDisplay.from_estimator(model, X, y, review_cost=20, error=2, error_cost=40)
    by_price = MoneySavedDisplay.from_estimator(model, X, y, review_cost=20, loss_price=10)
    np.testing.assert_allclose(by_error.curve.to_numpy(), by_price.curve.to_numpy())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass either loss_price, or both error and error_cost"),
        ({"loss_price": 1.0, "error": 2.0, "error_cost": 1.0}, "pass either"),
        ({"loss_price": 0.0}, "loss_price must be a finite number > 0"),
        ({"loss_price": 1.0, "review_cost": 0.0}, "review_cost must be a finite number > 0"),
    ],
)
def test_prices_must_be_complete(fitted, options, message):
    with pytest.raises(ValueError, match=message):
        MoneySavedDisplay.from_estimator(*fitted, **{"review_cost": 1.0} | options)


def test_prices_of_squared_errors_do_not_fit_other_losses():
    decision = Decision([1.0], [True], [1.0], 1.0, loss="absolute")
    with pytest.raises(ValueError, match="pass loss_price for other losses"):
        MoneySavedDisplay.from_decisions([decision], [1.0], error=1, error_cost=1)
    assert MoneySavedDisplay.from_decisions([decision], [2.0], loss_price=3).curve["accept_all"].tolist() == [3000]
