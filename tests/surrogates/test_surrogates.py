"""Promises of the binary losses: values, slopes, stability, the registry, and reports."""

import functools
import math
import pickle

import numpy as np
import pytest

from recuse import surrogates
from recuse.surrogates import RegretTransfer, Surrogate, SurrogateReport
from recuse.surrogates import losses as registry

FIVE = ("mae", "hinge", "square", "logistic", "sigmoid")
SCORES = np.array([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 4.0])

DEFINITIONS = {
    "mae": (lambda r: abs(r + 1), lambda r: abs(r - 1)),
    "hinge": (lambda r: max(0, 1 + r), lambda r: max(0, 1 - r)),
    "square": (lambda r: (r + 1) ** 2, lambda r: (r - 1) ** 2),
    "logistic": (lambda r: math.log(1 + math.exp(r)), lambda r: math.log(1 + math.exp(-r))),
    "sigmoid": (lambda r: 1 / (1 + math.exp(-r)), lambda r: 1 / (1 + math.exp(r))),
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", {name: registry._REGISTRY[name] for name in FIVE})


# --- values and slopes ----------------------------------------------------------------------------


def relu(values):
    return np.maximum(values, 0)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


@pytest.mark.parametrize("name", FIVE)
def test_values_follow_the_definition(name):
    for loss, definition in zip(surrogates.get(name)(SCORES), DEFINITIONS[name], strict=True):
        np.testing.assert_allclose(loss, [definition(r) for r in SCORES.tolist()])


@pytest.mark.parametrize("name", FIVE)
def test_slopes_are_those_of_differences_and_at_a_kink_between_those_on_both_sides(name):
    surrogate = surrogates.get(name)
    smooth = np.linspace(-30.05, 30.05, 602)
    for slopes, expected in zip(surrogate.derivative(smooth), surrogate.differences(smooth), strict=True):
        np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-9)
    kinks, close = np.array([-1.0, 1.0]), 1e-6
    sides = [surrogate.derivative(kinks + step) for step in (-close, close)]
    for slope, below, above in zip(surrogate.derivative(kinks), *sides, strict=True):
        assert (np.minimum(below, above) - 1e-5 <= slope).all()
        assert (slope <= np.maximum(below, above) + 1e-5).all()


@pytest.mark.parametrize("name", FIVE)
def test_label_swap_mirrors_the_score(name):
    accepted, rejected = surrogates.get(name)(SCORES)
    mirrored_accepted, mirrored_rejected = surrogates.get(name)(-SCORES)
    np.testing.assert_array_equal(accepted, mirrored_rejected)
    np.testing.assert_array_equal(rejected, mirrored_accepted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FIVE)
def test_no_overflow_at_huge_scores(name, dtype):
    surrogate = surrogates.get(name)
    scores = np.array([-1e4, -88.8, -40.0, 0.0, 40.0, 88.8, 1e4], dtype)
    assert np.isfinite([*surrogate(scores), *surrogate.derivative(scores)]).all()


def test_logistic_keeps_its_tail():
    accepted, rejected = surrogates.get("logistic")(np.array([-30.0, 30.0], np.float32))
    np.testing.assert_allclose([accepted[0], rejected[1]], math.exp(-30), rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 1, 4)])
@pytest.mark.parametrize("name", FIVE)
def test_shape_and_dtype_are_kept(name, shape):
    surrogate = surrogates.get(name)
    scores = np.zeros(shape, np.float32)
    for values in (*surrogate(scores), *surrogate.derivative(scores), *surrogate.differences(scores)):
        assert values.shape == shape
        assert values.dtype == np.float32


def test_numbers_and_lists_are_scores_too():
    assert surrogates.get("mae")(0.5) == (1.5, 0.5)
    assert [loss.tolist() for loss in surrogates.get("hinge")([0.5, 2.0])] == [[1.5, 3.0], [0.5, 0.0]]


def exponential(r):
    return np.exp(r), np.exp(-r)


def test_slopes_of_a_function_without_a_derivative():
    accepted, rejected = surrogates.get(exponential).derivative(np.array([[0.0, 1.0]], np.float32))
    np.testing.assert_allclose(accepted, [[1.0, math.e]], rtol=1e-6)
    np.testing.assert_allclose(rejected, [[-1.0, -1 / math.e]], rtol=1e-6)
    assert accepted.dtype == np.float32


# --- registry -------------------------------------------------------------------------------------


def test_the_five_come_first():
    assert surrogates.names() == FIVE


def test_get_returns_a_surrogate_as_it_is():
    surrogate = surrogates.get("mae")
    assert surrogates.get(surrogate) is surrogate


def test_get_wraps_a_function_under_its_name():
    assert surrogates.get(exponential).name == "exponential"
    assert surrogates.get(functools.partial(exponential)).name == "partial"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="one of mae, hinge, square, logistic, sigmoid, got 'mea'"):
        surrogates.get("mea")


