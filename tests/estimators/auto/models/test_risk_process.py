"""RiskProcess: relative accuracy, inputs without effect, weights, and bounded predictions."""

import numpy as np
import pytest

from recuse.estimators.auto.models.risk_process import RiskProcess


def rows(count, seed=0, inputs=6):
    """The variance depends on the first two inputs only."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (count, inputs))
    variance = np.exp(2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1])
    return X, variance * random.standard_normal(count) ** 2, variance


def test_small_risks_are_learned_as_well_as_large_ones():
    X, error, _ = rows(3000)
    X_new, _, variance = rows(1000, seed=1)
    ratio = RiskProcess(random_state=0).fit(X, error).predict(X_new) / variance
    for part in (variance < np.quantile(variance, 0.2), variance > np.quantile(variance, 0.8)):
        assert np.median(ratio[part]) == pytest.approx(1, abs=0.2)


def test_inputs_without_effect_get_long_lengths():
    X, error, _ = rows(3000)
    lengths = RiskProcess(random_state=0).fit(X, error).sums_[0].lengths
    assert lengths[:2].max() < lengths[2:].min()


def test_the_unit_of_the_loss_does_not_matter():
    X, error, _ = rows(400)
    said, scaled = (RiskProcess(random_state=0).fit(X, unit * error).predict(X) for unit in (1.0, 1e8))
    np.testing.assert_allclose(scaled, 1e8 * said, rtol=1e-5)


def test_an_unusual_row_gets_no_risk_beyond_those_of_the_others():
    X, error, _ = rows(500)
    model = RiskProcess(random_state=0).fit(X, error)
    assert model.predict(np.full((1, 6), 1e6)) <= model.predict(X).max()


@pytest.mark.parametrize("zero", [slice(None, None, 2), slice(None)])
def test_losses_of_zero_do_no_harm(zero):
    X, error, _ = rows(300)
    error[zero] = 0.0
    said = RiskProcess(random_state=0).fit(X, error).predict(X)
    assert np.isfinite(said).all()
    assert (said >= 0).all()


def test_weights_count():
    X, error, _ = rows(400)
    high = error > np.median(error)
    light, heavy = (
        RiskProcess(random_state=0).fit(X, error, sample_weight=np.where(high, weight, 1.0)) for weight in (0.1, 10.0)
    )
    assert light.predict(X).mean() < 0.7 * heavy.predict(X).mean()


def test_a_few_huge_losses_do_not_decide_the_others():
    X, error, variance = rows(2000)
    outliers = error.copy()
    outliers[:5] = 1e4 * variance.max()
    said = RiskProcess(random_state=0).fit(X, outliers).predict(X[5:])
    correlation = np.corrcoef(np.log(said), np.log(variance[5:]))[0, 1]
    assert correlation > 0.8
