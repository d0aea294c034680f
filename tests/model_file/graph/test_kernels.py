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

from graph_runs import assert_same_prediction, new_rows, training_rows
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


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
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


@pytest.mark.parametrize(("kernel", "message"), [(Matern(nu=0.7), "nu=0.7"), (ExpSineSquared(), "ExpSineSquared")])
def test_unknown_kernels_are_refused(kernel, message):
    X, y = training_rows()
    model = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e3).fit(X, y)
    with pytest.raises(ConversionError, match=message):
        convert(model, GraphBuilder().input("x", "double", (-1, 5)))
