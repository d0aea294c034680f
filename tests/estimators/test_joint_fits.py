"""Copies of an estimator that are fitted together equal copies that are fitted alone, in any number of processes."""

import numpy as np
import pytest

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.estimators.crossfitting import Sample, cross_fit
from recuse.estimators.joint_fits import fit_all, fits_together
from recuse.estimators.mlp import StackedMLPRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 3))
Y = X[:, 0] + 0.1 * RANDOM.normal(size=100)
ROWS = [(X[:60], Y[:60], None), (X[40:], Y[40:], None)]
NETWORKS = StackedMLPRegressor((8,), epochs=5, batch_size=16, n_members=2, learning_rate=(1e-2, 1e-3), decay=True)


def copies(count):
    return [StackedMLPRegressor(**NETWORKS.get_params() | {"random_state": seed}) for seed in range(count)]


def test_a_fit_in_a_stack_equals_a_fit_alone_up_to_the_unit_of_the_target():
    together = fit_all(copies(2), ROWS)
    for model, alone, (inputs, target, _) in zip(together, copies(2), ROWS, strict=True):
        np.testing.assert_allclose(model.predict(X), alone.fit(inputs, target).predict(X), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("weight", [np.ones(100), RANDOM.uniform(1, 2, 100)])
@pytest.mark.parametrize(
    "estimator",
    [NETWORKS, ExpandedFeatures(NETWORKS), PrecisionWeighted(ExpandedFeatures(NETWORKS)), RiskNetwork((8,), 5)],
)
def test_results_do_not_depend_on_the_number_of_processes(estimator, weight):
    assert fits_together(estimator)
    fold = np.arange(100) % 3  # of 34, 33 and 33 rows
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    one, two = (
        cross_fit(estimator, Sample(X, Y**2, weight), splits, np.random.RandomState(0), n_jobs=n_jobs)
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(one.out_of_fold.mean, two.out_of_fold.mean)
    assert np.isfinite(one.out_of_fold.mean).all()


def test_tables_with_other_columns_are_trained_apart():
    rows = [(X, Y, None), (np.column_stack([X, X[:, 0]]), Y, None)]
    first, second = fit_all(copies(2), rows)
    assert (first.n_features_in_, second.n_features_in_) == (3, 4)


def test_a_fold_with_a_constant_target_gets_a_constant_model():
    target = np.where(np.arange(100) < 50, Y, 2.0)
    halves = [(np.arange(50), np.arange(50, 100)), (np.arange(50, 100), np.arange(50))]
    fitted = cross_fit(NETWORKS, Sample(X, target, np.ones(100)), halves, np.random.RandomState(0))
    assert (fitted.out_of_fold.mean[:50] == 2.0).all()
