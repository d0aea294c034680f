import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recuse import Decision, RcRRegressor, RiskRejector, SelectiveNetRegressor, datasets
from recuse.displays import RejectionMapDisplay, TrainingCurveDisplay


def decided(rows):
    return Decision(np.zeros(rows), np.arange(rows) % 3 > 0, np.zeros(rows), 1.0)


def scattered(ax):
    return {points.get_label(): np.asarray(points.get_offsets()) for points in ax.collections}


def test_a_map_of_two_numbers_draws_the_rows_where_they_are():
    X = np.random.default_rng(0).normal(size=(30, 3))
    display = RejectionMapDisplay.from_decision(decided(30), X, [2, 0])
    drawn = scattered(display.ax_)
    np.testing.assert_allclose(drawn["accepted"], X[np.arange(30) % 3 > 0][:, [2, 0]])
    np.testing.assert_allclose(drawn["rejected"], X[::3][:, [2, 0]])
    assert display.ax_.get_xlabel() == "2"
    assert [text.get_text()[2:] for text in display.ax_.texts] == ["accepted 67%", "rejected 33%"]


def test_categories_have_their_names_as_ticks_and_missing_numbers_are_below_the_others():
    frame = pd.DataFrame({"site": ["b", "a", None] * 10, "size": np.arange(30.0)}).astype({"size": "Float64"})
    frame.loc[4, "size"] = None
    display = RejectionMapDisplay.from_decision(decided(30), frame, ["site", "size"])
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["a", "b", "missing"]
    assert np.abs(display.points[:3, 0] - [1, 0, 2]).max() <= 0.25
    assert display.points[4, 1] < 0


def test_dates_are_drawn_as_dates():
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=30), "size": np.arange(30.0)})
    display = RejectionMapDisplay.from_decision(decided(30), frame, ["day", "size"])
    assert display.points[0, 0] == pytest.approx(19723)  # days since 1970
    display.figure_.draw_without_rendering()
    assert display.ax_.xaxis.get_major_formatter().get_offset().startswith("2024-Jan")


def test_without_features_the_rows_are_projected_to_their_principal_components():
    generator = np.random.default_rng(0)
    weight = generator.normal(size=60)
    frame = pd.DataFrame(
        {"a": weight, "b": 2 * weight + 0.1 * generator.normal(size=60), "c": generator.normal(size=60)}
    )
    display = RejectionMapDisplay.from_decision(decided(60), frame)
    assert abs(np.corrcoef(display.points[:, 0], weight)[0, 1]) > 0.95
    assert abs(np.corrcoef(display.points.T)[0, 1]) < 1e-6
    assert display.ax_.get_xlabel().startswith("first principal component (")


def test_a_map_of_an_estimator_shows_its_decisions():
    X, y, _, _ = datasets.make_heteroscedastic(200, random_state=0)
    model = make_pipeline(StandardScaler(), RiskRejector(cost=0.5, random_state=0)).fit(X, y)
    display = RejectionMapDisplay.from_estimator(model, X, [0, 2], cost=0.8)
    np.testing.assert_array_equal(display.accepted, model[-1].decide(model[0].transform(X), cost=0.8).accepted)


@pytest.mark.parametrize(
    ("features", "message"),
    [([0], "features must be two columns"), ("ab", "features must be two columns"), ([0, 9], "columns of X, got 9")],
)
def test_wrong_features_give_a_clear_error(features, message):
    with pytest.raises(ValueError, match=message):
        RejectionMapDisplay.from_decision(decided(6), np.ones((6, 2)), features)


def test_the_training_of_an_ensemble_is_drawn_with_its_median_and_best_epochs():
    X, y, _, _ = datasets.make_heteroscedastic(200, random_state=0)
    model = RcRRegressor(cost=0.5, epochs=30, slow_start=10, n_members=3, random_state=0)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    display = TrainingCurveDisplay.from_estimator(pipeline)
    history = pipeline[-1].history_
    drawn = {line.get_label(): line.get_xydata() for line in display.ax_.lines}
    np.testing.assert_allclose(drawn["median of 3 networks"][:, 1], np.median(history, axis=1))
    np.testing.assert_allclose(drawn["median of 3 networks"][:, 0], np.arange(11, 31))
    np.testing.assert_allclose(drawn["_network 1"][:, 1], history[:, 1])
    np.testing.assert_allclose(drawn["_used"][:, 1], history.min(axis=0))
    np.testing.assert_allclose(drawn["_used"][:, 0], np.array(pipeline[-1].best_epoch_) + 1)
    assert display.ax_.get_ylabel() == "validation RcR loss"


def test_the_training_of_a_selectivenet_is_drawn():
    X, y, _, _ = datasets.make_heteroscedastic(200, random_state=0)
    model = SelectiveNetRegressor(coverage=0.5, epochs=20, random_state=0).fit(X, y)
    display = TrainingCurveDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.history, model.history_)
    assert "standardised target" in display.ax_.get_ylabel()


def test_losses_that_diverge_leave_gaps():
    history = np.array([[3.0, 2.0], [2.0, np.nan], [np.nan, np.inf], [1.0, 1.5]])
    display = TrainingCurveDisplay.from_history(history, measure="mine")
    median = next(line for line in display.ax_.lines if line.get_label() == "median of 2 networks")
    np.testing.assert_allclose(median.get_ydata(), [2.5, 2.0, np.nan, 1.25])


def test_an_estimator_without_history_gives_a_clear_error():
    with pytest.raises(ValueError, match="have a history_, got RiskRejector"):
        TrainingCurveDisplay.from_estimator(RiskRejector())
