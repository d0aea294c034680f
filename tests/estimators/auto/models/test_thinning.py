"""Smaller forests for the mean over copies."""

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.thinning import thinned
from recuse.estimators.crossfitting import MeanOfRepeats

X = np.random.RandomState(0).normal(size=(80, 2))
y = X[:, 0] + X[:, 1] ** 2


def forest(seed):
    return ExpandedFeatures(ExtraTreesRegressor(40, random_state=seed), "none").fit(X, y)


def test_forests_keep_twice_the_trees_of_one_in_all_copies():
    copies = [forest(seed) for seed in range(8)]
    smaller = [thinned(copy, 8) for copy in copies]
    assert [len(model.regressor_.estimators_) for model in smaller] == [10] * 8
    assert [len(model.regressor_.estimators_) for model in copies] == [40] * 8  # these are not changed
    full, thin = (np.mean([model.predict(X) for model in models], axis=0) for models in (copies, smaller))
    assert np.mean((full - thin) ** 2) < 0.01 * np.var(y)


def test_repeated_divisions_count_as_copies():
    repeated = thinned(MeanOfRepeats([forest(0), forest(1)]), 4)
    assert [len(model.regressor_.estimators_) for model in repeated.models] == [10, 10]


def test_one_copy_and_other_models_stay():
    assert len(thinned(forest(0), 1).regressor_.estimators_) == 40
    ridge = Ridge().fit(X, y)
    assert thinned(ridge, 8) is ridge
