"""The measures equal their definitions, row by row, and are NaN where there is nothing to measure."""

import datetime as dt
import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recuse import Decision, RcRRegressor, metrics

VALUE = st.floats(-1e3, 1e3)
# few distinct values, so that ties are common
COARSE = st.integers(-3, 3).map(float)
ROW = st.tuples(VALUE, VALUE, st.booleans(), st.floats(0, 1e6), st.floats(-5, 5), st.sampled_from([0.0, 0.5, 1.0, 3.0]))
ROWS = st.lists(ROW, min_size=1, max_size=30)
RANKED = st.lists(st.tuples(COARSE, COARSE, COARSE), min_size=1, max_size=8)


def unzip(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


def naive_mean(pairs):
    """Weighted mean of (value, weight) by a plain loop."""
    pairs = list(pairs)
    total = math.fsum(weight for _, weight in pairs)
    return math.fsum(value * weight for value, weight in pairs) / total if total > 0 else math.nan


LOSSES = {
    "squared": lambda p, y: (p - y) ** 2,
    "absolute": lambda p, y: abs(p - y),
    "pinball:0.9": lambda p, y: 0.9 * (y - p) if y > p else 0.1 * (p - y),
    "huber:2.0": lambda p, y: (p - y) ** 2 / 2 if abs(p - y) <= 2 else 2 * abs(p - y) - 2,
}


def naive_measures(rows, loss=LOSSES["squared"]):
    scored = [(loss(p, y), a, c, w) for y, p, a, c, _, w in rows]
    return {
        "rcr_loss": naive_mean((e if a else c, w) for e, a, c, w in scored),
        "accepted_loss": naive_mean((e, w) for e, a, c, w in scored if a),
        "rejected_loss": naive_mean((e, w) for e, a, c, w in scored if not a),
        "rejection_rate": naive_mean((not a, w) for e, a, c, w in scored),
        "false_rejection_rate": naive_mean((not a, w) for e, a, c, w in scored if e < c),
        "false_acceptance_rate": naive_mean((a, w) for e, a, c, w in scored if e >= c),
        "always_accept": naive_mean((e, w) for e, a, c, w in scored),
        "always_reject": naive_mean((c, w) for e, a, c, w in scored),
        "oracle": naive_mean((min(e, c), w) for e, a, c, w in scored),
    }


@given(ROWS)
def test_evaluate_equals_a_naive_loop_over_the_definitions(rows):
    y, prediction, accepted, cost, score, weight = unzip(rows)
    measured = metrics.evaluate(y, Decision(prediction, accepted, score, cost), sample_weight=weight)
    assert measured == pytest.approx(naive_measures(rows), nan_ok=True)
    assert all(type(value) is float for value in measured.values())


@pytest.mark.parametrize("name", LOSSES)
@given(rows=ROWS)
def test_a_decision_is_measured_by_the_loss_its_cost_is_stated_in(name, rows):
    y, prediction, accepted, cost, score, weight = unzip(rows)
    measured = metrics.evaluate(y, Decision(prediction, accepted, score, cost, loss=name), sample_weight=weight)
    assert measured == pytest.approx(naive_measures(rows, LOSSES[name]), nan_ok=True)
    plain = Decision(prediction, accepted, score, cost)
    assert metrics.evaluate(y, plain, sample_weight=weight, loss=name) == pytest.approx(measured, nan_ok=True)


def test_a_cost_curve_measures_each_decision_by_its_own_loss():
    y, decision = [0.0, 0.0], ([1.0, 3.0], [True, True], [1.0, 1.0])
    curve = metrics.cost_curve(y, [Decision(*decision, 1.0), Decision(*decision, 2.0, loss="absolute")])
    assert curve["rcr_loss"].tolist() == [5.0, 2.0]
    assert metrics.cost_curve(y, [Decision(*decision, 1.0)], loss="absolute")["rcr_loss"].tolist() == [2.0]


@given(RANKED)
def test_curves_of_another_loss_are_those_of_its_rows(rows):
    y, prediction, score = unzip(rows)
    root = np.sqrt(metrics.row_losses(y, prediction, "absolute"))  # whose square is the absolute error
    expected = metrics.risk_coverage_curve(np.zeros(len(y)), root, score)
    measured = metrics.risk_coverage_curve(y, prediction, score, loss="absolute")
    for one, other in zip(measured, expected, strict=True):
        np.testing.assert_allclose(one, other)
    for excess in (False, True):
        area = metrics.area_under_risk_coverage(y, prediction, score, excess=excess, loss="absolute")
        other = metrics.area_under_risk_coverage(np.zeros(len(y)), root, score, excess=excess)
        assert area == pytest.approx(other, abs=1e-12)


@given(ROWS)
def test_each_function_agrees_with_evaluate(rows):
    y, prediction, accepted, cost, score, weight = unzip(rows)
    measured = metrics.evaluate(y, Decision(prediction, accepted, score, cost), sample_weight=weight)
    alone = {
        "rcr_loss": metrics.rcr_loss(y, prediction, accepted, cost, sample_weight=weight),
        "accepted_loss": metrics.accepted_loss(y, prediction, accepted, sample_weight=weight),
        "rejected_loss": metrics.rejected_loss(y, prediction, accepted, sample_weight=weight),
        "rejection_rate": metrics.rejection_rate(accepted, sample_weight=weight),
        "false_rejection_rate": metrics.false_rejection_rate(y, prediction, accepted, cost, sample_weight=weight),
        "false_acceptance_rate": metrics.false_acceptance_rate(y, prediction, accepted, cost, sample_weight=weight),
    }
    assert {name: measured[name] for name in alone} == pytest.approx(alone, nan_ok=True)


def test_the_measures_of_four_rows_computed_by_hand():
    # errors 1, 9, 4, 0 at cost 4: rows 0 and 3 deserve acceptance, rows 1 and 2 rejection (a tie is a rejection)
    decision = Decision([1.0, 3.0, 2.0, 5.0], [True, True, False, False], [4.0, 3.0, 2.0, 1.0], 4.0)
    assert decision.evaluate([0.0, 0.0, 0.0, 5.0]) == {
        "rcr_loss": (1 + 9 + 4 + 4) / 4,
        "accepted_loss": 5.0,
        "rejected_loss": 2.0,
        "rejection_rate": 0.5,
        "false_rejection_rate": 0.5,
        "false_acceptance_rate": 0.5,
        "always_accept": 3.5,
        "always_reject": 4.0,
        "oracle": (1 + 4 + 4 + 0) / 4,
    }


@given(ROWS)
def test_no_decision_beats_the_oracle(rows):
    y, prediction, accepted, cost, score, _ = unzip(rows)
    measured = metrics.evaluate(y, Decision(prediction, accepted, score, cost))
    assert measured["oracle"] <= measured["rcr_loss"]
    assert measured["oracle"] <= min(measured["always_accept"], measured["always_reject"])


@given(ROWS)
def test_integer_weights_equal_copies_of_the_rows(rows):
    rows = [(*row[:5], round(row[5] * 2)) for row in rows]
    copies = [row for row in rows for _ in range(row[5])]
    if not copies:
        return
    y, prediction, accepted, cost, score, weight = unzip(rows)
    weighted = metrics.evaluate(y, Decision(prediction, accepted, score, cost), sample_weight=weight)
    y, prediction, accepted, cost, score, _ = unzip(copies)
    assert weighted == pytest.approx(metrics.evaluate(y, Decision(prediction, accepted, score, cost)), nan_ok=True)


def test_an_empty_denominator_gives_nan_and_never_zero():
    y, prediction = [0.0, 1.0], [0.0, 1.0]
    assert math.isnan(metrics.accepted_loss(y, prediction, [False, False]))
    assert math.isnan(metrics.rejected_loss(y, prediction, [True, True]))
    assert math.isnan(metrics.false_rejection_rate(y, prediction, [True, False], cost=0.0))
    assert math.isnan(metrics.false_acceptance_rate(y, prediction, [True, False], cost=1.0))
    assert math.isnan(metrics.rejection_rate([True, False], sample_weight=[0, 0]))
    assert math.isnan(metrics.accepted_loss(y, prediction, [True, False], sample_weight=[0, 1]))


def naive_curve(rows):
    """Accept all rows of at least each distinct score in turn."""
    for threshold in sorted({score for *_, score in rows}, reverse=True):
        errors = [(p - y) ** 2 for y, p, score in rows if score >= threshold]
        yield len(errors) / len(rows), math.fsum(errors) / len(errors), threshold


@given(RANKED)
def test_the_risk_coverage_curve_equals_accepting_at_each_threshold(rows):
    expected = unzip(naive_curve(rows))
    for measured, naive in zip(metrics.risk_coverage_curve(*unzip(rows)), expected, strict=True):
        np.testing.assert_allclose(measured, naive, rtol=1e-12)


@given(RANKED, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_no_digit_of_curve_and_area(rows, random):
    shuffled = random.sample(rows, len(rows))
    for one, other in zip(
        metrics.risk_coverage_curve(*unzip(rows)), metrics.risk_coverage_curve(*unzip(shuffled)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert metrics.area_under_risk_coverage(*unzip(rows)) == metrics.area_under_risk_coverage(*unzip(shuffled))


@given(st.lists(st.tuples(VALUE, VALUE, COARSE), min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_the_order_within_a_tie_changes_no_digit_for_errors_of_any_size(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert metrics.area_under_risk_coverage(*unzip(rows)) == metrics.area_under_risk_coverage(*unzip(shuffled))


@given(st.lists(st.tuples(COARSE, COARSE, st.integers(0, 1)), min_size=1, max_size=5))
def test_the_area_is_the_mean_over_all_orders_of_the_ties(rows):
    def area(order):
        errors = [(p - y) ** 2 for y, p, _ in order]
        return np.mean([np.mean(errors[: k + 1]) for k in range(len(errors))])

    orders = [o for o in itertools.permutations(rows) if all(a[2] >= b[2] for a, b in itertools.pairwise(o))]
    assert metrics.area_under_risk_coverage(*unzip(rows)) == pytest.approx(np.mean([area(o) for o in orders]))


@given(RANKED)
def test_the_excess_area_is_never_negative_and_vanishes_for_the_oracle_order(rows):
    y, prediction, score = unzip(rows)
    assert metrics.area_under_risk_coverage(y, prediction, score, excess=True) >= 0
    by_error = -((prediction - y) ** 2)
    assert metrics.area_under_risk_coverage(y, prediction, by_error, excess=True) == 0


@given(RANKED)
def test_the_excess_area_is_the_area_less_that_of_the_best_order(rows):
    y, prediction, score = unzip(rows)
    errors = np.sort((prediction - y) ** 2)
    best = np.mean(np.cumsum(errors) / np.arange(1, len(errors) + 1))
    expected = metrics.area_under_risk_coverage(y, prediction, score) - best
    assert metrics.area_under_risk_coverage(y, prediction, score, excess=True) == pytest.approx(expected, abs=1e-12)


@given(RANKED)
def test_a_constant_score_has_the_mean_error_as_its_area(rows):
    y, prediction, _ = unzip(rows)
    area = metrics.area_under_risk_coverage(y, prediction, np.zeros(len(y)))
    assert area == pytest.approx(np.mean((prediction - y) ** 2))


def test_an_area_with_a_tie_computed_by_hand():
    # the tied errors 1 and 4 come in either order: sums 1 or 4, then 5, then 14
    area = metrics.area_under_risk_coverage([0, 0, 0], [1, 2, 3], score=[7, 7, 1])
    assert area == pytest.approx((2.5 + 5 / 2 + 14 / 3) / 3)


def test_the_cost_curve_has_one_row_per_decision_by_rising_mean_cost():
    y = [0.0, 0.0]
    decisions = [Decision([1.0, 2.0], [True, flag], [1.0, 1.0], cost) for cost, flag in (([4, 2], True), (1.0, False))]
    curve = metrics.cost_curve(y, iter(decisions))
    assert curve["cost"].tolist() == [1.0, 3.0]
    assert curve["rcr_loss"].tolist() == [1.0, 2.5]
    assert curve["rejection_rate"].tolist() == [0.5, 0.0]
    assert list(curve.columns) == ["cost", *decisions[0].evaluate(y)]


def test_a_cost_curve_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"^cost_curve needs at least one decision, got none$"):
        metrics.cost_curve([1.0], [])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.rcr_loss([1, 2], [1], [True, True], 1.0),
            r"same number of rows, got {'y_true': 2, 'y_pred': 1}",
        ),
        (lambda: metrics.rcr_loss([1, 2], [1, 2], [True], 1.0), r"same number of rows, got .*'accepted': 1"),
        (
            lambda: metrics.rcr_loss([1, 2], [1, 2], [True, True], [1.0]),
            r"cost must .* each of 2 rows, got shape \(1,\)",
        ),
        (lambda: metrics.rcr_loss([1, 2], [1, 2], [True, False], -3.0), r"cost must be >= 0, got -3\.0 at row 0"),
        (lambda: metrics.accepted_loss([1, np.nan], [1, 2], [True, True]), r"y_true must be finite, got nan at row 1"),
        (lambda: metrics.accepted_loss([1, 2], [np.inf, 2], [True, True]), r"y_pred must be finite, got inf at row 0"),
        (lambda: metrics.accepted_loss([1, 2], [1, 2], [0.5, 1]), r"accepted must be True or False, got 0\.5 at row 0"),
        (lambda: metrics.accepted_loss([], [], []), r"y_true must have at least one row, got none"),
        (
            lambda: metrics.accepted_loss([[[1]]], [[[1]]], [True]),
            r"^y_true must have one value per row, got shape \(1, 1, 1\)$",
        ),
        (
            lambda: metrics.accepted_loss([1, 2], [[1, 2], [3, 4]], [True, True]),
            r"^y_pred must have one value per row, got shape \(2, 2\)$",
        ),
        (
            lambda: metrics.accepted_loss([[1], [np.nan]], [1, 2], [True, True]),
            r"^y_true must be finite, got nan at row 1$",
        ),
        (
            lambda: metrics.accepted_loss([1], [1], [True], loss="square"),
            r"^loss must be one of squared, .* got 'square'$",
        ),
        (lambda: metrics.rejection_rate([]), r"accepted must have at least one row, got none"),
        (lambda: metrics.rejection_rate([[True]]), r"accepted must have one value per row, got shape \(1, 1\)"),
        (
            lambda: metrics.rejection_rate([True], sample_weight=[-2.0]),
            r"weight must be >= 0, got -2\.0 at row 0",
        ),
        (lambda: metrics.accepted_loss(["many"], [1], [True]), r"^y_true must be numeric, got \['many'\]$"),
        (
            lambda: metrics.accepted_loss(pd.Series([1, np.nan], index=["a", "b"]), [1, 2], [True, True]),
            r"^y_true must be finite, got nan at row 1 \(label 'b'\)$",
        ),
        (lambda: metrics.rejection_rate([True], sample_weight=[np.nan]), r"sample_weight must be finite, got nan"),
        (
            lambda: metrics.rejection_rate([True], sample_weight=[1, 1]),
            r"same number of rows, got .*'sample_weight': 2",
        ),
        (lambda: metrics.risk_coverage_curve([1, 2], [1, 2], [1.0]), r"same number of rows, got .*'score': 1"),
        (lambda: metrics.area_under_risk_coverage([1], [1], [np.nan]), r"score must be finite, got nan at row 0"),
    ],
)
def test_wrong_rows_are_refused_with_the_rule_and_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "y",
    [
        pd.to_datetime(["2024-01-01", "2024-01-02"]),
        pd.DataFrame({"y": pd.to_datetime(["2024-01-01", "2024-01-02"])}),
        np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"),
        pd.to_timedelta([1, 2], unit="D"),
        [dt.date(2024, 1, 1), dt.date(2024, 1, 2)],
        pl.Series([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
    ],
    ids=lambda y: f"{type(y).__module__}-{getattr(y, 'dtype', '')}",
)
def test_dates_and_durations_are_no_targets(y):
    message = r"^y_true must hold numbers, got (datetime64|timedelta64|date).*; convert dates and times to "
    with pytest.raises(TypeError, match=message):
        metrics.row_losses(y, [1.0, 2.0])


def test_complex_numbers_are_no_targets():
    with pytest.raises(TypeError, match=r"^y_true must hold numbers, got complex128$"):
        metrics.row_losses(np.array([1j, 2.0]), [1.0, 2.0])


@pytest.mark.parametrize("form", [pd.Series, pl.Series, pa.array, lambda rows: pd.DataFrame({"y": rows})])
def test_columns_of_any_library_are_measured_alike(form):
    y, prediction, accepted, cost = [1.0, 2.0, 3.0], [1.5, 2.0, 5.0], [True, False, True], [1.0, 2.0, 3.0]
    expected = metrics.rcr_loss(y, prediction, accepted, cost, sample_weight=[1, 2, 3])
    flags = pd.Series(accepted) if form is not pl.Series else pl.Series(accepted)
    assert metrics.rcr_loss(form(y), form(prediction), flags, form(cost), sample_weight=[1, 2, 3]) == expected


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    y = X[:, 0] + np.exp(X[:, 1]) * random.normal(size=60)
    model = make_pipeline(StandardScaler(), RcRRegressor(cost=1.0, epochs=20, slow_start=5, random_state=0))
    return model.fit(X, y), X, y


def test_the_scorer_gives_the_negative_loss_of_the_decisions(fitted):
    pipeline, X, y = fitted
    model, features, weight = pipeline[-1], pipeline[:-1].transform(X), np.arange(60.0)
    decision = model.decide(features)
    assert metrics.rcr_scorer(model, features, y) == -decision.evaluate(y)["rcr_loss"]
    weighted = -decision.evaluate(y, sample_weight=weight)["rcr_loss"]
    assert metrics.rcr_scorer(model, features, y, cost=1.0, sample_weight=weight) == weighted
    assert repr(metrics.rcr_scorer) == "rcr_scorer"


def test_the_scorer_works_with_a_pipeline(fitted):
    pipeline, X, y = fitted
    model, features = pipeline[-1], pipeline[:-1].transform(X)
    score = metrics.rcr_scorer(model, features, y)
    assert metrics.rcr_scorer(pipeline, X, y) == score
    assert metrics.rcr_scorer(make_pipeline(model), features, y) == score
    assert metrics.rcr_scorer(make_pipeline(pipeline), X, y) == score
