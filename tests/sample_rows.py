"""Small tables that the tests of estimators share, and ways to compare what two of them say."""

import numpy as np
import pandas as pd


def noisy_rows(n_rows=80, seed=0):
    """Rows whose noise grows with the second feature: some deserve a rejection at cost 1."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(n_rows, 2))
    return X, 3 * X[:, 0] + np.exp(X[:, 1]) / 2 * random.normal(size=n_rows)


X, Y = noisy_rows()
NEW, NEW_Y = noisy_rows(40, seed=1)
ROW_COST = np.random.default_rng(2).uniform(0.2, 5, size=len(X))


def mixed_frame(n_rows=80, seed=0):
    """The same rows with a category and gaps."""
    features, y = noisy_rows(n_rows, seed)
    frame = pd.DataFrame(features, columns=["a", "b"])
    frame["kind"] = np.where(features[:, 0] > 0, "up", "down")
    frame.loc[::7, "a"] = np.nan
    frame.loc[3::9, "kind"] = None
    return frame, y


def same(one, other, rows=NEW, **options):
    np.testing.assert_allclose(one.predict(rows), other.predict(rows), **{"rtol": 1e-12, **options})
    np.testing.assert_allclose(one.decision_function(rows), other.decision_function(rows), **{"rtol": 1e-12, **options})


def differ(one, other, rows=NEW):
    return not np.allclose(one.predict(rows), other.predict(rows), rtol=1e-6)
