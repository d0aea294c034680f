"""Sums of kernels with fewer centres."""

import numpy as np
import pytest

from recuse.estimators.auto.models.kernel_sum import KernelSum

RANDOM = np.random.RandomState(0)
CENTRES = RANDOM.uniform(-1, 1, size=(200, 2))
NEW = RANDOM.uniform(-1, 1, size=(500, 2))


def drawn(length):
    return KernelSum(np.full(2, length), CENTRES, RANDOM.normal(size=200))


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_the_difference_at_the_centres_is_within_the_tolerance(tolerance):
    whole = drawn(1.0)
    fewer = whole.with_fewer_centres(tolerance)
    assert len(fewer.centres) < 100
    difference = fewer(CENTRES) - whole(CENTRES)
    assert np.sqrt(np.mean(difference**2)) <= 1.001 * tolerance
    assert np.abs(fewer(NEW) - whole(NEW)).max() < 10 * tolerance


def test_longer_kernels_need_fewer_centres():
    counts = [len(drawn(length).with_fewer_centres(1e-3).centres) for length in (0.5, 2.0, 10.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2]


def test_short_kernels_keep_all_centres():
    whole = drawn(0.01)
    assert whole.with_fewer_centres(1e-6) is whole


def test_equal_centres_are_one():
    twice = KernelSum(np.ones(1), np.zeros((10, 1)), np.ones(10))
    fewer = twice.with_fewer_centres(1e-9)
    assert len(fewer.centres) == 1
    np.testing.assert_allclose(fewer(np.array([[0.5]])), twice(np.array([[0.5]])))
