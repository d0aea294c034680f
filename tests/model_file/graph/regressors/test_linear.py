"""Converted linear models, dummies and networks predict as scikit-learn does."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.cross_decomposition import PLSRegression
from sklearn.dummy import DummyRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import LinearSVR

from graph_runs import assert_same_prediction, name_of, new_rows, training_rows

MODELS = [
    linear_model.LinearRegression(),
    linear_model.LinearRegression(fit_intercept=False),
    linear_model.Ridge(),
    linear_model.RidgeCV(),
    linear_model.Lasso(0.01),
    linear_model.ElasticNet(0.01),
    linear_model.Lars(),
    linear_model.LassoLars(0.01),
    linear_model.OrthogonalMatchingPursuit(n_nonzero_coefs=2),
    linear_model.RANSACRegressor(random_state=0),
    PLSRegression(2),
    DummyRegressor(),
    DummyRegressor(strategy="quantile", quantile=0.8),
    *[
        MLPRegressor(hidden_layer_sizes=(8, 4), activation=act, max_iter=300, tol=1e9)
        for act in ("identity", "relu", "tanh", "logistic")
    ],
    linear_model.ARDRegression(),
    linear_model.BayesianRidge(),
    linear_model.ElasticNetCV(cv=3),
    linear_model.HuberRegressor(max_iter=1000),
    linear_model.LarsCV(cv=3),
    linear_model.LassoCV(cv=3),
    linear_model.LassoLarsCV(cv=3),
    linear_model.LassoLarsIC(),
    linear_model.OrthogonalMatchingPursuitCV(cv=3),
    linear_model.QuantileRegressor(alpha=0.01),
    linear_model.SGDRegressor(random_state=0),
    linear_model.TheilSenRegressor(random_state=0, max_subpopulation=100),
    LinearSVR(random_state=0, max_iter=100_000),
    linear_model.TweedieRegressor(power=0),
]
POSITIVE = [
    linear_model.PoissonRegressor(),
    linear_model.GammaRegressor(),
    linear_model.TweedieRegressor(power=1.5),
    linear_model.TweedieRegressor(power=0, link="log"),
    MLPRegressor(hidden_layer_sizes=(4,), loss="poisson", max_iter=300, tol=1e9),
]


def standard_rows():
    X, y = training_rows()
    return X / X.std(axis=0), y


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_linear_models_and_networks(model):
    X, y = standard_rows()
    assert_same_prediction(model.fit(X, y), new_rows(X))


@pytest.mark.parametrize("model", POSITIVE, ids=name_of)
def test_positive_targets(model):
    X, y = standard_rows()
    assert_same_prediction(model.fit(X, np.exp(y / 4)), new_rows(X))


def test_a_constant_does_not_depend_on_the_row():
    X, y = standard_rows()
    model = DummyRegressor().fit(X, y)
    new = np.full((3, 5), [[np.nan], [np.inf], [-np.inf]])
    assert_same_prediction(model, new)
