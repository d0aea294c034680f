"""Regressors are compared on the rows that all have predicted, and rows may count by how likely they are accepted."""

import numpy as np
import pytest

from recuse.estimators.auto import comparison
from recuse.estimators.auto.comparison import Comparison
from recuse.estimators.crossfitting import Sample
from recuse.losses import SQUARED

ROWS = 400
TARGET = np.random.default_rng(0).normal(size=ROWS)
SAMPLE = Sample(TARGET[:, None], TARGET, np.ones(ROWS))
QUIET = np.arange(ROWS) < ROWS // 2
# the first is better on the quiet half, and the second by more on the other half
BOTH = np.array([TARGET + np.where(QUIET, 0.1, 3.0), TARGET + np.where(QUIET, 1.0, 0.5)])


def only_quiet(prediction, rows):
    return np.where(QUIET[rows], 1.0, 0.0)


def test_all_rows_count_alike_by_default():
    compared = Comparison(SAMPLE, SQUARED)
    compared.emphasise(BOTH)
    assert compared.weights(BOTH)[1] > 0.9


def test_rows_that_count_more_decide():
    compared = Comparison(SAMPLE, SQUARED, only_quiet)
    compared.emphasise(BOTH)
    assert compared.weights(BOTH)[0] > 0.9
    assert compared.sparse_weights(BOTH, 0.01).tolist() == [1.0, 0.0]
    assert compared.loss_of_blend(BOTH) == pytest.approx(0.01, rel=0.2)


def test_emphasis_sees_the_blend_of_the_common_rows():
    partial, seen = BOTH.copy(), []
    partial[1, 100:] = np.nan

    def emphasis(prediction, rows):
        seen.append((prediction, rows))
        return np.ones(len(rows))

    Comparison(SAMPLE, SQUARED, emphasis).emphasise(partial)
    ((prediction, rows),) = seen
    np.testing.assert_array_equal(rows, np.arange(100))
    assert np.abs(prediction - TARGET[:100]).max() < 1


def test_rows_of_other_folds_count_as_the_common_ones_do_on_average():
    partial = BOTH.copy()
    partial[1, 100:] = np.nan
    compared = Comparison(SAMPLE, SQUARED, lambda prediction, rows: np.full(len(rows), 0.25))
    compared.emphasise(partial)
    np.testing.assert_allclose(compared._weight, 0.25)


def test_a_large_table_is_compared_on_some_rows(monkeypatch):
    monkeypatch.setattr(comparison, "_MOST_ROWS", 100)
    wrong = BOTH.copy()
    wrong[:, 1::4] = 1e6  # these rows are not looked at
    assert Comparison(SAMPLE, SQUARED).loss_of_blend(wrong) < 2
