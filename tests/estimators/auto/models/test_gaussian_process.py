"""The Gaussian process of AutoRejector."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RationalQuadratic
from sklearn.linear_model import Ridge

from recuse.estimators.auto.models import gaussian_process, process_kernel
from recuse.estimators.auto.models.expanded_features import ExpandedFeatures
from recuse.estimators.auto.models.gaussian_process import GaussianProcess, robust_weights, with_scales_of
from recuse.estimators.auto.models.process_kernel import Scales


def draw(rows, noise=0.1, seed=0):
    random = np.random.RandomState(seed)
    X = random.uniform(-2, 2, size=(rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + noise * random.normal(size=rows)


@pytest.fixture
def known_scales(monkeypatch):
    """Scales that are not learned."""
    lengths, ratio = np.array([0.7, 1.4]), 0.05
    scales = Scales(lengths[None], np.ones(1), ratio)
    monkeypatch.setattr(gaussian_process, "learned_scales", lambda *settings: scales)
    return lengths, ratio


def test_same_as_scikit_learn_with_the_same_scales(known_scales):
    lengths, ratio = known_scales
    (X, y), (X_new, _) = draw(60), draw(20, seed=1)
    rival = GaussianProcessRegressor(RationalQuadratic(1.0, 1.0), alpha=ratio, optimizer=None).fit(X / lengths, y)
    np.testing.assert_allclose(GaussianProcess().fit(X, y).predict(X_new), rival.predict(X_new / lengths), atol=1e-8)


def test_projection_on_all_rows_is_the_exact_process(known_scales):
    (X, y), (X_new, _) = draw(60), draw(20, seed=1)
    weight = np.random.RandomState(2).uniform(0.5, 2.0, size=60)
    exact = GaussianProcess().fit(X, y, weight)
    projected = GaussianProcess(exact_rows=59, centres=60, random_state=0).fit(X, y, weight)
    np.testing.assert_allclose(projected.predict(X_new), exact.predict(X_new), atol=1e-4)


@pytest.mark.parametrize("exact_rows", [1000, 10])
def test_a_weight_of_two_equals_two_copies(known_scales, exact_rows):
    (X, y), (X_new, _) = draw(60), draw(20, seed=1)
    settings = {"exact_rows": exact_rows, "centres": 120, "random_state": 0}
    weighted = GaussianProcess(**settings).fit(X, y, np.full(60, 2.0))
    copied = GaussianProcess(**settings).fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(weighted.predict(X_new), copied.predict(X_new), atol=1e-4)


def test_projection_uses_all_rows():
    (X, y), (X_new, clean) = draw(3000, noise=1.0), draw(500, noise=0.0, seed=1)
    few = GaussianProcess(scale_rows=200, random_state=0).fit(X[:400], y[:400])
    all_rows = GaussianProcess(scale_rows=200, exact_rows=400, centres=400, random_state=0).fit(X, y)
    errors = [np.mean((model.predict(X_new) - clean) ** 2) for model in (few, all_rows)]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("rows", [40, 250])  # one block of rows, and several of which the last is smaller
@pytest.mark.parametrize("scales", [[0.8, 1.5, 1.2, 0.1], [0.8, 1.5, 0.3, 2.5, 1.2, 0.4, 0.1]])
def test_gradient_of_the_likelihood(scales, rows):
    X, y = draw(rows)
    weight, at = np.random.RandomState(1).uniform(0.5, 2.0, size=rows), np.log(scales)
    likelihood = process_kernel._Likelihood(X, y, weight, parts=len(scales) // 3)
    numeric = approx_fprime(at, lambda each: likelihood(each)[0], 1e-6)
    np.testing.assert_allclose(likelihood(at)[1], numeric, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [40, 250])
def test_likelihood_is_that_of_a_normal_distribution(rows):
    X, y = draw(rows)
    weight, scales = np.random.RandomState(1).uniform(0.5, 2.0, size=rows), Scales(np.ones((1, 2)), np.ones(1), 0.1)
    covariance = scales.kernel(X, X) + np.diag(0.1 / weight + process_kernel.JITTER)
    known = multivariate_normal(cov=covariance).logpdf(y) + rows / 2 * np.log(2 * np.pi)
    value, _ = process_kernel._Likelihood(X, y, weight, parts=1)(np.log([1.0, 1.0, 1.0, 0.1]))
    np.testing.assert_allclose(value, -known)


def test_a_covariance_that_cannot_be_factorised_has_no_likelihood():
    X, y = np.zeros((3, 1)), np.arange(3.0)
    value, gradient = process_kernel._Likelihood(X, y, np.full(3, -1.0), parts=1)(np.zeros(3))
    assert value == np.inf
    assert not gradient.any()


def test_a_process_that_starts_from_scales_of_most_rows_is_as_good_as_one_that_learns_them():
    (X, y), (X_new, clean) = draw(700), draw(500, noise=0.0, seed=1)
    fitted = ExpandedFeatures(GaussianProcess(2, shrinkage=0.1, random_state=0)).fit(X[:560], y[:560])
    own = ExpandedFeatures(GaussianProcess(2, shrinkage=0.1, random_state=0))
    started = with_scales_of(fitted, own)
    assert started.regressor.start == fitted.regressor_.scales_
    assert own.regressor.start is None
    errors = [np.mean((model.fit(X, y).predict(X_new) - clean) ** 2) for model in (own, started)]
    assert errors[1] < 1.1 * errors[0]


def test_scales_of_other_features_are_ignored():
    X, y = draw(60)
    other = Scales(np.ones((1, 5)), np.ones(1), 0.1)
    started, plain = (GaussianProcess(start=start, random_state=0).fit(X, y) for start in (other, None))
    np.testing.assert_array_equal(started.predict(X), plain.predict(X))


def test_no_scales_are_taken_from_other_models():
    ridge = Ridge().fit(*draw(20))
    process = GaussianProcess()
    assert with_scales_of(ridge, process) is process
    assert with_scales_of(ridge, ridge) is ridge


def test_no_rows_to_predict():
    assert GaussianProcess().fit(*draw(20)).predict(np.empty((0, 2))).shape == (0,)


def test_two_parts_learn_a_trend_with_details():
    def function(X):
        return X[:, 0] + 0.3 * np.sin(12 * X[:, 1])

    random = np.random.RandomState(0)
    X, X_new = (random.uniform(-2, 2, size=(400, 2)) for _ in range(2))
    y = function(X) + 0.05 * random.normal(size=400)
    one, two = (GaussianProcess(parts, random_state=0).fit(X, y).predict(X_new) for parts in (1, 2))
    assert np.mean((two - function(X_new)) ** 2) < 0.8 * np.mean((one - function(X_new)) ** 2)


def test_robust_weights_are_those_of_leave_one_out_errors():
    (X, y), scales = draw(12), Scales(np.array([[0.7, 1.4]]), np.array([2.0]), 0.1)
    weight = np.random.RandomState(1).uniform(0.5, 2.0, size=12)
    covariance = 2.0 * scales.kernel(X, X) + np.diag(0.1 / weight)
    expected = np.empty(12)
    for row in range(12):
        others = np.arange(12) != row
        solved = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, row])
        variance = covariance[row, row] - covariance[row, others] @ solved
        expected[row] = 5 / (4 + (y[row] - solved @ y[others]) ** 2 / variance)
    np.testing.assert_allclose(robust_weights(scales, X, y, weight), expected / expected.mean(), rtol=1e-6)


def test_a_robust_process_is_nearer_to_the_function_where_the_noise_has_heavy_tails():
    (X, clean), (X_new, function) = draw(200, noise=0.0), draw(200, noise=0.0, seed=1)
    y = clean + 0.3 * np.random.RandomState(2).standard_t(2, size=200)
    plain, robust = (
        GaussianProcess(robust=robust, random_state=0).fit(X, y).predict(X_new) for robust in (False, True)
    )
    assert np.mean((robust - function) ** 2) < 0.9 * np.mean((plain - function) ** 2)


def test_shrinkage_makes_lengths_more_equal():
    X, y = draw(100)
    spreads = [
        np.ptp(np.log(GaussianProcess(shrinkage=shrinkage, random_state=0).fit(X, y).scales_.lengths))
        for shrinkage in (0.0, 10.0, 1e6)
    ]
    assert spreads[0] > spreads[1] > spreads[2]
    assert spreads[2] < 1e-3


def test_shrinkage_does_not_set_the_common_length():
    random = np.random.RandomState(0)
    X = random.uniform(-2, 2, size=(200, 2))
    y = np.sin(X).sum(axis=1) + 0.05 * random.normal(size=200)
    short, long = (
        GaussianProcess(shrinkage=1e4, random_state=0).fit(factor * X, y).scales_.lengths.mean() for factor in (1, 10)
    )
    assert long > 5 * short
