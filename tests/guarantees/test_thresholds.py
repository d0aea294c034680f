"""Thresholds by cost, row by row, and by a budget that is not exceeded."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse.guarantees import break_ties, by_budget, by_cost, by_cost_within_budget, by_validation_loss

SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60).map(np.array)
SHARES = st.floats(0, 1)


class TestByCost:
    @given(SCORES.map(np.abs), st.floats(0, 1e6))
    def test_a_row_is_accepted_where_its_risk_is_below_the_cost(self, risk, cost):
        np.testing.assert_array_equal(by_cost(risk, cost), risk < cost)

    def test_no_other_choice_has_a_lower_expected_loss(self):
        random = np.random.default_rng(0)
        risk, cost = random.exponential(size=200), random.exponential(size=200)
        best = np.where(by_cost(risk, cost), risk, cost).mean()
        assert best == pytest.approx(np.minimum(risk, cost).mean())

    @pytest.mark.parametrize(
        ("risk", "cost", "message"),
        [
            ([1.0, np.nan], 1.0, r"^risk must be a number, got nan at row 1$"),
            (pd.Series([1.0, np.nan], index=["a", "b"]), 1.0, r"got nan at row 1 \(label 'b'\)$"),
            ([], 1.0, r"^risk must have one value for each of at least one row, got shape \(0,\)$"),
            ([[1.0]], 1.0, r"^risk must have one value for each of at least one row, got shape \(1, 1\)$"),
            ([1.0, 2.0], -1.0, r"^cost must be >= 0, got -1\.0 at row 0$"),
            ([1.0, 2.0], [1.0, 2.0, 3.0], r"^cost must .* each of 2 rows, got shape \(3,\)$"),
        ],
    )
    def test_bad_input_is_refused(self, risk, cost, message):
        with pytest.raises(ValueError, match=message):
            by_cost(risk, cost)


class TestByBudget:
    @given(SCORES, SHARES)
    def test_the_plug_in_rule_rejects_at_most_the_budget_of_its_own_rows(self, score, budget):
        rejected = score <= by_budget(score, budget, finite_sample=False)
        assert rejected.sum() <= budget * len(score) + 1e-6

    @given(SCORES.map(np.unique), SHARES)
    def test_without_ties_it_falls_short_by_less_than_one_row(self, score, budget):
        rejected = score <= by_budget(score, budget, finite_sample=False)
        assert rejected.sum() > budget * len(score) - 1 - 1e-6

    @given(st.integers(1, 40), SHARES)
    def test_the_finite_sample_rule_accepts_down_to_its_order_statistic(self, m, budget):
        score = np.arange(m, dtype=float)
        count = math.ceil(round((1 - budget) * (m + 1), 9))
        assert (score > by_budget(score, budget)).sum() == min(count, m)

    @pytest.mark.parametrize("m", [9, 30])
    def test_the_next_row_is_rejected_with_at_most_the_probability_of_the_budget(self, m):
        random, budget, repeats = np.random.default_rng(0), 0.2, 20_000
        scores = random.normal(size=(repeats, m + 1))
        rejected = np.mean([row[-1] <= by_budget(row[:-1], budget) for row in scores])
        noise = 4 * math.sqrt(budget * (1 - budget) / repeats)
        assert budget - 1 / (m + 1) - noise < rejected < budget + noise

    def test_everything_and_nothing(self):
        assert by_budget([1.0, 2.0], 0.0) == -math.inf
        assert by_budget([1.0, 2.0], 1.0) == math.inf
        assert by_budget([1.0, 2.0], 0.0, finite_sample=False) < 1.0

    def test_equal_scores_are_accepted_together_unless_ties_are_broken(self):
        score = np.repeat([0.0, 1.0], [600, 400])
        assert np.mean(score <= by_budget(score, 0.3)) == 0
        threshold = by_budget(score, 0.3, random_state=0)
        new = break_ties(score, 1)
        assert np.mean(new <= threshold) == pytest.approx(0.3, abs=0.04)
        assert (new[score == 1] > threshold).all()

    @pytest.mark.parametrize("budget", [-0.1, 1.1, np.nan])
    def test_a_budget_that_is_no_share_is_refused(self, budget):
        with pytest.raises(ValueError, match=rf"^budget must be between 0 and 1, got {budget}$"):
            by_budget([1.0, 2.0], budget)

    @pytest.mark.parametrize("score", [[], [[1.0]], [np.nan]])
    def test_bad_scores_are_refused(self, score):
        with pytest.raises(ValueError, match=r"^score must"):
            by_budget(score, 0.5)


class TestBreakTies:
    @given(st.lists(st.integers(-1000, 1000), min_size=1).map(np.array))
    def test_no_two_scores_are_equal_any_more_and_no_others_change_places(self, score):
        broken = break_ties(score, 0)
        assert len(np.unique(broken)) == len(score)
        np.testing.assert_array_equal(score[np.argsort(broken)], np.sort(score))
        np.testing.assert_allclose(broken, score, rtol=1e-8, atol=1e-290)

    def test_the_same_random_state_gives_the_same_order(self):
        np.testing.assert_array_equal(break_ties(np.ones(9), 3), break_ties(np.ones(9), 3))
        assert not np.array_equal(break_ties(np.ones(9), 3), break_ties(np.ones(9), 4))


class TestByCostWithinBudget:
    @given(SCORES, SHARES)
    def test_no_more_is_rejected_than_by_cost_and_than_by_budget(self, score, budget):
        threshold = by_cost_within_budget(score, budget)
        assert threshold == min(0.0, by_budget(score, budget))
        assert np.sum(score <= threshold) <= min(np.sum(score <= 0), np.sum(score <= by_budget(score, budget)))

    def test_a_full_budget_rejects_by_cost(self):
        assert by_cost_within_budget([1.0, -1.0], 1.0) == 0.0


class TestByValidationLoss:
    @given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
    def test_no_other_threshold_has_a_lower_loss(self, rows):
        score, loss, cost = np.array(rows, dtype=float).T

        def rcr_loss(threshold):
            return np.where(score > threshold, loss, cost).sum()

        found = by_validation_loss(score, loss, cost)
        every = [-math.inf, *np.arange(-5.5, 6), math.inf]
        assert rcr_loss(found) == min(map(rcr_loss, every))
        assert all(
            (score > other).sum() <= (score > found).sum() for other in every if rcr_loss(other) == rcr_loss(found)
        )

    def test_all_rows_none_and_neighbouring_numbers(self):
        assert by_validation_loss([1.0, 2.0], [3.0, 3.0], 5.0) == -math.inf
        assert by_validation_loss([1.0, 2.0], [3.0, 3.0], 2.0) == math.inf
        low = np.nextafter(1.0, 0)
        assert by_validation_loss([1.0, low], [0.0, 9.0], 2.0) == low

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([1.0, np.nan], [1.0, 1.0], 1.0), r"^score must be a number, got nan at row 1$"),
            (([1.0, 2.0], [1.0], 1.0), r"^loss must have one value for each of 2 rows, got 1$"),
            (([1.0, 2.0], [1.0, 1.0], -1.0), r"^cost must be >= 0, got -1\.0 at row 0$"),
        ],
    )
    def test_bad_input_is_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            by_validation_loss(*arguments)
