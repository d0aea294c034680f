"""Warnings of a fit, or a cost, with which rejection cannot help."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from recuse import RcRRegressor, RcRRegressorCV, RiskRejector
from recuse.estimators.advice import RejectionWarning, warn_if_cost_out_of_range, warn_if_useless
from sample_rows import X, Y, noisy_rows

SMALL = {"epochs": 30, "n_members": 2, "learning_rate": 1e-2, "random_state": 0}
LOSSES = np.linspace(1, 9, 200)


@pytest.mark.parametrize(("loss", "accept", "reject", "better"), [(3, 2.5, 4, "accepting"), (3, 4, 3, "rejecting")])
def test_a_loss_that_beats_neither_warns_and_names_the_better_and_what_to_try(loss, accept, reject, better):
    rule = f"^rejection does not pay on the held-out rows: the RcR loss is 3, and {better} all .* Try more rows"
    with pytest.warns(RejectionWarning, match=rule):
        warn_if_useless(loss, accept, reject)


@pytest.mark.parametrize(
    ("cost", "rule"),
    [
        (0.5, r"^cost 0\.5 is below 100% of the losses; every row will be rejected$"),
        (1.05, r"^cost 1\.05 is below 99% of the losses; every row will be rejected$"),
        ([0.2, 0.5], r"^cost 0\.5 is below 100% of the losses"),
        (10.0, r"^cost 10 is above all losses \(the largest is 9\); every row will be accepted$"),
    ],
)
def test_a_cost_beyond_nearly_all_losses_warns(cost, rule):
    with pytest.warns(RejectionWarning, match=rule):
        warn_if_cost_out_of_range(cost, LOSSES)


@pytest.mark.parametrize("cost", [1.2, 5.0, 9.0, [0.5, 5.0]])
def test_a_cost_among_the_losses_does_not_warn(cost):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_cost_out_of_range(cost, LOSSES)
        warn_if_useless(1.0, 2.0, 3.0)


@pytest.mark.parametrize("model", [RcRRegressor(slow_start=10), RcRRegressorCV(cv=2)], ids=str)
def test_a_fit_at_a_cost_beyond_the_losses_warns_the_caller(model):
    for cost, outcome in ((1e-9, "rejected"), (1e9, "accepted")):
        with pytest.warns(RejectionWarning, match=f"every row will be {outcome}") as caught:
            model.set_params(cost=cost, **SMALL).fit(X, Y)
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("model", [RcRRegressor(slow_start=50), RcRRegressorCV(cv=3, batch_size=128)], ids=str)
def test_a_fit_that_pays_does_not_warn(model):
    rows, y = noisy_rows(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(cost=2.0, **{**SMALL, "epochs": 150}).fit(rows, y)


def test_a_weight_of_two_gives_the_advice_of_two_copies():
    """Noise at a cost near its variance, where rejection cannot pay."""
    random = np.random.default_rng(0)
    features, noise, weight = random.normal(size=(120, 2)), random.normal(size=120), 1 + np.arange(120) % 3
    messages = []
    for rows, options in ((np.arange(120), {"sample_weight": weight}), (np.repeat(np.arange(120), weight), {})):
        with pytest.warns(RejectionWarning, match="rejection does not pay") as caught:
            RiskRejector(Ridge(), cost=1.0, random_state=0).fit(features[rows], noise[rows], **options)
        messages.append([str(warning.message) for warning in caught])
    assert messages[0] == messages[1]
