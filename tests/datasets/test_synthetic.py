"""Synthetic rows have the stated mean and variance."""

import numpy as np
import pytest

from recuse.datasets import make_heteroscedastic
from recuse.datasets.synthetic import _mean, _variance


@pytest.fixture(scope="module")
def rows():
    return make_heteroscedastic(200_000, random_state=0)


def test_shapes_and_types():
    X, y, mean, variance = make_heteroscedastic(7, n_features=6, random_state=0)
    assert X.shape == (7, 6)
    assert y.shape == mean.shape == variance.shape == (7,)
    assert all(array.dtype == np.float64 for array in (X, y, mean, variance))


def test_mean_and_variance_are_functions_of_the_features(rows):
    X, _, mean, variance = rows
    np.testing.assert_array_equal(mean, _mean(X))
    np.testing.assert_array_equal(variance, _variance(X))


@pytest.mark.parametrize("by", ["mean", "variance", "x1", "x5", "x8"])
def test_residuals_have_the_stated_moments_in_every_bin(rows, by):
    X, y, mean, variance = rows
    key = {"mean": mean, "variance": variance, "x1": X[:, 0], "x5": X[:, 4], "x8": X[:, 7]}[by]
    for members in np.array_split(np.argsort(key), 20):  # 10,000 rows: the moments err by 1 % and 1.4 %
        standard = (y - mean)[members] / np.sqrt(variance[members])
        assert abs(standard.mean()) < 0.05
        assert abs(standard.var() - 1.0) < 0.07
        assert (y - mean)[members].var() == pytest.approx(variance[members].mean(), rel=0.12)


def test_variance_spans_two_orders_of_magnitude_evenly(rows):
    variance = rows[3]
    assert variance.min() > 0.045
    assert variance.max() < 5.52
    assert np.quantile(variance, 0.99) > 100 * np.quantile(variance, 0.01)
    counts, _ = np.histogram(np.log(variance), bins=10)
    assert counts.min() > 0.05 * len(variance)
    assert counts.max() < 0.25 * len(variance)


def test_mean_is_worth_learning(rows):
    _, _, mean, variance = rows
    assert 1.5 < mean.std() < 2.5
    assert mean.var() > 2 * variance.mean()


@pytest.mark.parametrize("function", [_mean, _variance])
def test_exactly_five_features_matter_and_none_linearly(function):
    X = make_heteroscedastic(2000, random_state=1)[0]
    step = 0.1
    for feature in range(X.shape[1]):
        shift = step * np.eye(X.shape[1])[feature]
        slope = (function(X + shift) - function(X - shift)) / (2 * step)
        curvature = (function(X + shift) - 2 * function(X) + function(X - shift)) / step**2
        if feature < 5:
            assert np.abs(slope).mean() > 0.2
            assert np.abs(curvature).mean() > 0.1
        else:
            np.testing.assert_array_equal(slope, 0.0)


def test_features_are_uniform_and_uncorrelated(rows):
    X = rows[0]
    assert X.min() >= -1.0
    assert X.max() <= 1.0
    np.testing.assert_allclose(np.cov(X.T), np.eye(8) / 3, atol=0.01)


@pytest.mark.parametrize("make_state", [lambda: 5, lambda: np.random.RandomState(5), lambda: np.random.default_rng(5)])
def test_same_state_same_rows(make_state):
    first, again = (make_heteroscedastic(50, random_state=make_state()) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_seed_other_rows_but_the_same_function():
    X, y, _, _ = make_heteroscedastic(50, random_state=0)
    X_other, y_other, mean, _ = make_heteroscedastic(50, random_state=1)
    assert not np.array_equal(X, X_other)
    assert not np.array_equal(y, y_other)
    np.testing.assert_array_equal(mean, _mean(X_other))


def test_no_seed_draws_anew():
    assert not np.array_equal(make_heteroscedastic(5)[1], make_heteroscedastic(5)[1])


@pytest.mark.parametrize("n_features", [4, 0, -1, 5.0])
def test_too_few_features(n_features):
    with pytest.raises(ValueError, match=f"n_features must be an integer >= 5, got {n_features}"):
        make_heteroscedastic(10, n_features=n_features)


@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "10"])
def test_bad_number_of_rows(n_samples):
    with pytest.raises(ValueError, match=f"n_samples must be an integer >= 1, got {n_samples!r}"):
        make_heteroscedastic(n_samples)
