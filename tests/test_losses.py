"""Target losses: what each one is, its slope, its units, and what of the theory holds for all of them."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import huber
from sklearn.metrics import mean_pinball_loss

from recuse import losses, theory
from recuse.losses import Absolute, Huber, Pinball, Squared, TargetLoss

LOSSES = [Squared(), Absolute(), Huber(0.7), Huber(3.0), Pinball(0.1), Pinball(0.9)]
SURROGATES = ["mae", "hinge", "square", "logistic", "sigmoid"]
few = settings(deadline=None, max_examples=50)
residuals = st.lists(st.floats(-50, 50), min_size=1, max_size=20).map(np.array)


@given(residuals)
@few
def test_each_loss_equals_the_definition_of_its_name(e):
    np.testing.assert_allclose(Squared()(e), e**2)
    np.testing.assert_allclose(Absolute()(e), np.abs(e))
    np.testing.assert_allclose(Huber(1.5)(e), huber(1.5, e), atol=1e-12)
    np.testing.assert_allclose(Pinball(0.8)(e), [mean_pinball_loss([0.0], [v], alpha=0.8) for v in e], atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_precision_is_kept(loss):
    e = np.linspace(-2, 2, 9, dtype=np.float32)
    assert loss(e).dtype == loss.slope(e).dtype == loss.slope(e, np.ones(9, np.float32)).dtype == np.float32


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(e=residuals)
@few
def test_the_slope_is_that_of_the_loss_and_the_weight_multiplies_it(loss, e):
    close = 1e-6 * (1 + np.abs(e))
    differences = (loss(e + close) - loss(e - close)) / (2 * close)
    smooth = np.abs(e) > 2e-6  # at the kink any slope between the two will do
    np.testing.assert_allclose(loss.slope(e)[smooth], differences[smooth], rtol=1e-5, atol=1e-5)
    weight = np.linspace(0, 2, len(e))
    np.testing.assert_allclose(loss.slope(e, weight), loss.slope(e) * weight, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_at_the_kink_the_slope_lies_between_those_on_both_sides(loss):
    before, at, after = loss.slope(np.array([-1e-12, 0.0, 1e-12]))
    assert before <= at <= after


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(e=residuals, scale=st.floats(1e-3, 1e3))
@few
def test_scaling_the_target_scales_the_loss_by_its_unit(loss, e, scale):
    np.testing.assert_allclose(loss(scale * e), loss.unit(scale) * loss.scaled(scale)(e), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(e=residuals)
@few
def test_a_loss_is_never_negative_and_zero_only_at_zero(loss, e):
    assert (loss(e) >= 0).all()
    assert (loss(e)[np.abs(e) > 1e-6] > 0).all()
    assert loss(np.zeros(1)) == 0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_infinite_and_undefined_residuals_do_not_hide(loss):
    with np.errstate(invalid="ignore"):
        value = loss(np.array([np.inf, -np.inf, np.nan]))
    assert np.isposinf(value[:2]).all()
    assert np.isnan(value[2])


# ---- by name


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_loss_is_found_again_by_its_own_name_and_survives_a_pickle(loss):
    assert losses.get(loss.name) == loss
    assert losses.get(loss) is loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert eval(repr(loss)) == loss


def test_losses_with_other_numbers_differ():
    assert losses.get("huber") == Huber(1.0) != Huber(2.0)
    assert losses.get("pinball") == Pinball(0.5) != losses.get("pinball:0.6")
    assert len({*LOSSES, Squared(), Huber(0.7)}) == len(LOSSES)


def test_all_names_are_known():
    assert [losses.get(name).name.partition(":")[0] for name in losses.names()] == list(losses.names())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: losses.get("square"), ValueError, r"^loss must be one of squared, .*pinball, got 'square'$"),
        (lambda: losses.get("squared:2"), ValueError, r"^the squared loss takes no number, got 'squared:2'$"),
        (lambda: losses.get("pinball:high"), ValueError, r"number after the colon.*, got 'pinball:high'$"),
        (lambda: losses.get("huber:"), ValueError, r"number after the colon.*, got 'huber:'$"),
        (lambda: losses.get(0.9), TypeError, r"^loss must be a name or a TargetLoss, got 0\.9$"),
        (lambda: losses.get(Squared), TypeError, r"^loss must be a name or a TargetLoss"),
        (lambda: losses.get("pinball:1"), ValueError, r"^quantile of the pinball loss .* 0 and 1, got 1\.0$"),
        (lambda: Pinball(0), ValueError, r"^quantile of the pinball loss must be between 0 and 1, got 0$"),
        (lambda: Pinball(np.nan), ValueError, r"between 0 and 1, got nan$"),
        (lambda: Pinball("0.5"), ValueError, r"between 0 and 1, got '0\.5'$"),
        (lambda: Huber(0.0), ValueError, r"^delta of Huber's loss must be a finite number > 0, got 0\.0$"),
        (lambda: Huber(-1), ValueError, r"finite number > 0, got -1$"),
        (lambda: Huber(np.inf), ValueError, r"finite number > 0, got inf$"),
    ],
)
def test_what_is_no_loss_is_refused_with_the_rule_and_the_value(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_loss_of_ones_own_needs_five_short_methods():
    @dataclass(frozen=True)
    class LogCosh(TargetLoss):
        width: float = 1.0
        name = "log-cosh"

        def __call__(self, residual):
            return np.log(np.cosh(residual / self.width))

        def slope(self, residual, weight=1.0):
            return np.tanh(residual / self.width) / self.width * weight

        def scaled(self, scale):
            return LogCosh(self.width / scale)

        def unit(self, scale):
            return 1.0

    loss = LogCosh(2.0)
    assert losses.get(loss) is loss
    assert loss(np.ones(3)).shape == (3,)


# ---- what of the theory holds for any loss


@st.composite
def discrete(draw):
    """A conditional distribution of y on a few values, as (values, probabilities)."""
    values = draw(st.lists(st.integers(-20, 20), min_size=1, max_size=6, unique=True))
    weights = np.array(draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values))), dtype=float)
    return np.array(values, dtype=float), weights / weights.sum()


def expected_loss(loss, prediction, distribution):
    values, probability = distribution
    return float(loss(prediction - values) @ probability)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("surrogate", SURROGATES)
@given(distribution=discrete(), prediction=st.floats(-25, 25), cost=st.floats(0.01, 60))
@settings(deadline=None, max_examples=15)
def test_the_best_score_accepts_iff_the_expected_loss_is_below_the_cost(
    loss, surrogate, distribution, prediction, cost
):
    risk = expected_loss(loss, prediction, distribution)
    if abs(risk - cost) < 0.02 * max(risk, cost):
        return  # equal risk and cost allow either decision
    sizes = np.geomspace(1e-3, 10, 200)  # the best score is near zero where risk and cost are nearly equal
    accept, reject = (theory.surrogate_risk(risk, cost, sign * sizes, surrogate).min() for sign in (1, -1))
    assert (accept < reject) == (risk < cost)


@given(distribution=discrete(), quantile=st.floats(0.05, 0.95), elsewhere=st.floats(-30, 30))
@few
def test_the_best_prediction_is_the_mean_the_median_or_the_quantile(distribution, quantile, elsewhere):
    values, probability = distribution
    order = values.argsort()
    reached = probability[order].cumsum()

    def at(level):  # the smallest value that is reached with so much probability
        return values[order][np.searchsorted(reached, level - 1e-12)]

    best = {Squared(): values @ probability, Absolute(): at(0.5), Pinball(quantile): at(quantile)}
    for loss, prediction in best.items():
        assert expected_loss(loss, prediction, distribution) <= expected_loss(loss, elsewhere, distribution) + 1e-9


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(distribution=discrete(), cost=st.floats(0.01, 60), score=st.floats(-3, 3))
@settings(deadline=None, max_examples=15)
def test_with_a_positive_surrogate_the_best_prediction_does_not_depend_on_the_score(loss, distribution, cost, score):
    candidates = np.linspace(-22, 22, 89)
    risks = np.array([expected_loss(loss, prediction, distribution) for prediction in candidates])
    whole = theory.surrogate_risk(risks, cost, score, "logistic")
    assert whole[risks.argmin()] == pytest.approx(whole.min())
