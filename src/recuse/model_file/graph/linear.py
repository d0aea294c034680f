"""Converters of linear models, dummy regressors and scikit-learn's networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import linear_model
from sklearn.cross_decomposition import PLSRegression
from sklearn.dummy import DummyRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import LinearSVR

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value
from recuse.model_file.graph.conversion import converts
from recuse.model_file.graph.operators import DOUBLE

_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "exp": "Exp"}


def affine(x: Value, coefficients: ArrayLike, intercept: ArrayLike) -> Value:
    """Return x @ coefficients^T + intercept, where coefficients are (output, feature) or (feature,)."""
    matrix = np.atleast_2d(np.asarray(coefficients, np.float64))
    return x @ matrix.T + np.broadcast_to(np.asarray(intercept, np.float64).reshape(-1), len(matrix))


def constant_rows(x: Value, values: ArrayLike) -> Value:
    """Return the same values (value,) for every row of x, whatever x holds."""
    return x.columns(0, 1).unary("IsNaN").cast(DOUBLE) * 0.0 + np.asarray(values, np.float64).reshape(-1)


@converts(
    linear_model.ARDRegression,
    linear_model.BayesianRidge,
    linear_model.ElasticNet,
    linear_model.ElasticNetCV,
    linear_model.HuberRegressor,
    linear_model.Lars,
    linear_model.LarsCV,
    linear_model.Lasso,
    linear_model.LassoCV,
    linear_model.LassoLars,
    linear_model.LassoLarsCV,
    linear_model.LassoLarsIC,
    linear_model.LinearRegression,
    linear_model.OrthogonalMatchingPursuit,
    linear_model.OrthogonalMatchingPursuitCV,
    linear_model.QuantileRegressor,
    linear_model.Ridge,
    linear_model.RidgeCV,
    linear_model.SGDRegressor,
    linear_model.TheilSenRegressor,
    LinearSVR,
)
def _linear(model: Any, x: Value) -> Value:
    return affine(x, model.coef_, model.intercept_)


@converts(linear_model.PoissonRegressor, linear_model.GammaRegressor)
def _log_linear(model: Any, x: Value) -> Value:
    return affine(x, model.coef_, model.intercept_).unary("Exp")


@converts(linear_model.TweedieRegressor)
def _tweedie(model: Any, x: Value) -> Value:
    identity = model.link == "identity" or (model.link == "auto" and model.power <= 0)
    return _linear(model, x) if identity else _log_linear(model, x)


@converts(PLSRegression)
def _partial_least_squares(model: Any, x: Value) -> Value:
    return affine(x - model._x_mean, model.coef_, model.intercept_)


@converts(DummyRegressor)
def _dummy(model: Any, x: Value) -> Value:
    return constant_rows(x, model.constant_)


@converts(MLPRegressor)
def _network(model: Any, x: Value) -> Value:
    last = len(model.coefs_) - 1
    for place, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        x = _activated(x @ weight + bias, model.out_activation_ if place == last else model.activation)
    return x


def _activated(x: Value, name: str) -> Value:
    if name == "identity":
        return x
    if name not in _ACTIVATIONS:
        raise ConversionError(f"MLPRegressor(activation={name!r}) cannot be saved in a model file: use 'relu'")
    return x.unary(_ACTIVATIONS[name])
