"""The refusal to certify, with what it would take."""

from __future__ import annotations

import math

import numpy as np

from recuse.guarantees.betting import bets_to_choose_from
from recuse.guarantees.certificate import CannotCertify, needed_rows
from recuse.guarantees.request import CertificationRequest, ScoredRows

__all__ = ["refusal"]


def refusal(request: CertificationRequest, rows: ScoredRows, threshold: float, n_draws: int) -> CannotCertify:
    """Return the error for the tested rows at the first threshold, with what it would take.

    `n_draws` counts the draws that were set aside, too: of more rows, the same share would be set aside.
    """
    accepted = rows.score > threshold
    values, level = request.values(rows), request.attempt.level
    of_draws, used = values.at(accepted[:, None])
    counted = of_draws[:, 0] if used is None else of_draws[used[:, 0], 0]
    least = needed_rows(values.mean, level)
    share = len(counted) / n_draws
    name = "mean loss of accepted rows" if request.what == "accepted_loss" else "RcR loss"
    unit, with_accepted = ("rows", "accepted rows") if rows.draw is None else ("groups", "groups with accepted rows")
    of_groups = "" if rows.draw is None else f" in {rows.n_draws:,} groups"
    start = (
        f"cannot certify a {name} of at most {request.target:g} with confidence {1 - request.delta:g} and bound "
        f"{request.bound:g} from {len(accepted):,} calibration rows{of_groups}{_of_attempt(request)}"
    )
    kind = with_accepted if request.what == "accepted_loss" else unit
    minimum = f"it takes at least {least:,} {kind}, even without any loss"
    if len(counted) == 0:
        return CannotCertify(f"{start}: no row is accepted at the first threshold; {minimum}", least, None)
    mean = request.observed(rows, accepted)
    seen = f"at the first threshold {int(accepted.sum()):,} are accepted and the {name} is {mean:.4g}"
    growth = float(np.log1p(-bets_to_choose_from(values.mean)[:, None] * (counted - values.mean)).mean(axis=1).max())
    if growth <= 0 or counted.mean() >= values.mean:
        advice = "so more rows would not help, but a higher target or a better model"
        return CannotCertify(f"{start}: {seen}, {advice}; {minimum}", least, None)
    total = math.ceil(max(least, math.log(1 / level) / growth) / share)
    unit = "calibration rows" if rows.draw is None else unit
    hint = f"{minimum}, that is {math.ceil(least / share):,} {unit} at this coverage"
    return CannotCertify(f"{start}: {seen}; {hint}, and about {total:,} with such losses", least, total)


def _of_attempt(request: CertificationRequest) -> str:
    attempt = request.attempt
    if attempt.number == 1 or attempt.level == request.delta:  # the level is not corrected for earlier attempts
        return ""
    return f" in attempt {attempt.number} with these rows, tested at level {attempt.level:.3g}"
