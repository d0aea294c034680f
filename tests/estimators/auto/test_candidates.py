"""The candidates of AutoRejector."""

import numpy as np
from sklearn.base import clone

from recuse.estimators.auto.candidates import LEARNERS
from recuse.losses import Squared


def test_forests_of_a_narrow_table_try_all_columns_at_each_split():
    random = np.random.RandomState(0)
    X = np.column_stack([random.normal(size=(120, 6)), np.ones(120)])
    y = X[:, 0] + random.normal(size=120)
    forest = LEARNERS["extra_trees"].build(120, Squared()).regressor.set_params(n_estimators=10, random_state=0)
    assert forest.max_features > X.shape[1]
    of_all = clone(forest).set_params(max_features=1.0)
    assert np.array_equal(forest.fit(X, y).predict(X + 0.1), of_all.fit(X, y).predict(X + 0.1))
