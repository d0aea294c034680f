"""Tests by betting keep their level, where similar constructions do not, and are tight."""

import math

import numpy as np
import pytest

from recuse.guarantees.betting import largest_log_wealth, refutes
from recuse.guarantees.certificate import needed_rows

REPEATS = 2000


def at_the_boundary(kind, n_rows, repeats, mean, seed=0):
    """Values in [0, 1] whose mean is exactly `mean`."""
    random = np.random.default_rng(seed)
    if kind == "bernoulli":
        return (random.random((n_rows, repeats)) < mean).astype(float)
    if kind == "beta":
        return random.beta(mean, 1 - mean, (n_rows, repeats))
    return random.uniform(0, 2 * mean, (n_rows, repeats))


def level_plus_error(delta):
    return delta + 3 * math.sqrt(delta * (1 - delta) / REPEATS)


@pytest.mark.parametrize("kind", ["bernoulli", "beta", "uniform"])
@pytest.mark.parametrize(("n_rows", "mean", "delta"), [(50, 0.3, 0.1), (300, 0.05, 0.05), (300, 0.5, 0.01)])
def test_a_mean_that_equals_the_number_is_refuted_with_probability_delta_at_most(kind, n_rows, mean, delta):
    values = at_the_boundary(kind, n_rows, REPEATS, mean)
    assert refutes(values, mean, delta).mean() <= level_plus_error(delta)


def test_ignored_values_change_nothing():
    random = np.random.default_rng(1)
    values, used = random.uniform(0, 0.4, (200, 5)), random.random((200, 5)) < 0.5
    together = largest_log_wealth(values, 0.3, 0.05, used)
    for column in range(5):
        alone = largest_log_wealth(values[used[:, column], column], 0.3, 0.05)
        assert together[column] == pytest.approx(float(alone))


def test_without_any_loss_hardly_more_rows_are_needed_than_is_possible():
    for mean in (0.5, 0.1, 0.02):
        least = needed_rows(mean, 0.05)
        assert not refutes(np.zeros(least - 1), mean, 0.05)
        assert refutes(np.zeros(math.ceil(1.1 * least)), mean, 0.05)


def test_many_values_are_bet_on_in_blocks():
    values = np.random.default_rng(0).uniform(0, 0.19, 5000)
    assert refutes(values, 0.1, 0.05)
    assert not refutes(values + 0.01, 0.1, 0.05)


class TestMistakesOfOthers:
    def test_a_mean_above_the_number_is_not_refuted_by_betting_in_both_directions(self):
        """Half of the wealth bet on a larger mean grows, too, so two-sided wealth says nothing about the direction."""
        values = at_the_boundary("bernoulli", 500, 200, 0.5)
        down = np.cumsum(np.log1p(-0.5 * (values - 0.1)), axis=0).max(axis=0)
        up = np.cumsum(np.log1p(0.5 * (values - 0.1)), axis=0).max(axis=0)
        two_sided = np.log(0.5 * np.exp(down) + 0.5 * np.exp(up)) >= math.log(20)
        assert two_sided.all()
        assert not refutes(values, 0.1, 0.05).any()

    def test_the_level_is_not_exceeded_where_running_maxima_are_added(self):
        delta, mean = 0.1, 0.2
        values = at_the_boundary("bernoulli", 1000, REPEATS, mean)
        maxima = [np.cumsum(np.log1p(-bet * (values - mean)), axis=0).max(axis=0) for bet in (0.1, 0.9)]
        added = np.exp(maxima[0]) + np.exp(maxima[1]) >= 1 / delta
        assert added.mean() > level_plus_error(delta)
        assert refutes(values, mean, delta).mean() <= level_plus_error(delta)

    def test_the_variance_is_that_of_the_losses_and_not_over_thresholds(self):
        values = np.random.default_rng(0).uniform(0, 0.3, (300, 1))
        used = np.random.default_rng(1).random((300, 8)) < np.linspace(0.2, 1, 8)
        together = largest_log_wealth(values, 0.2, 0.05, used)
        alone = [float(largest_log_wealth(values, 0.2, 0.05, used[:, [place]])[0]) for place in range(8)]
        np.testing.assert_allclose(together, alone)
