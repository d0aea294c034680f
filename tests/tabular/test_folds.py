"""Splits keep groups together, however few there are."""

import numpy as np
import pytest

from recuse.tabular.folds import folds_of, held_out_split
from recuse.tabular.rows import Rows

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(40, 2)), RANDOM.normal(size=40)


def rows(groups):
    return Rows.canonical(X, Y, np.ones(40), groups=groups)


@pytest.mark.parametrize("fraction", [0.05, 0.25, 0.7, 0.95])
@pytest.mark.parametrize("count", [2, 3, 10])
def test_held_out_rows_share_no_group_with_the_others(fraction, count):
    table = rows(np.arange(40) % count)
    train, test = held_out_split(table, fraction, np.random.RandomState(0))
    assert len(train) > 0 < len(test)
    assert not set(table.group[train]) & set(table.group[test])


def test_folds_do_not_depend_on_the_order_of_the_rows():
    groups, order = np.array(list("abcdefgh"))[np.arange(40) % 8], RANDOM.permutation(40)
    one, other = rows(groups), Rows.canonical(X[order], Y[order], np.ones(40), groups=groups[order])
    np.testing.assert_array_equal(one.group, other.group)
    for first, second in zip(*(folds_of(table, 4, np.random.RandomState(0)) for table in (one, other)), strict=True):
        np.testing.assert_array_equal(first[1], second[1])


def test_rows_with_equal_features_are_a_group():
    twice = np.repeat(np.arange(20), 2)
    table = Rows.canonical(X[twice], Y[:40], np.ones(40))
    for train, test in folds_of(table, 4, np.random.RandomState(0)):
        assert not set(table.group[train]) & set(table.group[test])