def test_get_refuses_what_is_no_loss():
    with pytest.raises(TypeError, match="a name, a Surrogate or a callable, got 3"):
        surrogates.get(3)


def test_a_registered_loss_is_found():
    registered = surrogates.register("exponential", exponential, derivative=lambda r: (np.exp(r), -np.exp(-r)))
    assert surrogates.get("exponential") is registered
    assert surrogates.names() == (*FIVE, "exponential")


def test_a_name_is_replaced_only_on_demand():
    surrogates.register("mine", lambda r: (r, -r))
    with pytest.raises(ValueError, match="'mine' is already taken; pass overwrite=True"):
        surrogates.register("mine", exponential)
    replaced = surrogates.register("mine", exponential, overwrite=True)
    assert surrogates.get("mine") is replaced


@pytest.mark.parametrize("name", FIVE)
def test_the_names_of_the_five_are_fixed(name):
    with pytest.raises(ValueError, match=f"must not be that of one of the paper's losses .* got '{name}'"):
        surrogates.register(name, exponential, overwrite=True)


@pytest.mark.parametrize("name", ["", 3])
def test_register_needs_a_name(name):
    with pytest.raises(ValueError, match="name must be a non-empty string"):
        surrogates.register(name, exponential)


def test_register_needs_a_function():
    with pytest.raises(TypeError, match="function must be callable, got 'mae'"):
        surrogates.register("copy", "mae")


@pytest.mark.parametrize("name", FIVE)
def test_the_five_survive_pickling(name):
    surrogate = surrogates.get(name)
    assert pickle.loads(pickle.dumps(surrogate)) == surrogate


# --- check ----------------------------------------------------------------------------------------

INF = math.inf
TABLE = {  # strictly positive, bound, Lipschitz constant, transfer
    "mae": (False, INF, 1.0, RegretTransfer.IDENTITY),
    "hinge": (False, INF, 1.0, RegretTransfer.IDENTITY),
    "square": (False, INF, INF, RegretTransfer.ROOT),
    "logistic": (True, INF, 1.0, RegretTransfer.ROOT),
    "sigmoid": (True, 1.0, 0.25, RegretTransfer.DOUBLE),
}


@pytest.mark.parametrize("name", FIVE)
def test_report_on_the_five_agrees_with_the_table(name):
    positive, bound, lipschitz, transfer = TABLE[name]
    assert surrogates.check(name) == SurrogateReport(name, True, positive, True, bound, lipschitz, transfer)


@pytest.mark.parametrize("name", FIVE)
def test_theorems_of_the_five(name):
    report = surrogates.check(name)
    kinds = [words.split(":")[0] for words in report.theorems]
    if report.strictly_positive:
        assert kinds[:2] == ["regressor-consistency", "rejector-calibration"]
    else:
        assert kinds[0] == "consistency on correctly accepted instances only"
    assert "regret transfer" in kinds
    assert ("error bound" in kinds) == (name == "sigmoid")
    assert len(report.theorems) + len(report.not_covered) == (4 if report.strictly_positive else 5)


def pair(loss):
    """Make a loss symmetric: l(r, -1) = loss(-r), l(r, +1) = loss(r)."""
    return lambda r: (loss(-r), loss(r))


def test_margin_losses_known_to_be_calibrated():
    for loss in (
        lambda r: np.exp(-r),
        lambda r: relu(1 - r) ** 2,
        lambda r: (1 - r).clip(0, 2),  # ramp
        lambda r: 1 / (1 + np.exp(r / 1000)),  # very wide
        lambda r: 1 - np.tanh(1000 * r),  # very narrow
        lambda r: np.where(r > 0, 0.0, 1.0),  # zero-one, decided as rejection at r = 0
    ):
        assert surrogates.check(pair(loss)).classification_calibrated


def test_margin_losses_known_not_to_be_calibrated():
    for loss in (
        lambda r: relu(-r),  # perceptron: r = 0 is always optimal
        lambda r: relu(-r) - 1,  # negative at large scores
        lambda r: np.abs(r),  # ignores the label
        lambda r: relu(np.maximum(1 - r, 1 - 2 * r)),  # kink at 0: r = 0 is optimal for eta in (1/3, 2/3)
        lambda r: sigmoid(r),  # label the wrong way round
        lambda r: np.ones_like(r),  # constant
        lambda r: np.exp(-np.square(r)),  # rewards any large score
    ):
        assert not surrogates.check(pair(loss)).classification_calibrated


