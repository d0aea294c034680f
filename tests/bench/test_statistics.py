import math

import numpy as np
import pandas as pd
import pytest

from recuse.bench.statistics import critical_difference, friedman, interval, mean_ranks, paired_tests, resampled

INDEX = ["dataset", "cost", "repeat"]


def losses(repeats=8):
    """Two data sets of two costs; the second method is the first plus one."""
    random = np.random.default_rng(3)
    keys = [(name, cost, repeat) for name in "ab" for cost in (1.0, 2.0) for repeat in range(repeats)]
    first = random.uniform(1, 5, len(keys))
    return pd.DataFrame({"first": first, "second": first + 1}, index=pd.MultiIndex.from_tuples(keys, names=INDEX))


def test_ranks_are_within_a_block_and_ties_share_theirs():
    table = np.array([[1.0, 2.0, 3.0], [100.0, 100.0, 50.0]])
    assert mean_ranks(table).tolist() == [1.75, 2.25, 2.0]


def test_the_critical_difference_is_that_of_the_tables():
    # Demsar (2006), section 3.2.2: q = 2.569 for four methods, so 1.25 over 14 data sets
    assert critical_difference(4, 14) == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert critical_difference(10, 24) == pytest.approx(3.164 * math.sqrt(10 * 11 / (6 * 24)), abs=1e-3)


def test_friedman_tells_order_from_noise():
    noise = np.random.default_rng(0).normal(size=(30, 4))
    assert friedman(noise)["p_value"] > 0.05
    assert friedman(noise + 3 * np.arange(4))["p_value"] < 1e-6


@pytest.mark.parametrize("shape", [(24, 2), (24, 1), (1, 4)])
def test_too_little_for_a_test_gives_nan(shape):
    assert math.isnan(friedman(np.arange(math.prod(shape), dtype=float).reshape(shape))["p_value"])


def test_paired_tests_reject_equal_methods_rarely_although_splits_share_rows():
    random, rejected = np.random.default_rng(0), 0
    keys = pd.MultiIndex.from_product([["a"], [1.0], range(10)], names=INDEX)
    for _ in range(200):
        shared = random.normal(size=(1, 2))  # what all test parts have in common: a third of the variance
        noise = shared * math.sqrt(0.2) + random.normal(size=(10, 2)) * math.sqrt(0.8)
        table = pd.DataFrame(np.exp(0.1 * noise), index=keys, columns=["one", "other"])
        rejected += paired_tests(table, "one")["p"].iloc[0] < 0.05
    assert rejected / 200 < 0.08


def test_paired_tests_find_a_real_difference_and_correct_for_their_number():
    table = losses().assign(third=lambda frame: frame["first"])
    tests = paired_tests(table, "first").set_index(["method", "dataset"])
    assert (tests.loc["second", "p_holm"] < 0.05).all()
    assert (tests.loc["second", "ratio"] > 1.2).all()
    assert tests.loc["third", "p"].isna().all()  # nothing to test


def test_splits_are_drawn_together_for_all_methods():
    drawn = resampled(losses(), draws=50)
    assert drawn.shape == (50, 4, 2)
    np.testing.assert_allclose(drawn[..., 1] - drawn[..., 0], 1)
    assert drawn[..., 0].std(axis=0).min() > 0


def test_draws_lie_round_the_mean_over_the_splits():
    table = losses()
    low, high = interval(resampled(table).mean(axis=1))
    assert (low < table.mean()).all()
    assert (table.mean() < high).all()


def test_one_split_leaves_nothing_to_draw():
    drawn = resampled(losses(repeats=1), draws=3)
    assert (drawn == drawn[0]).all()
