"""Converted kernel methods predict as scikit-learn does."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR, NuSVR

from graph_runs import assert_same_prediction, name_of, new_rows, training_rows
from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert

LENGTHS = [1.0, 2.0, 3.0, 0.9, 1.5]
KERNELS = [
    RBF(5.0),
    RBF(LENGTHS),
    *[Matern(LENGTHS, nu=nu) for nu in (0.5, 1.5, 2.5, np.inf)],
    ConstantKernel(2.0) * Matern(LENGTHS, nu=2.5) + WhiteKernel(0.1),
    Matern(LENGTHS, nu=2.5) * ConstantKernel(2.0) + ConstantKernel(0.5),
    RationalQuadratic(5.0, 0.7),
    RBF(LENGTHS) + 1e-4 * DotProduct(2.0),
    RBF(LENGTHS) * RationalQuadratic(50.0),
    RBF(LENGTHS) * (Matern(LENGTHS, nu=2.5) + ConstantKernel(0.1) + WhiteKernel(0.2)),
    RBF(LENGTHS) * DotProduct(1.0) + RBF(3.0) ** 2,
    (DotProduct(1.0) + RBF(3.0)) ** 2,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_gaussian_process_regressor(kernel, n_outputs, normalize_y):
    X, y = training_rows(n_outputs, n_rows=150)
    X = X / X.std(axis=0)
    model = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=normalize_y).fit(X, y)
    assert_same_prediction(model, new_rows(X))


def test_gaussian_process():
    X, y = training_rows()
    assert_same_prediction(GaussianProcess(random_state=0).fit(X, y), new_rows(X))
    assert_same_prediction(GaussianProcess(parts=2, random_state=0).fit(X, y), new_rows(X))
    assert_same_prediction(GaussianProcess(exact_rows=10, centres=20, random_state=0).fit(X, y), new_rows(X))


class Narrow(RBF):
    pass


@pytest.mark.parametrize(
    ("kernel", "message"),
    [(Matern(nu=0.7), "nu=0.7"), (ExpSineSquared(), "ExpSineSquared"), (2.0 * Narrow() + WhiteKernel(), "Narrow")],
)
def test_unknown_kernels_are_refused(kernel, message):
    X, y = training_rows()
    model = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e3).fit(X, y)
    with pytest.raises(ConversionError, match=message):
        convert(model, GraphBuilder().input("x", "double", (-1, 5)))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("kind", [SVR, NuSVR])
def test_support_vectors(kernel, kind):
    X, y = training_rows()
    X = X / X.std(axis=0)
    assert_same_prediction(kind(kernel=kernel, coef0=0.3).fit(X, y), new_rows(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid", "laplacian"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_kernel_ridge(kernel, n_outputs):
    X, y = training_rows(n_outputs)
    X = X / X.std(axis=0)
    gamma = None if n_outputs == 1 else 0.1
    assert_same_prediction(KernelRidge(alpha=10.0, kernel=kernel, gamma=gamma, coef0=0.1).fit(X, y), new_rows(X))


def test_no_support_vectors():
    X, y = training_rows()
    assert_same_prediction(SVR(epsilon=1e6).fit(X, y), new_rows(X))


@pytest.mark.parametrize(
    "model", [SVR(kernel=lambda a, b: a @ b.T), KernelRidge(kernel="chi2", gamma=0.1)], ids=["SVR", "chi2"]
)
def test_other_kernels_are_refused(model):
    X, y = training_rows()
    with pytest.raises(ConversionError, match=r"kernel="):
        convert(model.fit(np.abs(X), y), GraphBuilder().input("x", "double", (-1, 5)))
