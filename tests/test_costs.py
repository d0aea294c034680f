"""Any form of cost becomes one checked array, and a wrong cost gets one clear error."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse import costs

AMOUNT = st.floats(0, 1e6, allow_nan=False)
PRICE = st.floats(1e-3, 1e3)


@given(AMOUNT, st.integers(0, 20))
def test_a_number_serves_every_row(amount, n_rows):
    np.testing.assert_array_equal(costs.resolve(amount, None, n_rows), [amount] * n_rows)


@given(st.lists(AMOUNT, min_size=1, max_size=20))
def test_every_form_of_the_same_costs_gives_the_same_array(amounts):
    frame = pd.DataFrame({"fee": amounts})
    forms = (
        amounts,
        tuple(amounts),
        np.array(amounts),
        np.array(amounts)[:, None],
        frame["fee"],
        pl.Series(amounts),
        pa.chunked_array([pa.array(amounts)]),
        pa.array(amounts),
        "fee",
        lambda X: X["fee"],
        lambda X: X["fee"].tolist(),
    )
    for form in forms:
        np.testing.assert_array_equal(costs.resolve(form, frame, len(amounts)), amounts)


def test_the_array_is_a_copy_that_leaves_the_users_own_alone():
    given_costs = np.array([1.0, 2.0])
    costs.resolve(given_costs, None, 2)[0] = 99.0
    np.testing.assert_array_equal(given_costs, [1.0, 2.0])


def test_a_callable_receives_the_rows_and_may_return_one_number():
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(costs.resolve(lambda X: X.sum(axis=1), rows, 2), [3.0, 7.0])
    np.testing.assert_array_equal(costs.resolve(lambda X: len(X), rows, 2), [2.0, 2.0])


@pytest.mark.parametrize("number", [3, 3.0, np.float32(3), np.int64(3), np.array(3.0), Fraction(3)])
def test_one_number_of_any_type_is_constant(number):
    assert costs.is_constant(number)
    assert not costs.needs_rows(number)


@pytest.mark.parametrize("rows", [[3.0], (3.0, 4.0), np.ones(3), pd.Series([1.0])])
def test_one_value_per_row_belongs_to_its_rows(rows):
    assert costs.needs_rows(rows)
    assert not costs.is_constant(rows)


@pytest.mark.parametrize("rule", ["fee", len])
def test_a_column_or_callable_serves_new_rows(rule):
    assert not costs.needs_rows(rule)
    assert not costs.is_constant(rule)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (-1.0, r"^cost must be >= 0, got -1\.0 at row 0$"),
        ([1.0, 2.0, -0.5], r"^cost must be >= 0, got -0\.5 at row 2$"),
        ([1.0, np.nan, 2.0], r"^cost must be finite, got nan at row 1$"),
        ([1.0, 2.0, np.inf], r"^cost must be finite, got inf at row 2$"),
        ([1.0, None, 2.0], r"^cost must be finite, got nan at row 1$"),
        (None, r"^cost is missing: pass a number, one value per row, a callable or a column name$"),
        ([1.0, 2.0], r"^cost must be a number or have one value for each of 3 rows, got shape \(2,\)$"),
        (np.ones((3, 2)), r"one value for each of 3 rows, got shape \(3, 2\)$"),
        (["a", "b", "c"], r"^cost must be numeric, got \['a', 'b', 'c'\]$"),
        (lambda X: -X[:, 0], r"^the cost returned by the callable must be >= 0, got -1\.0 at row 0$"),
        (lambda X: None, r"^the cost returned by the callable is missing"),
        (lambda X: [1.0], r"^the cost returned by the callable must .* each of 3 rows, got shape \(1,\)$"),
        ("fee", r"^cost='fee' names a column, so X must be a DataFrame, got ndarray$"),
    ],
)
def test_a_wrong_cost_is_refused_with_the_rule_and_the_value(cost, message):
    with pytest.raises(ValueError, match=message):
        costs.resolve(cost, np.ones((3, 1)), 3)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series([1.0, -2.0]), r"^cost column 'fee' must be >= 0, got -2\.0 at row 1$"),
        (pd.Series([1, None], dtype="Int64"), r"^cost column 'fee' must be finite, got nan at row 1$"),
        (pd.Series(["dear", "cheap"]), r"^cost column 'fee' must be numeric, got "),
    ],
)
def test_a_wrong_cost_column_is_refused_by_its_name(column, message):
    with pytest.raises(ValueError, match=message):
        costs.resolve("fee", pd.DataFrame({"fee": column}), 2)


def test_a_missing_cost_column_is_refused_with_the_columns_there_are():
    with pytest.raises(ValueError, match=r"^cost='fee' must name a column of X, got columns \['a', 'b'\]$"):
        costs.resolve("fee", pd.DataFrame({"a": [1.0], "b": [2.0]}), 1)


@given(PRICE, PRICE, PRICE, PRICE)
def test_prices_are_worth_the_same_in_any_currency_and_any_unit_of_error(error, error_cost, review_cost, rate):
    cost = costs.from_money(error, error_cost, review_cost)
    assert costs.from_money(error, rate * error_cost, rate * review_cost) == pytest.approx(cost)
    assert costs.from_money(rate * error, error_cost, review_cost) == pytest.approx(rate**2 * cost)


@given(PRICE, PRICE)
def test_an_error_as_dear_as_a_review_costs_its_own_square(error, price):
    assert costs.from_money(error, price, price) == pytest.approx(error**2)


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ((0, 1, 1), r"^error must be a finite number > 0, got 0$"),
        ((1, -2, 1), r"^error_cost must be a finite number > 0, got -2$"),
        ((1, 1, -3), r"^review_cost must be a finite number >= 0, got -3$"),
        ((1, 1, np.nan), r"^review_cost must be a finite number >= 0, got nan$"),
        ((np.inf, 1, 1), r"^error must be a finite number > 0, got inf$"),
        (("10", 1, 1), r"^error must be a finite number > 0, got '10'$"),
        ((1, None, 1), r"^error_cost must be a finite number > 0, got None$"),
        ((1, 1, [2, 3]), r"^review_cost must be a finite number >= 0, got \[2, 3\]$"),
        ((1e200, 1, 1), r"must be a finite number that does not round to 0, got inf for error=1e\+200, error_cost=1, "),
        (
            (1e-200, 1, 1),
            r"must be a finite number that does not round to 0, got 0\.0 for error=1e-200, error_cost=1",
        ),
    ],
)
def test_impossible_prices_are_refused_by_name(prices, message):
    with pytest.raises(ValueError, match=message):
        costs.from_money(*prices)


def test_prices_of_any_size_are_converted_where_the_result_is_a_number():
    assert costs.from_money(1e200, 1e300, 1.0) == pytest.approx(1e100)
    assert costs.from_money(1e-200, 1e-300, 1.0) == pytest.approx(1e-100)
    assert costs.from_money(Decimal("10"), 50, np.float32(18)) == 36.0
    assert costs.from_money(10, 50, 0) == 0.0


LABELLED = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["x", "y", "z"])


def test_a_series_with_the_labels_of_the_rows_in_another_order_is_aligned():
    fees = pd.Series([30.0, 10.0, 20.0], index=["z", "x", "y"])
    np.testing.assert_array_equal(costs.resolve(fees, LABELLED, 3), [10.0, 20.0, 30.0])
    np.testing.assert_array_equal(costs.resolve(lambda X: fees, LABELLED, 3), [10.0, 20.0, 30.0])
    np.testing.assert_array_equal(costs.resolve(fees.to_frame(), LABELLED, 3), [10.0, 20.0, 30.0])


def test_a_series_is_taken_by_position_where_the_rows_have_no_labels():
    fees = pd.Series([30.0, 10.0, 20.0], index=[2, 0, 1])
    np.testing.assert_array_equal(costs.resolve(fees, LABELLED.to_numpy(), 3), [30.0, 10.0, 20.0])
    np.testing.assert_array_equal(costs.resolve(fees, None, 3), [30.0, 10.0, 20.0])
    np.testing.assert_array_equal(costs.resolve(pl.Series([3.0, 1.0, 2.0]), LABELLED, 3), [3.0, 1.0, 2.0])


@pytest.mark.parametrize("labels", [["x", "y", "w"], [0, 1, 2]])
def test_a_series_with_other_labels_than_the_rows_is_refused(labels):
    with pytest.raises(ValueError, match=r"^cost must have the row labels of X, got no value for the label '[xz]' of"):
        costs.resolve(pd.Series([1.0, 2.0, 3.0], index=labels), LABELLED, 3)


def test_labels_that_occur_twice_cannot_be_aligned():
    rows = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["x", "x", "y"])
    fees = pd.Series([1.0, 2.0, 3.0], index=["x", "x", "y"])
    np.testing.assert_array_equal(costs.resolve(fees, rows, 3), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"^cost must have unique row labels or those of X in the same order, got 'x'"):
        costs.resolve(fees.iloc[::-1], rows, 3)


@pytest.mark.parametrize("table", [pl.DataFrame, pa.table])
def test_a_cost_may_name_a_column_of_any_table(table):
    np.testing.assert_array_equal(costs.resolve("fee", table({"fee": [1.0, 2.0]}), 2), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"^cost column 'fee' must be finite, got nan at row 1$"):
        costs.resolve("fee", table({"fee": [1.0, None]}), 2)


def test_errors_name_the_row_by_position_and_label():
    with pytest.raises(ValueError, match=r"^cost must be >= 0, got -3\.0 at row 2 \(label 'z'\)$"):
        costs.resolve([1.0, 2.0, -3.0], LABELLED, 3)


@pytest.mark.parametrize("dates", [pd.to_datetime(["2024-01-01"]), np.array(["2024-01-01"], "M8[D]"), [1j]])
def test_dates_and_complex_numbers_are_no_costs(dates):
    with pytest.raises(ValueError, match=r"^cost must be numeric, got (datetime64|complex)"):
        costs.resolve(dates, None, 1)


class TestCostOfRows:
    TABLE = pd.DataFrame({"a": [1.0, 2.0], "fee": [3.0, 4.0]})

    def chosen(self, cost, fitted=2.0, cost_range=None, serves_any_cost=True):
        rows = self.TABLE[["a"]].to_numpy()  # checked, and without the column of the cost
        given = {"fitted": fitted, "cost_range": cost_range, "serves_any_cost": serves_any_cost, "name": "Model"}
        return costs.cost_of_rows(cost, self.TABLE, rows, **given).tolist()

    def test_the_cost_is_the_one_passed_or_else_that_of_the_model(self):
        assert self.chosen(None) == [2.0, 2.0]
        assert self.chosen(None, serves_any_cost=False) == [2.0, 2.0]
        assert self.chosen([5.0, 6.0]) == [5.0, 6.0]
        assert self.chosen("fee") == [3.0, 4.0]
        assert self.chosen(None, fitted="fee") == [3.0, 4.0]
        assert self.chosen(lambda rows: 2 * rows[:, 0]) == [2.0, 4.0]

    def test_costs_of_training_rows_are_not_those_of_new_rows(self):
        for fitted in (None, [5.0, 6.0]):
            with pytest.raises(ValueError, match=r"^Model was fitted with one cost per row, so new rows need theirs"):
                self.chosen(None, fitted=fitted)
        assert self.chosen(1.0, fitted=[5.0, 6.0], serves_any_cost=False) == [1.0, 1.0]

    def test_a_model_for_one_cost_decides_at_that_cost_only(self):
        assert self.chosen([2.0, 2.0], serves_any_cost=False) == [2.0, 2.0]
        with pytest.raises(ValueError, match=r"^Model was fitted for cost 2\.0 and cannot decide at cost 9\.0: fit it"):
            self.chosen([2.0, 9.0], serves_any_cost=False)

    def test_a_model_for_a_range_decides_within_it(self):
        assert self.chosen([3.0, 4.0], cost_range=(3.0, 4.0)) == [3.0, 4.0]
        assert self.chosen("fee", cost_range=(3.0, 4.0)) == [3.0, 4.0]
        with pytest.raises(ValueError, match=r"^the model was fitted for every cost from 3\.0 to 4\.0, so a decision"):
            self.chosen(None, cost_range=(3.0, 4.0))
        for cost in ([3.0, 2.9], [4.0, 4.1]):
            message = rf"^cost must be within 3\.0 to 4\.0, the range .*, got {cost[1]} at row 1$"
            with pytest.raises(ValueError, match=message):
                self.chosen(cost, cost_range=(3.0, 4.0))
