"""Converted candidates of the automatic estimator predict as they do."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

from graph_runs import assert_same_prediction, new_rows, run, training_rows
from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.log_target import LogTarget
from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted
from recuse.estimators.auto.models.relevant_features import RelevantFeatures
from recuse.estimators.auto.models.risk_linear import RiskLinear
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.estimators.auto.models.risk_process import RiskProcess
from recuse.losses import SQUARED


@pytest.mark.parametrize("expansion", ["ranks", "squares", "pieces", "levels", "none"])
@pytest.mark.parametrize("binary", [[], [1], [0, 1, 2, 3, 4]])
def test_expanded_features(expansion, binary):
    X, y = training_rows()
    X[:, binary] = X[:, binary] > 0
    X[:, 2] = X[:, 2].round()
    assert_same_prediction(ExpandedFeatures(Ridge(), expansion).fit(X, y), new_rows(X))


def test_pieces_between_values_that_differ_by_a_rounding_error():
    X, y = training_rows()
    X[:, 0] = 1 + np.finfo(float).eps * (np.arange(len(X)) % 7)
    model = ExpandedFeatures(Ridge(), "pieces").fit(X, y)
    assert model.widths_.min() < 1e-15
    assert_same_prediction(model, X)


def test_logarithm_of_the_target():
    X, y = training_rows()
    assert_same_prediction(LogTarget(Ridge()).fit(X, np.exp(y / y.std())), new_rows(X))


def test_risk_network_is_clipped():
    X, y = training_rows()
    model = RiskNetwork(epochs=30, random_state=0).fit(X, y**2)
    model.limits_, model.floor_ = np.quantile(model.predict(X), [0.2, 0.8]), 0.2
    X_new = new_rows(X)
    np.testing.assert_allclose(run(model, X_new)[:, 0], model.predict(X_new), rtol=1e-4)  # torch has single precision


def test_risk_process_is_clipped():
    X, y = training_rows()
    model = RiskProcess(random_state=0).fit(X, y**2)
    predicted = model.predict(new_rows(X))
    model.limits_ = np.quantile(np.log(predicted), [0.2, 0.8])
    assert_same_prediction(model, new_rows(X))


def test_risk_linear_is_clipped():
    X, y = training_rows()
    model = RiskLinear().fit(X, y**2)
    model.limits_ = np.quantile(model.predict(X), [0.2, 0.8])
    X_new = np.vstack([new_rows(X), 100 * X[:2]])
    assert_same_prediction(model, X_new)


@pytest.mark.parametrize("columns", [[0, 1, 2, 3, 4], [3, 1]])
def test_relevant_features(columns):
    X, y = training_rows()
    model = RelevantFeatures(Ridge(), Ridge(), SQUARED, random_state=0).fit(X, y)
    model.columns_ = np.array(columns)
    model.regressor_ = Ridge().fit(X[:, columns], y)
    assert_same_prediction(model, new_rows(X))


def test_precision_weighted():
    X, y = training_rows()
    model = PrecisionWeighted(ExtraTreesRegressor(5, random_state=0), random_state=0).fit(X, y)
    assert_same_prediction(model, new_rows(X))
