"""Smaller models predict nearly the same."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.estimators.auto.models.log_target import LogTarget
from recuse.estimators.auto.models.risk_process import RiskProcess
from recuse.estimators.auto.models.smaller_models import smaller_model
from recuse.estimators.crossfitting import MeanOfRepeats

X = np.random.RandomState(0).normal(size=(80, 2))
y = X[:, 0] + X[:, 1] ** 2


def forest(seed):
    return ExpandedFeatures(ExtraTreesRegressor(40, random_state=seed), "none").fit(X, y)


def test_forests_keep_twice_the_trees_of_one_in_all_copies():
    copies = [forest(seed) for seed in range(8)]
    smaller = [smaller_model(copy, 8, 1.0) for copy in copies]
    assert [len(model.regressor_.estimators_) for model in smaller] == [10] * 8
    assert [len(model.regressor_.estimators_) for model in copies] == [40] * 8  # these are not changed
    full, thin = (np.mean([model.predict(X) for model in models], axis=0) for models in (copies, smaller))
    assert np.mean((full - thin) ** 2) < 0.01 * np.var(y)


def test_repeated_divisions_count_as_copies():
    repeated = smaller_model(MeanOfRepeats([forest(0), forest(1)]), 4, 1.0)
    assert [len(model.regressor_.estimators_) for model in repeated.models] == [10, 10]


def test_one_copy_and_other_models_stay():
    assert len(smaller_model(forest(0), 1, 1.0).regressor_.estimators_) == 40
    ridge = Ridge().fit(X, y)
    assert smaller_model(ridge, 8, 1.0) is ridge


def test_a_forest_of_little_weight_keeps_few_trees():
    full, thin = forest(0), smaller_model(forest(0), 1, 0.1)
    assert len(thin.regressor_.estimators_) == 8
    assert np.mean((0.1 * (full.predict(X) - thin.predict(X))) ** 2) < 0.001 * np.var(y)


def smooth(rows, seed, noise=0.3):
    random = np.random.RandomState(seed)
    X = random.uniform(-2, 2, size=(rows, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + noise * random.normal(size=rows)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_process_with_fewer_centres_differs_by_much_less_than_the_noise(parts):
    rows, new = smooth(600, 0), smooth(2000, 1)[0]
    process = LogTarget(ExpandedFeatures(GaussianProcess(parts, shrinkage=0.1, random_state=0)))
    process.fit(rows[0], np.exp(rows[1]))
    smaller = smaller_model(process, 1, 0.5)
    centres = [[len(part.centres) for part in each.regressor_.regressor_.sums_] for each in (process, smaller)]
    assert centres[0] == [600] * parts
    assert centres[1][0] < 300
    difference = np.log(process.predict(new)) - np.log(smaller.predict(new))
    assert difference.std() < 0.05 * 0.3


def test_a_process_of_the_risk_gets_fewer_centres():
    (X, error), new = smooth(500, 0), smooth(2000, 1)[0]
    process = RiskProcess(random_state=0).fit(X, error**2)
    smaller = smaller_model(process, 1, 0.5)
    assert len(smaller.sums_[0].centres) < 250 < len(process.sums_[0].centres)
    assert np.log(smaller.predict(new) / process.predict(new)).std() < 0.05
