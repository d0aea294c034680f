"""Converted kernel methods predict as scikit-learn does."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR, NuSVR

from graph_runs import assert_same_prediction, new_rows, training_rows
from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert


def test_gaussian_process():
    X, y = training_rows()
    assert_same_prediction(GaussianProcess(random_state=0).fit(X, y), new_rows(X))
    assert_same_prediction(GaussianProcess(parts=2, random_state=0).fit(X, y), new_rows(X))
    assert_same_prediction(GaussianProcess(exact_rows=10, centres=20, random_state=0).fit(X, y), new_rows(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("kind", [SVR, NuSVR])
def test_support_vectors(kernel, kind):
    X, y = training_rows()
    X = X / X.std(axis=0)
    assert_same_prediction(kind(kernel=kernel, coef0=0.3).fit(X, y), new_rows(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid", "laplacian"])
@pytest.mark.parametrize("gamma", [None, 0.1])
def test_kernel_ridge(kernel, gamma):
    X, y = training_rows()
    X = X / X.std(axis=0)
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
