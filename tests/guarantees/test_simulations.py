"""Certificates and budgets over many calibrations, where the truth is known."""

import math

import numpy as np
import pytest

from certificate_runs import runs
from recuse.guarantees.betting import refutes
from recuse.guarantees.request import BoundedValues

REPEATS = 150


@pytest.mark.parametrize("what", ["accepted_loss", "rcr_loss"])
@pytest.mark.parametrize("setting", runs.SETTINGS, ids=lambda setting: setting.name)
def test_promises_hold_and_more_rows_are_accepted_than_by_hoeffding_and_bentkus(setting, what, monkeypatch):
    monkeypatch.setattr(runs, "TRUTH", 200_000)
    results = runs.simulate(setting, what, REPEATS, ["recuse", "Hoeffding-Bentkus"])
    ours = results["recuse"]
    error = math.sqrt(runs.DELTA * (1 - runs.DELTA) / REPEATS)
    assert ours.violations.mean() <= runs.DELTA + 3 * error
    assert ours.coverage.mean() > results["Hoeffding-Bentkus"].coverage.mean()


@pytest.mark.parametrize("by_group", [True, False])
def test_promises_about_groups_hold_where_rows_of_a_group_share_their_loss(by_group):
    """Each group of five rows has one loss, 2 or 0, and the mean equals the target; counting rows is wrong."""
    random = np.random.default_rng(0)
    loss = np.repeat(2.0 * (random.random((80, 600)) < 0.5), 5, axis=0)
    accepted = random.random(loss.shape) < 0.8
    starts = np.arange(0, len(loss), 5)
    values = BoundedValues.of_rows(loss, None, 1.0, 2.5, 2.5, starts if by_group else None)
    of_draws, used = values.at(accepted[..., None])
    false = refutes(of_draws, values.mean, runs.DELTA, used).mean()
    assert (false <= 0.07) if by_group else (false > 0.1)


@pytest.mark.parametrize("target", [0.2, 0.5, 1.0])
def test_certificates_accept_nearly_as_much_as_the_best_threshold(target):
    coverage, best, refused = runs.usefulness(target, repeats=5)
    assert refused == 0
    assert coverage >= 0.85 * best


def test_budgets_are_kept_on_average():
    for _, n_rows, *shares, most in runs.budgets(200):
        assert max(shares) <= most + 0.005 + 0.3 / n_rows