def test_a_shifted_or_weighted_loss_loses_calibration():
    def softplus(r):
        return np.logaddexp(r, 0)

    shifted = surrogates.check(lambda r: (softplus(r - 1), softplus(1 - r)))
    weighted = surrogates.check(lambda r: (2 * relu(1 + r), relu(1 - r)))
    assert not shifted.classification_calibrated
    assert not weighted.classification_calibrated
    assert [words.split(":")[0] for words in shifted.theorems] == ["regressor-consistency"]
    assert weighted.theorems == ()


@pytest.mark.parametrize("zero", [-1.0, 1 / 3, math.pi])
def test_a_zero_between_the_grid_points_is_found(zero):
    for loss in (lambda r: np.abs(r - zero), lambda r: np.square(r - zero)):
        report = surrogates.check(pair(loss))
        assert report.non_negative
        assert not report.strictly_positive


def test_a_dip_below_zero_between_the_grid_points_is_found():
    assert not surrogates.check(pair(lambda r: np.square(r - 1 / 3) - 1e-9)).non_negative
    assert not surrogates.check(pair(lambda r: -r)).non_negative


def test_underflow_is_not_taken_for_a_zero():
    assert surrogates.check(exponential).strictly_positive
    assert surrogates.check(pair(lambda r: sigmoid(-r) ** 2)).strictly_positive


@pytest.mark.parametrize(
    ("loss", "bound"),
    [
        (lambda r: (1 - r).clip(0, 2), 2.0),
        (lambda r: 1 - np.tanh(r), 2.0),
        (lambda r: 0.5 - np.arctan(r) / math.pi, 1.0),
        (lambda r: np.exp(-r), INF),
        (lambda r: np.log1p(relu(1 - r)), INF),
        (lambda r: np.log1p(np.log1p(relu(1 - r))), INF),
    ],
)
def test_bounds(loss, bound):
    report = surrogates.check(pair(loss))
    assert report.bound == bound
    assert report.bounded == math.isfinite(bound)


@pytest.mark.parametrize(
    ("loss", "constant"),
    [
        (lambda r: 3 * relu(1 - r), 3.0),
        (lambda r: 1 - np.tanh(7 * (r - 1 / 3)), 7.0),
        (lambda r: np.log1p(relu(1 - r)), 1.0),
        (lambda r: np.sqrt(1 + np.square(1 - r)), 1.0),
        (lambda r: np.exp(-r), INF),
        (lambda r: relu(1 - r) ** 1.5, INF),
        (lambda r: np.sqrt(np.abs(r - 1 / 3)).clip(None, 1), INF),  # a cusp
        (lambda r: np.where(r > 1 / 3, 0.0, 1.0), INF),  # a jump
    ],
)
def test_lipschitz_constants(loss, constant):
    report = surrogates.check(pair(loss))
    assert report.lipschitz_constant == pytest.approx(constant, rel=1e-5)
    assert report.lipschitz == math.isfinite(constant)


def test_the_report_reads_well():
    text = str(surrogates.check("sigmoid"))
    assert text.startswith("surrogate 'sigmoid'\n  non-negative              yes\n")
    assert "  bounded                   by 1\n  Lipschitz                 with constant 0.25\n" in text
    assert "- error bound: applies with M1 = 1 and rho = 0.25" in text
    assert "not covered" not in text
    assert "holds" not in str(surrogates.check(pair(lambda r: -r)))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda r: r, TypeError, r"must return a pair \(for .* got ndarray"),
        (lambda r: (r, r, r), TypeError, "must return a pair .* got 3 values"),
        (lambda r: (r, 1.0), TypeError, r"must return arrays for arrays, got float for label \+1"),
        (lambda r: (r.mean(), r), ValueError, r"must keep the shape .* \(101,\), got \(\) for label -1"),
        (lambda r: (r - r.mean(), r), ValueError, "must work element by element"),
        (lambda r: (np.log(r), r), ValueError, "must give a number for every score, got nan at r = -4.987"),
        (
            lambda r: (np.exp(r) / (1 + np.exp(r)), r),
            ValueError,
            "got nan at r = 71.*use forms that do not overflow",
        ),
    ],
)
def test_check_refuses_what_is_no_binary_loss(function, error, message):
    with pytest.raises(error, match=message):
        surrogates.check(Surrogate("mine", function))


def test_check_refuses_a_derivative_of_something_else():
    wrong = Surrogate("mine", exponential, lambda r: (np.exp(r), np.exp(-r)))  # the sign of the second is lost
    with pytest.raises(ValueError, match=r"derivative of surrogate 'mine' must be .* at r = -4.987"):
        surrogates.check(wrong)


def test_a_derivative_of_the_wrong_shape_is_refused():
    wrong = Surrogate("mine", exponential, lambda r: (r.sum(), r))
    with pytest.raises(ValueError, match="derivative of surrogate 'mine' must keep the shape"):
        wrong.derivative(np.zeros(2))
