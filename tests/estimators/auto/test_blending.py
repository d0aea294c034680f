"""Rows that are likely to be accepted count more in the choice and the blend of regressors."""

import numpy as np
import pytest

from recuse.estimators.auto.blending import likely_accepted
from recuse.losses import SQUARED
from recuse.tabular.rows import Rows

COUNT = 1000
RANDOM = np.random.RandomState(0)
NOISY = RANDOM.uniform(size=COUNT) < 0.5
INPUTS = np.column_stack([NOISY, RANDOM.normal(size=COUNT)])


def counts(cost, scale=1.0):
    target = scale * RANDOM.normal(size=COUNT) * np.where(NOISY, 10.0, 0.1)
    weight, group = np.linspace(1.0, 2.0, COUNT), np.arange(COUNT)
    rows = Rows(INPUTS, target, np.full(COUNT, cost), weight, group, np.empty((COUNT, 0), np.int8))
    return weight, likely_accepted(np.zeros(COUNT), rows, INPUTS, SQUARED, seed=0)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_noisy_rows_do_not_count(scale):
    weight, counted = counts(cost=scale**2, scale=scale)
    assert counted[~NOISY].sum() > 0.8 * weight[~NOISY].sum()
    assert counted[NOISY].sum() < 0.1 * weight[NOISY].sum()


@pytest.mark.parametrize("cost", [1e-9, 1e9])
def test_all_rows_count_alike_where_none_or_all_are_accepted(cost):
    weight, counted = counts(cost)
    np.testing.assert_allclose(counted, weight)
